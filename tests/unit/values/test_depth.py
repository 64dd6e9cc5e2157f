"""Depth is the same whether measured on a value or on its text."""

from typing import Any

import pytest

from rote.values import canonical, depth_of
from rote.values.depth import text_is_deeper


@pytest.mark.parametrize(
    ("value", "depth"),
    [
        (1, 0),
        ("[[", 0),
        ([], 1),
        ({}, 1),
        ((), 1),
        ([[]], 2),
        ({"a": [1, {"b": ()}]}, 4),
        ([[], 1, [[]]], 3),
    ],
)
def test_depth_counts_containers_on_the_longest_way_down(value: Any, depth: int) -> None:
    assert depth_of(value) == depth
    text = canonical(value)
    assert not text_is_deeper(text, depth)
    assert depth == 0 or text_is_deeper(text, depth - 1)


def test_depth_of_a_hundred_thousand_levels_needs_no_recursion() -> None:
    value: Any = 0
    for _ in range(100_000):
        value = [value]
    assert depth_of(value) == 100_000


@pytest.mark.parametrize(
    ("text", "deeper"),
    [
        (b"]" * 10 + b"[" * 2, False),
        (b"[[[", True),
        (b"][][][", False),
        (b'"[[[', False),
        (b'["\\"[[["]', False),
        (b'["\\\\",[["x"]]]', True),
        (b"[{[}]}", True),
    ],
)
def test_text_that_is_not_json_has_a_depth_too(text: bytes, deeper: bool) -> None:
    assert text_is_deeper(text, 2) is deeper

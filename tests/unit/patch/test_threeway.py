"""Merging two values that came from one."""

from typing import Any

import pytest
from hypothesis import given

from rote.patch.threeway import MISSING, Merged, merge
from rote.testing.merge_model import merge_paths
from rote.testing.strategies import json_values
from rote.values import canonical


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "expected"),
    [
        (1, 1, 2, 2),
        (1, 2, 1, 2),
        (1, 2, 2, 2),
        ({"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 2}),
        ({"a": 1}, {"a": 1, "b": 1}, {"a": 1, "c": 1}, {"a": 1, "b": 1, "c": 1}),
        ({"a": 1, "b": 1}, {"b": 1}, {"a": 1}, {}),
        ({"a": 1, "b": 1}, {"a": 1}, {"a": 1}, {"a": 1}),
        ({"a": {"x": 1, "y": 1}}, {"a": {"x": 2, "y": 1}}, {"a": {"x": 1}}, {"a": {"x": 2}}),
        (MISSING, {"a": 1}, {"b": 1}, {"a": 1, "b": 1}),
        (7, {"a": 1}, {"b": 1}, {"a": 1, "b": 1}),
        ([1], [1], [1, 2], [1, 2]),
        ({"a": None}, {"a": None, "b": None}, {}, {"b": None}),
        ({"a": 1.0}, {"a": 1}, {"a": 2}, {"a": 2}),
    ],
)
def test_changes_that_do_not_meet_are_merged(
    base: Any, ours: Any, theirs: Any, expected: Any
) -> None:
    merged = merge(base, ours, theirs)
    assert merged is not None
    assert canonical(merged.value) == canonical(expected)


@pytest.mark.parametrize(
    ("base", "ours", "theirs"),
    [
        (1, 2, 3),
        ([1], [1, 2], [0, 1]),
        ({"a": 1}, {"a": 2}, {"a": 3}),
        ({"a": 1}, {"a": 2}, {}),
        ({"a": 1}, {"a": 2}, [1]),
        (MISSING, {"a": 1}, {"a": 2}),
        (MISSING, {"a": 1}, 5),
        ({"a": {"x": 1}}, {"a": {"x": 2}}, {"a": {"x": 3}, "b": 1}),
    ],
)
def test_changes_that_meet_are_a_conflict(base: Any, ours: Any, theirs: Any) -> None:
    assert merge(base, ours, theirs) is None
    assert merge(base, theirs, ours) is None


@given(json_values(), json_values(), json_values())
def test_both_ways_of_merging_agree(base: Any, ours: Any, theirs: Any) -> None:
    merged, expected = merge(base, ours, theirs), merge_paths([base], [ours], [theirs])
    assert (merged is None) == (expected is None)
    if merged is not None and expected is not None:
        assert canonical(merged.value) == canonical(expected[0])


@given(json_values(), json_values())
def test_what_one_side_left_alone_is_the_others(base: Any, other: Any) -> None:
    for merged in (merge(base, base, other), merge(base, other, base), merge(base, other, other)):
        assert isinstance(merged, Merged)
        assert canonical(merged.value) == canonical(other)


@given(json_values(), json_values(), json_values())
def test_sides_may_change_places(base: Any, ours: Any, theirs: Any) -> None:
    here, there = merge(base, ours, theirs), merge(base, theirs, ours)
    assert (here is None) == (there is None)
    if here is not None and there is not None:
        assert canonical(here.value) == canonical(there.value)


def test_values_nested_as_deep_as_allowed_are_merged() -> None:
    def deep(leaf: Any) -> Any:
        for _ in range(63):
            leaf = {"a": leaf}
        return leaf

    merged = merge(deep({}), deep({"l": 1}), deep({"r": 1}))
    assert merged is not None
    assert canonical(merged.value) == canonical(deep({"l": 1, "r": 1}))

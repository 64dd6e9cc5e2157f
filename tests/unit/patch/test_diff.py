"""Differences are patches: short for common changes, right for all."""

from collections.abc import Callable
from typing import Any

import pytest

from rote.errors import InvalidValue
from rote.patch import apply, diff
from rote.values import canonical

ROWS = [{"id": index, "name": f"name {index}", "tags": ["a", "b"]} for index in range(50)]


def changed(rows: list[dict[str, Any]], at: int, **members: Any) -> list[dict[str, Any]]:
    return [*rows[:at], {**rows[at], **members}, *rows[at + 1 :]]


DIFFERENCES: list[tuple[Any, Any, list[dict[str, Any]]]] = [
    ({"a": 1}, {"a": 1.0}, []),
    ([1, (2,)], (1, [2]), []),
    (1, 2, [{"op": "replace", "path": "", "value": 2}]),
    (1, True, [{"op": "replace", "path": "", "value": True}]),
    ({"a": 0}, {"a": False}, [{"op": "replace", "path": "/a", "value": False}]),
    ({}, [], [{"op": "replace", "path": "", "value": []}]),
    ({"a": None}, {}, [{"op": "remove", "path": "/a"}]),
    ({}, {"a": None}, [{"op": "add", "path": "/a", "value": None}]),
    (
        {"c": 1, "a": 1, "~/": 1},
        {"b": 2, "a": 2, "~/": 2},
        [
            {"op": "replace", "path": "/a", "value": 2},
            {"op": "add", "path": "/b", "value": 2},
            {"op": "remove", "path": "/c"},
            {"op": "replace", "path": "/~0~1", "value": 2},
        ],
    ),
    (
        {"a": {"b": {"c": 1}}},
        {"a": {"b": {"c": 2}}},
        [{"op": "replace", "path": "/a/b/c", "value": 2}],
    ),
    ({"a": 1}, {"b": 1}, [{"op": "replace", "path": "", "value": {"b": 1}}]),
    ([1, 2, 3], [1, 3], [{"op": "splice", "path": "", "index": 1, "remove": 1, "add": []}]),
    ([1, 3], [1, 2, 3], [{"op": "splice", "path": "", "index": 1, "remove": 0, "add": [2]}]),
    ([1, 1], [1, 1, 1], [{"op": "splice", "path": "", "index": 2, "remove": 0, "add": [1]}]),
    ([], [1], [{"op": "splice", "path": "", "index": 0, "remove": 0, "add": [1]}]),
    (
        [1, 2, 3, 4],
        [1, 7, 8, 4],
        [{"op": "splice", "path": "", "index": 1, "remove": 2, "add": [7, 8]}],
    ),
    (
        {"r": ROWS},
        {"r": changed(ROWS, 30, id=0)},
        [{"op": "replace", "path": "/r/30/id", "value": 0}],
    ),
    (
        ROWS,
        changed(changed(ROWS, 0, name="x"), 49, tags=["a", "b", "c"]),
        [
            {"op": "replace", "path": "/0/name", "value": "x"},
            {"op": "splice", "path": "/49/tags", "index": 2, "remove": 0, "add": ["c"]},
        ],
    ),
    (
        ROWS,
        [ROWS[0], *ROWS[2:]],
        [{"op": "splice", "path": "", "index": 1, "remove": 1, "add": []}],
    ),
]


@pytest.mark.parametrize(("before", "after", "operations"), DIFFERENCES)
def test_the_difference_is_the_patch_of_the_table(
    before: Any, after: Any, operations: list[dict[str, Any]]
) -> None:
    assert diff(before, after) == operations
    assert canonical(apply(before, operations)) == canonical(after)


def test_a_small_change_far_down_makes_a_small_patch() -> None:
    before: Any = {"leaf": 1, "more": "x" * 1000}
    after: Any = {"leaf": 2, "more": "x" * 1000}
    for _ in range(30):
        before, after = {"k": [0, before]}, {"k": [0, after]}
    assert diff(before, after) == [
        {"op": "replace", "path": "/k/1" * 30 + "/leaf", "value": 2},
    ]


KINDS: dict[str, Callable[[int], Any]] = {
    "rows": lambda number: {"id": number, "name": f"name {number}", "tags": ["a", "b"]},
    "numbers": lambda number: number,
    "repeated": lambda number: number % 7,
    "words": lambda number: ("yes", "no", "maybe")[number * number % 3],
    "wide": lambda number: {f"member {place}": number + place for place in range(20)},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("places", [(20, 15_000), (15_000, 20), (7_000, 7_001), (7_000, 7_000)])
def test_an_insertion_and_a_deletion_in_a_long_array_are_few_operations(
    kind: str, places: tuple[int, int]
) -> None:
    """The elements between the two once were changed one by one: thousands of operations."""
    before = [KINDS[kind](number) for number in range(16_000 if kind != "wide" else 8_000)]
    after = list(before)
    del after[places[0] % len(after)]
    after.insert(places[1] % len(after), KINDS[kind](99_999))
    operations = diff(before, after)
    assert len(operations) <= 10
    assert canonical(apply(before, operations)) == canonical(after)


def test_changed_rows_beside_new_ones_are_changed_and_not_sent_again() -> None:
    rows = [{**row, "text": "x" * 300} for row in ROWS]
    after = [rows[3], *changed(rows, 30, id=0), rows[7]]
    operations = diff(rows, after)
    assert {"op": "replace", "path": "/31/id", "value": 0} in operations
    assert [operation["op"] for operation in operations] == ["splice", "replace", "splice"]


def test_an_element_that_was_replaced_by_another_is_sent_whole() -> None:
    before = [{"id": 1, "name": "Ada", "tags": ["a"], "age": 36}, *ROWS]
    after = [{"id": 2, "name": "Bob", "tags": [], "age": 7}, *ROWS]
    assert diff(before, after) == [
        {"op": "splice", "path": "", "index": 0, "remove": 1, "add": after[:1]}
    ]


@pytest.mark.parametrize("pair", [({1}, 1), (1, {1}), ([float("nan")], [float("nan")])])
def test_what_is_not_a_value_has_no_difference(pair: Any) -> None:
    with pytest.raises(InvalidValue):
        diff(*pair)

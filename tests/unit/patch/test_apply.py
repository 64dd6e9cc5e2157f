"""Applying patches: RFC 6902 strictly, `splice`, and no change of the caller's values."""

import copy
from typing import Any

import pytest

from rote import patch
from rote.errors import LimitExceeded, PatchFailed
from rote.patch import apply, normalize, replay
from rote.values import canonical
from rote.values.limits import VALUE_BYTES_MAX

APPLIES: list[tuple[Any, list[dict[str, Any]], Any]] = [
    ({"a": 1}, [], {"a": 1}),
    ({"a": 1}, [{"op": "add", "path": "/b", "value": None}], {"a": 1, "b": None}),
    ({"a": 1}, [{"op": "add", "path": "/a", "value": 2}], {"a": 2}),
    ({"a": 1}, [{"op": "add", "path": "", "value": [1]}], [1]),
    (5, [{"op": "replace", "path": "", "value": 6}], 6),
    ([1, 3], [{"op": "add", "path": "/1", "value": 2}], [1, 2, 3]),
    ([1], [{"op": "add", "path": "/1", "value": 2}], [1, 2]),
    ([1], [{"op": "add", "path": "/-", "value": 2}], [1, 2]),
    ({"-": 1}, [{"op": "remove", "path": "/-"}], {}),
    ({"01": 1}, [{"op": "replace", "path": "/01", "value": 2}], {"01": 2}),
    ({"": {"": 1}}, [{"op": "remove", "path": "//"}], {"": {}}),
    ([1, 2, 3], [{"op": "remove", "path": "/1"}], [1, 3]),
    ({"a": {"b": 1}}, [{"op": "move", "from": "/a/b", "path": "/c"}], {"a": {}, "c": 1}),
    ({"a": 1}, [{"op": "move", "from": "/a", "path": "/a"}], {"a": 1}),
    ({"a": 1}, [{"op": "move", "from": "", "path": ""}], {"a": 1}),
    ({"a": {"b": 1}}, [{"op": "move", "from": "/a", "path": ""}], {"b": 1}),
    ({"a": 1, "ab": {}}, [{"op": "move", "from": "/a", "path": "/ab/x"}], {"ab": {"x": 1}}),
    ([1, 2, 3], [{"op": "move", "from": "/0", "path": "/2"}], [2, 3, 1]),
    ([1, 2, 3], [{"op": "move", "from": "/2", "path": "/-"}], [1, 2, 3]),
    ({"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1], "b": [1]}),
    ({"a": 1}, [{"op": "copy", "from": "", "path": "/b"}], {"a": 1, "b": {"a": 1}}),
    ({"a": 1}, [{"op": "test", "path": "/a", "value": 1.0}], {"a": 1}),
    (
        {"a": {"x": 1, "y": 2}},
        [{"op": "test", "path": "/a", "value": {"y": 2, "x": 1}}],
        {"a": {"x": 1, "y": 2}},
    ),
    ([(1, 2)], [{"op": "add", "path": "/0/1", "value": 9}], [[1, 9, 2]]),
    (
        [1, 2, 3],
        [{"op": "splice", "path": "", "index": 1, "remove": 1, "add": [7, 8]}],
        [1, 7, 8, 3],
    ),
    ([1, 2], [{"op": "splice", "path": "", "index": 2, "remove": 5, "add": [3]}], [1, 2, 3]),
    ([1, 2], [{"op": "splice", "path": "", "index": 0, "remove": 10**15, "add": []}], []),
    ({"a": []}, [{"op": "splice", "path": "/a", "index": 0, "remove": 0, "add": ()}], {"a": []}),
    (
        {"a": [1, 2]},
        [
            {"op": "copy", "from": "/a", "path": "/b"},
            {"op": "add", "path": "/b/-", "value": 3},
            {"op": "remove", "path": "/a/0"},
        ],
        {"a": [2], "b": [1, 2, 3]},
    ),
    (
        {"a": {"k": [0]}},
        [
            {"op": "add", "path": "/a/k/-", "value": 1},
            {"op": "copy", "from": "/a", "path": "/b"},
            {"op": "add", "path": "/b/k/-", "value": 2},
            {"op": "copy", "from": "/b", "path": "/a/k/0"},
            {"op": "add", "path": "/a/k/0/k/-", "value": 3},
        ],
        {"a": {"k": [{"k": [0, 1, 2, 3]}, 0, 1]}, "b": {"k": [0, 1, 2]}},
    ),
]


@pytest.mark.parametrize(("value", "operations", "after"), APPLIES)
def test_a_patch_gives_the_value_of_the_table_and_changes_nothing_else(
    value: Any, operations: list[dict[str, Any]], after: Any
) -> None:
    before = copy.deepcopy((value, operations))
    assert canonical(apply(value, operations)) == canonical(after)
    assert (value, operations) == before


FAILS: list[tuple[Any, dict[str, Any], str, str]] = [
    ({}, {"op": "remove", "path": ""}, "", "delete the entity"),
    ({}, {"op": "remove", "path": "/a"}, "/a", "no member 'a'"),
    ({}, {"op": "replace", "path": "/a", "value": 1}, "/a", "no member"),
    ({}, {"op": "test", "path": "/a", "value": None}, "/a", "no member"),
    ({}, {"op": "add", "path": "/a/b", "value": 1}, "/a/b", "no member 'a'"),
    ({"a": 1}, {"op": "add", "path": "/a/b", "value": 1}, "/a/b", "neither object nor array"),
    ({"a": "text"}, {"op": "add", "path": "/a/0", "value": 1}, "/a/0", "neither object nor array"),
    ({"a": None}, {"op": "remove", "path": "/a/b"}, "/a/b", "neither object nor array"),
    ({"a": "text"}, {"op": "test", "path": "/a/0", "value": "t"}, "/a/0", "neither"),
    ([], {"op": "add", "path": "/1", "value": 1}, "/1", "past the end"),
    ([1], {"op": "replace", "path": "/1", "value": 1}, "/1", "past the end"),
    ([1], {"op": "remove", "path": "/1"}, "/1", "past the end"),
    ([1], {"op": "remove", "path": "/-"}, "/-", "not an array index"),
    ([1], {"op": "replace", "path": "/-", "value": 1}, "/-", "not an array index"),
    ([1], {"op": "add", "path": "/01", "value": 1}, "/01", "not an array index"),
    ([1], {"op": "add", "path": "/-1", "value": 1}, "/-1", "not an array index"),
    ([1], {"op": "add", "path": "/a", "value": 1}, "/a", "not an array index"),
    ([1], {"op": "add", "path": "/1e0", "value": 1}, "/1e0", "not an array index"),
    ([[1]], {"op": "add", "path": "/00/0", "value": 1}, "/00/0", "not an array index"),
    (
        [1],
        {"op": "add", "path": "/" + "9" * 100, "value": 1},
        "/" + "9" * 100,
        "not an array index",
    ),
    ({"a": {"b": 1}}, {"op": "move", "from": "/a", "path": "/a/b"}, "/a/b", "own child"),
    ({"a": 1}, {"op": "move", "from": "", "path": "/a"}, "/a", "own child"),
    ({}, {"op": "move", "from": "/a", "path": "/a"}, "/a", "no member"),
    ({"b": 1}, {"op": "move", "from": "/a", "path": "/b"}, "/a", "no member"),
    ([1, 2], {"op": "move", "from": "/0", "path": "/2"}, "/2", "past the end"),
    ({"b": 1}, {"op": "copy", "from": "/a", "path": "/b"}, "/a", "no member"),
    ({"a": 1}, {"op": "test", "path": "/a", "value": True}, "/a", "not the expected"),
    ({"a": 0}, {"op": "test", "path": "/a", "value": False}, "/a", "not the expected"),
    ({"a": [1]}, {"op": "test", "path": "/a", "value": {"0": 1}}, "/a", "not the expected"),
    ({"a": "1"}, {"op": "test", "path": "/a", "value": 1}, "/a", "not the expected"),
    ({"a": None}, {"op": "test", "path": "/a", "value": False}, "/a", "not the expected"),
    ({}, {"op": "splice", "path": "", "index": 0, "remove": 0, "add": []}, "", "needs an array"),
    ("ab", {"op": "splice", "path": "", "index": 0, "remove": 0, "add": []}, "", "needs an array"),
    ({}, {"op": "splice", "path": "/a", "index": 0, "remove": 0, "add": []}, "/a", "no member"),
    ([1], {"op": "splice", "path": "", "index": 2, "remove": 0, "add": []}, "", "past the end"),
]


@pytest.mark.parametrize(("value", "operation", "pointer", "reason"), FAILS)
def test_an_operation_that_does_not_apply_is_named_and_aborts_all(
    value: Any, operation: dict[str, Any], pointer: str, reason: str
) -> None:
    before = copy.deepcopy(value)
    with pytest.raises(PatchFailed, match=reason) as caught:
        apply(value, [{"op": "test", "path": "", "value": value}, operation])
    assert caught.value.details["index"] == 1
    assert caught.value.details["pointer"] == pointer
    assert value == before


def test_a_value_can_be_copied_into_itself() -> None:
    # Found by the property test: the list was our own copy already, and was inserted into itself.
    operations = [
        {"op": "add", "path": "/0", "value": None},
        {"op": "copy", "from": "", "path": "/0"},
        {"op": "copy", "from": "", "path": "/-"},
    ]
    assert apply([], operations) == [[None], None, [[None], None]]


@pytest.mark.parametrize("start", [["some text"], {"a": "x" * 5_000_000}])
def test_copies_that_double_each_time_meet_a_limit(start: Any) -> None:
    growing = [
        {"op": "copy", "from": "", "path": "/-" if isinstance(start, list) else f"/{index}"}
        for index in range(60)
    ]
    with pytest.raises(LimitExceeded) as caught:
        apply(start, growing)
    assert caught.value.details["limit"] == VALUE_BYTES_MAX
    assert apply(start, growing[:2])
    assert replay(start, [growing[:1]] * 2)


def test_a_copied_container_is_another_one() -> None:
    after = apply({"a": [[1]]}, [{"op": "copy", "from": "/a", "path": "/b"}])
    after["a"][0].append(2)
    assert after["b"] == [[1]]


def test_malformed_operations_are_found_before_any_is_applied() -> None:
    with pytest.raises(PatchFailed) as caught:
        apply({}, [{"op": "remove", "path": "/missing"}, {"op": "spam", "path": "/a"}])
    assert caught.value.details["index"] == 1


def test_what_did_not_change_is_shared_with_the_value_before() -> None:
    value = {"a": [1, [2]], "b": {"c": {}}, "d": [[3]]}
    after = apply(value, [{"op": "add", "path": "/b/c/x", "value": 1}])
    assert after["a"] is value["a"]
    assert after["d"] is value["d"]
    assert after["b"] is not value["b"]


def test_many_operations_on_one_list_copy_it_once() -> None:
    value = list(range(100_000))
    operations = [{"op": "replace", "path": f"/{index}", "value": 0} for index in range(20_000)]
    # Copying the list each time would touch two thousand million elements.
    assert apply(value, operations)[19_999:20_001] == [0, 20_000]
    assert value[:3] == [0, 1, 2]


def test_replaying_the_same_patch_twice_does_not_mix_its_values() -> None:
    operations = normalize(
        [
            {"op": "add", "path": "/log/-", "value": {"seen": []}},
            {"op": "add", "path": "/log/0/seen/-", "value": 1},
        ]
    )
    kept = copy.deepcopy(operations)
    after = replay({"log": []}, [operations, operations])
    assert after == {"log": [{"seen": [1, 1]}, {"seen": []}]}
    assert operations == kept


def test_replay_leaves_its_input_and_earlier_answers_alone() -> None:
    value = {"a": [1], "b": {"c": [2]}}
    patches = [normalize([{"op": "add", "path": "/a/-", "value": index}]) for index in range(5)]
    answers = [replay(value, patches[:count]) for count in range(6)]
    assert [len(answer["a"]) for answer in answers] == [1, 2, 3, 4, 5, 6]
    assert value == {"a": [1], "b": {"c": [2]}}


def test_a_failing_operation_of_a_replay_is_counted_within_its_patch() -> None:
    fine = normalize([{"op": "add", "path": "/x", "value": 1}])
    bad = normalize([{"op": "test", "path": "/x", "value": 1}, {"op": "remove", "path": "/y"}])
    with pytest.raises(PatchFailed) as caught:
        replay({}, [fine, bad])
    assert caught.value.details["index"] == 1


def test_apply_and_diff_of_the_package_are_the_functions() -> None:
    assert patch.apply({}, []) == {}
    assert patch.diff({}, {}) == []

"""The normal form of operations, and every way in which they have none."""

from typing import Any

import pytest

from rote.errors import InvalidInput, InvalidValue, PatchFailed
from rote.patch import encode_operations, normalize


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_the_normal_form_keeps_the_known_members_in_their_order() -> None:
    operations = [
        {"x": 1, "value": None, "path": "/a", "op": "add", "from": "/b"},
        {"path": "/a", "op": "remove", "value": {1, 2}},
        {"value": [1], "path": "", "op": "replace"},
        {"op": "move", "path": "/a", "from": "/b"},
        {"op": "copy", "from": "/b", "path": "/a"},
        {"op": "test", "path": "/a", "value": False},
        {"add": (1,), "remove": 0, "index": 2, "path": "/a", "op": "splice", "value": 1},
    ]
    normal = normalize(operations)
    assert normal == [
        {"op": "add", "path": "/a", "value": None},
        {"op": "remove", "path": "/a"},
        {"op": "replace", "path": "", "value": [1]},
        {"op": "move", "path": "/a", "from": "/b"},
        {"op": "copy", "path": "/a", "from": "/b"},
        {"op": "test", "path": "/a", "value": False},
        {"op": "splice", "path": "/a", "index": 2, "remove": 0, "add": (1,)},
    ]
    assert normalize(normal) == normal
    assert [list(operation) for operation in normal[:3]] == [
        ["op", "path", "value"],
        ["op", "path"],
        ["op", "path", "value"],
    ]


def test_an_empty_patch_is_its_own_normal_form() -> None:
    assert normalize([]) == normalize(()) == []


@pytest.mark.parametrize(
    "operations", [None, {}, "[]", 1, iter([]), {"op": "remove", "path": "/a"}]
)
def test_a_patch_is_a_list(operations: Any) -> None:
    with pytest.raises(InvalidInput, match="list of operations"):
        normalize(operations)


MALFORMED: list[tuple[Any, str]] = [
    (None, "object"),
    ([], "object"),
    ("add", "object"),
    ({}, "not one of"),
    ({"op": "spam", "path": "/a"}, "not one of"),
    ({"op": "ADD", "path": "/a", "value": 1}, "not one of"),
    ({"op": None, "path": "/a"}, "not one of"),
    ({"op": ["add"], "path": "/a"}, "not one of"),
    ({"op": "add", "value": 1}, "'path'"),
    ({"op": "add", "path": "/a"}, "'value'"),
    ({"op": "replace", "path": "/a"}, "'value'"),
    ({"op": "test", "path": "/a"}, "'value'"),
    ({"op": "remove"}, "'path'"),
    ({"op": "move", "path": "/a"}, "'from'"),
    ({"op": "copy", "path": "/a"}, "'from'"),
    ({"op": "copy", "from": "/a"}, "'path'"),
    ({"op": "remove", "path": "a"}, "start with"),
    ({"op": "remove", "path": "/~2"}, "~0"),
    ({"op": "remove", "path": None}, "str"),
    ({"op": "remove", "path": ["a"]}, "str"),
    ({"op": "move", "path": "/a", "from": "b"}, "'from'"),
    ({"op": "move", "path": "/a", "from": 1}, "'from'"),
    ({"op": "splice", "path": "/a", "remove": 0, "add": []}, "'index'"),
    ({"op": "splice", "path": "/a", "index": 0, "add": []}, "'remove'"),
    ({"op": "splice", "path": "/a", "index": 0, "remove": 0}, "'add'"),
    ({"op": "splice", "path": "/a", "index": -1, "remove": 0, "add": []}, "'index'"),
    ({"op": "splice", "path": "/a", "index": 0, "remove": -1, "add": []}, "'remove'"),
    ({"op": "splice", "path": "/a", "index": True, "remove": 0, "add": []}, "'index'"),
    ({"op": "splice", "path": "/a", "index": 0, "remove": False, "add": []}, "'remove'"),
    ({"op": "splice", "path": "/a", "index": 0.0, "remove": 0, "add": []}, "'index'"),
    ({"op": "splice", "path": "/a", "index": "0", "remove": 0, "add": []}, "'index'"),
    ({"op": "splice", "path": "/a", "index": 0, "remove": 1.0, "add": []}, "'remove'"),
    ({"op": "splice", "path": "/a", "index": 0, "remove": None, "add": []}, "'remove'"),
    ({"op": "splice", "path": "/a", "index": 0, "remove": 0, "add": {}}, "list"),
    ({"op": "splice", "path": "/a", "index": 0, "remove": 0, "add": "abc"}, "list"),
    ({"op": "splice", "path": "/a", "index": 0, "remove": 0, "add": None}, "list"),
]


@pytest.mark.parametrize(("operation", "reason"), MALFORMED)
def test_a_malformed_operation_is_named(operation: Any, reason: str) -> None:
    with pytest.raises(PatchFailed, match=reason) as caught:
        normalize([{"op": "remove", "path": "/a"}, operation])
    assert caught.value.details["index"] == 1


@pytest.mark.parametrize(
    ("operation", "pointer"),
    [
        ({"op": "add", "path": "/a", "value": float("nan")}, "/1/value"),
        ({"op": "replace", "path": "/a", "value": {"x": [{1}]}}, "/1/value/x/0"),
        ({"op": "test", "path": "/a", "value": 2**63}, "/1/value"),
        ({"op": "splice", "path": "/a", "index": 0, "remove": 0, "add": [1, b""]}, "/1/add/1"),
        ({"op": "splice", "path": "/a", "index": 2**63, "remove": 0, "add": []}, "/1/index"),
        ({"op": "splice", "path": "/a", "index": 0, "remove": 2**63, "add": []}, "/1/remove"),
        ({"op": "remove", "path": "/\ud800"}, "/1/path"),
        ({"op": "move", "path": "/a", "from": "/\ud800"}, "/1/from"),
    ],
)
def test_a_value_outside_the_domain_is_named(operation: Any, pointer: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        normalize([{"op": "remove", "path": "/a"}, operation])
    assert caught.value.details["pointer"] == pointer


def test_the_list_around_a_value_does_not_count_as_depth() -> None:
    add = {"op": "add", "path": "/a", "value": nested(64)}
    splice = {"op": "splice", "path": "/a", "index": 0, "remove": 0, "add": [nested(64)]}
    assert encode_operations(normalize([add, splice])).count(b"[") == 64 + 65 + 1
    for deeper in ({**add, "value": nested(65)}, {**splice, "add": [nested(65)]}):
        with pytest.raises(InvalidValue, match="deeper"):
            normalize([deeper])

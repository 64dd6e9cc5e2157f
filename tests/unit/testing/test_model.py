"""The model agrees with the contract, shown on cases small enough to check by eye."""

from typing import Any

import pytest

from rote.errors import Conflict, InvalidInput, NotFound, PatchFailed, PayloadMismatch
from rote.testing.model import ModelState, Refused, SpaceModel

A, B = "urn:a", "urn:b"
AT = "2026-01-01T12:00:00.000000Z"
LATER = "2026-01-01T12:00:01.000000Z"


def put(id: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"op": "set", "id": id, "value": value, **more}


def filled() -> SpaceModel:
    model = SpaceModel()
    model.transact([put(A, {"n": 1}), put(B, 2)], now=AT)
    add = {"op": "add", "path": "/m", "value": 2}
    model.transact([{"op": "patch", "id": A, "ops": [add]}], now=LATER)
    model.transact([{"op": "delete", "id": A}], now=AT)
    return model


def test_states_are_folded_up_to_a_version() -> None:
    model = filled()
    assert [model.read(A, version) for version in range(4)] == [
        ModelState(None, False, 0),
        ModelState({"n": 1}, True, 1),
        ModelState({"n": 1, "m": 2}, True, 2),
        ModelState(None, False, 3),
    ]
    assert model.scan() == [B]
    assert model.scan(version=2, after=A) == [B]
    assert model.scan(version=2, limit=1) == [A]


def test_time_never_goes_back() -> None:
    model = filled()
    assert [commit.at for commit in model.commits] == [AT, LATER, LATER]
    assert (model.version_at(AT), model.version_at(LATER)) == (1, 3)


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ({"op": "delete", "id": A}, NotFound),
        ({"op": "patch", "id": A, "ops": []}, NotFound),
        ({"op": "patch", "id": B, "ops": [{"op": "remove", "path": "/x"}]}, PatchFailed),
        (put(A, 1, stamp=["/at"]), InvalidInput),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(
    operation: dict[str, Any], kind: type[Exception]
) -> None:
    model = filled()
    with pytest.raises(Refused) as caught:
        model.transact([put(B, 3), operation], now=AT)
    assert caught.value.kind is kind
    assert (model.version, model.read(B).value) == (3, 2)


def test_a_key_stands_for_its_operations() -> None:
    model = SpaceModel()
    made = model.transact([put(A, {"n": 1.0})], key="k", now=AT)
    assert model.transact([put(A, {"n": 1})], key="k", now=LATER) is made
    with pytest.raises(Refused) as caught:
        model.transact([put(A, 2)], key="k", now=AT)
    assert caught.value.kind is PayloadMismatch


@pytest.mark.parametrize(
    ("read", "version"),
    [
        ({"id": A}, 3),
        ({"id": A, "path": "/m"}, 3),
        ({"prefix": "urn:"}, 3),
        ({"from": "urn:a", "to": "urn:b"}, 3),
        ({"id": B}, 1),
        ({"from": "urn:b", "to": None}, 1),
    ],
)
def test_a_conflict_names_the_newest_overlapping_write(read: dict[str, Any], version: int) -> None:
    model = filled()
    with pytest.raises(Refused) as caught:
        model.transact([put(A, 1)], reads=[{**read, "version": 0}], now=AT)
    assert caught.value.kind is Conflict
    assert [conflict.version for conflict in caught.value.conflicts] == [version]


@pytest.mark.parametrize(
    ("path", "operation", "conflicts"),
    [
        ("/n", {"op": "replace", "path": "/n", "value": 1}, True),
        ("/n/deep", {"op": "replace", "path": "/n", "value": 1}, True),
        ("/m", {"op": "replace", "path": "/n", "value": 1}, False),
        ("/items/0", {"op": "add", "path": "/items/1", "value": 1}, True),
        ("/items/0", {"op": "replace", "path": "/items/1", "value": 1}, False),
        ("/n", {"op": "test", "path": "/n", "value": 0}, False),
        ("/n", {"op": "copy", "from": "/n", "path": "/m"}, False),
        ("/n", {"op": "move", "from": "/n", "path": "/m"}, True),
    ],
)
def test_paths_overlap_by_the_rules_of_the_contract(
    path: str, operation: dict[str, Any], conflicts: bool
) -> None:
    model = SpaceModel()
    model.transact([put(A, {"n": 0, "items": [0, 0]})], now=AT)
    model.transact([{"op": "patch", "id": A, "ops": [operation]}], now=AT)
    reads = [{"id": A, "version": 1, "path": path}]
    if conflicts:
        with pytest.raises(Refused):
            model.transact([put(B, 1)], reads=reads, now=AT)
    else:
        model.transact([put(B, 1)], reads=reads, now=AT)

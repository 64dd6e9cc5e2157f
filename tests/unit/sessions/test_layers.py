"""Layers: computed when they are looked at, each once, and left out whole when they do not apply."""

import threading
from typing import Any

import pytest

from rote.contract import State
from rote.contract.sync import Transact
from rote.errors import Unavailable
from rote.sessions import layers, rehearsal
from rote.sessions.layers import Fold, Layer

A, B = "urn:a", "urn:b"


def layer(local: int, *operations: Any) -> Layer:
    ids = frozenset([operation["id"] for operation in operations])
    return Layer(Transact(local, 0, list(operations)), 0, 0, ids, ())


def put(id: str, value: Any) -> Any:
    return {"op": "set", "id": id, "value": value}


def add(id: str, value: Any) -> Any:
    return {"op": "patch", "id": id, "ops": [{"op": "add", "path": "/-", "value": value}]}


def stored(**values: Any) -> Any:
    def fetch(ids: Any) -> dict[str, State]:
        return {id: State(id, values.get(id[4:]), id[4:] in values, 1, "h") for id in ids}

    return fetch


def value_of(fold: Fold, id: str, until: int) -> Any:
    own = fold.own(id, until)
    return None if own is None else own.state.value


def test_a_write_computes_as_much_after_a_thousand_others(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    rehearse = rehearsal.rehearse

    def counted(*given: Any) -> Any:
        calls.append(given)
        return rehearse(*given)

    monkeypatch.setattr(layers, "rehearse", counted)
    fold = Fold(stored(a=[]))
    for local in range(1, 1_001):
        fold.add(layer(local, add(A, local)))
        before = len(calls)
        assert value_of(fold, A, local)[-1] == local
        assert len(calls) == before + 1


def test_nothing_is_read_for_what_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(ids: Any) -> Any:
        raise Unavailable("offline")

    fold = Fold(fetch, [layer(1, put(A, [])), layer(2, add(A, 1)), layer(3, add(B, 1))])
    assert value_of(fold, A, 3) == [1]
    with pytest.raises(Unavailable):
        fold.own(B, 3)


def test_to_lay_a_commit_waits_for_no_read() -> None:
    is_asked, goes_on = threading.Event(), threading.Event()

    def fetch(ids: Any) -> Any:
        is_asked.set()
        assert goes_on.wait(20)
        return stored(a=[])(ids)

    fold = Fold(fetch, [layer(1, add(A, 1))])
    reading = threading.Thread(target=fold.own, args=[A, 1])
    reading.start()
    assert is_asked.wait(20)
    fold.add(layer(2, put(B, 2)))
    assert fold.written(2) == [A, B]
    goes_on.set()
    reading.join()
    assert (value_of(fold, A, 2), value_of(fold, B, 2)) == ([1], 2)


def test_a_view_does_not_see_what_is_laid_over_it() -> None:
    fold = Fold(stored(), [layer(1, put(A, 1))])
    assert value_of(fold, A, 1) == 1
    fold.add(layer(2, put(A, 2)))
    assert (value_of(fold, A, 1), value_of(fold, A, 2)) == (1, 2)
    assert fold.written(1) == [A]


def test_a_layer_that_does_not_apply_is_left_out_whole_with_what_stands_on_it() -> None:
    fold = Fold(
        stored(a=1),
        [layer(1, put(B, [])), layer(2, add(A, 1), add(B, 2)), layer(3, add(B, 3))],
    )
    assert value_of(fold, A, 3) is None
    assert value_of(fold, B, 3) == [3]


def test_a_layer_that_gives_what_another_needs_may_fall_away() -> None:
    fold = Fold(stored(b=[0]), [layer(1, add(A, 1), put(B, [1])), layer(2, add(B, 2))])
    assert value_of(fold, B, 2) == [0, 2]


@pytest.mark.parametrize(
    ("operation", "read", "overlaps"),
    [
        (put(A, 1), {"id": A}, True),
        (put(A, 1), {"id": A, "path": "/x"}, True),
        (put(A, 1), {"id": B}, False),
        (put(A, 1), {"prefix": "urn:"}, True),
        (put(A, 1), {"from": "urn:a", "to": "urn:b"}, True),
        (put(B, 1), {"from": "urn:a", "to": "urn:b"}, False),
        (put(B, 1), {"from": "urn:a", "to": None}, True),
        (add(A, 1), {"id": A, "path": "/0"}, True),
        ({"op": "patch", "id": A, "ops": [{"op": "replace", "path": "/x", "value": 1}]},
         {"id": A, "path": "/y"}, False),
        ({"op": "patch", "id": A, "ops": [], "stamp": ["/at"]}, {"id": A, "path": "/at"}, True),
        ({"op": "patch", "id": A, "ops": [], "else": {}}, {"id": A, "path": "/at"}, True),
        ({"op": "patch", "id": A, "ops": [{"op": "add", "path": "/l/0", "value": 1}]},
         {"id": A, "path": "/l/7"}, True),
        ({"op": "delete", "id": A}, {"id": A, "path": "/x"}, True),
    ],
)  # fmt: skip
def test_what_a_read_has_seen_of_a_layer(operation: Any, read: Any, overlaps: bool) -> None:
    made = layer(1, operation)
    assert made.overlaps(read) is overlaps
    assert Fold(stored(), [made]).overlapping(read, 0, 1) == ([made] if overlaps else [])

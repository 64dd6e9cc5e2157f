"""An argument of a wrong kind, at any public call, is refused with an error of Rote."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.errors import InvalidInput, RoteError

ID = "urn:entity:known"
SET = [{"op": "set", "id": "urn:entity:other", "value": 1}]

WRONG: dict[str, Any] = {
    "a float": 1.5,
    "bytes": b"x",
    "a list": [[]],
    "a dict": {"a": 1},
    "a set": {1},
    "an object": object(),
    "a huge integer": 2**70,
    "a lone surrogate": "\ud800",
    "NUL": "a\0b",
}

Call = Callable[[rote.Store, rote.Space, Any], object]


def begun(space: rote.Space) -> rote.Transaction:
    return space.transaction().__enter__()


# Every argument of every public call; the values listed after it are right, or mean nothing wrong.
CALLS: dict[str, tuple[Call, set[str]]] = {
    "get": (lambda _, space, wrong: space.get(wrong), set()),
    "read": (lambda _, space, wrong: space.read(wrong), set()),
    "read many": (lambda _, space, wrong: space.read_many(wrong), set()),
    "read many id": (lambda _, space, wrong: space.read_many([ID, wrong]), set()),
    "glance values": (lambda _, space, wrong: space.glance(ID, values=wrong), set()),
    "glance sizes": (lambda _, space, wrong: space.glance(ID, sizes=wrong), set()),
    "glance pointer": (lambda _, space, wrong: space.glance(ID, values=[wrong]), set()),
    "at": (lambda _, space, wrong: space.at(wrong), set()),
    "get at a version": (lambda _, space, wrong: space.at(1).get(wrong), set()),
    "history": (lambda _, space, wrong: space.history(wrong), set()),
    "facts": (lambda _, space, wrong: space.facts(wrong), set()),
    "history limit": (
        lambda _, space, wrong: space.history(ID, limit=wrong),
        {"a huge integer"},
    ),
    "scan": (lambda _, space, wrong: list(space.scan(wrong)), {"NUL"}),
    "scan after": (lambda _, space, wrong: list(space.scan(after=wrong)), {"NUL"}),
    "scan limit": (lambda _, space, wrong: list(space.scan(limit=wrong)), {"a huge integer"}),
    "log since": (lambda _, space, wrong: list(space.log(since=wrong)), set()),
    "log limit": (lambda _, space, wrong: list(space.log(limit=wrong)), {"a huge integer"}),
    "set id": (lambda _, space, wrong: space.set(wrong, 1), set()),
    "set value": (
        lambda _, space, wrong: space.set(ID, wrong),
        {"a float", "a list", "a dict", "NUL"},
    ),
    "set key": (lambda _, space, wrong: space.set(ID, 1, key=wrong), {"NUL"}),
    "patch id": (lambda _, space, wrong: space.patch(wrong, []), set()),
    "patch ops": (lambda _, space, wrong: space.patch(ID, wrong), set()),
    "patch op": (lambda _, space, wrong: space.patch(ID, [wrong]), set()),
    "delete": (lambda _, space, wrong: space.delete(wrong), set()),
    "transact": (lambda _, space, wrong: space.transact(wrong), set()),
    "transact operation": (lambda _, space, wrong: space.transact([wrong]), set()),
    "transact reads": (lambda _, space, wrong: space.transact(SET, reads=wrong), set()),
    "transact read": (lambda _, space, wrong: space.transact(SET, reads=[wrong]), set()),
    "transact meta": (
        lambda _, space, wrong: space.transact(SET, meta=wrong),
        {"a float", "a list", "a dict", "NUL"},
    ),
    "update id": (lambda _, space, wrong: space.update(wrong, lambda value: value), set()),
    "update function": (lambda _, space, wrong: space.update(ID, wrong), set()),
    "update result": (
        lambda _, space, wrong: space.update(ID, lambda _: wrong),
        {"a float", "a list", "a dict", "NUL"},
    ),
    "update attempts": (
        lambda _, space, wrong: space.update(ID, lambda _: 1, attempts=wrong),
        {"a huge integer"},
    ),
    "retry function": (lambda _, space, wrong: space.retry(wrong), set()),
    "transaction get": (lambda _, space, wrong: begun(space).get(wrong), set()),
    "transaction set": (lambda _, space, wrong: begun(space).set(wrong, 1), set()),
    "transaction patch": (lambda _, space, wrong: begun(space).patch(ID, wrong), set()),
    "transaction delete": (lambda _, space, wrong: begun(space).delete(wrong), set()),
    "transaction scan": (lambda _, space, wrong: list(begun(space).scan(wrong)), {"NUL"}),
    "verify against": (lambda _, space, wrong: space.verify(against=wrong), set()),
    "verify progress": (lambda _, space, wrong: space.verify(progress=wrong), set()),
    "reindex progress": (lambda _, space, wrong: space.reindex(progress=wrong), set()),
    "gc progress": (lambda _, space, wrong: space.gc(progress=wrong), set()),
    "compact progress": (lambda _, space, wrong: space.compact(before=1, progress=wrong), set()),
    "copy progress": (
        lambda store, _, wrong: store.copy("agent", rote.open(":memory:"), progress=wrong),
        set(),
    ),
    "merge dry run": (lambda _, space, wrong: space.merge("main", dry_run=wrong), set()),
    "compact dry run": (lambda _, space, wrong: space.compact(before=1, dry_run=wrong), set()),
    "copy with key": (
        lambda store, _, wrong: store.copy("agent", rote.open(":memory:"), with_key=wrong),
        set(),
    ),
    "space": (lambda store, _, wrong: store.space(wrong), set()),
    "backup": (lambda store, _, wrong: store.backup(wrong), set()),
    "open": (lambda *given: rote.open(given[2]), set()),
    "open durability": (lambda *given: rote.open(":memory:", durability=given[2]), set()),
    "open author": (lambda *given: rote.open(":memory:", author=given[2]), {"NUL"}),
    "open create": (lambda *given: rote.open(":memory:", create=given[2]), set()),
    "open recover": (lambda *given: rote.open(":memory:", recover=given[2]), set()),
    "open key": (lambda *given: rote.open(":memory:", key=given[2]), set()),
    "open clock": (lambda *given: rote.open(":memory:", clock=given[2]), set()),
    "open ids": (lambda *given: rote.open(":memory:", ids=given[2]), set()),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_of_a_wrong_kind_is_refused_with_an_error_of_rote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Unhashable ids, huge numbers and odd paths gave errors of Python or the driver."""
    monkeypatch.chdir(tmp_path)
    call, right = CALLS[name]
    with rote.open(":memory:") as store:
        space = store.space("agent")
        space.set(ID, {})
        leaks = {}
        for kind, wrong in WRONG.items():
            try:
                call(store, space, wrong)
                if kind not in right:
                    leaks[kind] = "no error"
            except RoteError:
                pass
            except Exception as error:
                leaks[kind] = repr(error)
        assert leaks == {}
        assert space.verify().ok


@pytest.mark.parametrize(
    "ids", [ID, None, {ID}, iter([ID])], ids=["text", "None", "set", "iterator"]
)
def test_many_are_read_by_a_list_of_ids(ids: Any) -> None:
    """A text was read letter by letter, and everything else gave a TypeError."""
    with rote.open(":memory:") as store:
        space = store.space("agent")
        with pytest.raises(InvalidInput, match="ids are given as a list"):
            space.read_many(ids)


def test_the_text_false_is_no_flag(tmp_path: Path) -> None:
    """The text counts as true: a private key was copied, and a store was made."""
    with rote.open(":memory:") as store, rote.open(":memory:") as target:
        store.space("agent").set(ID, 1)
        flag: Any = "false"
        with pytest.raises(InvalidInput, match="with_key is True or False"):
            store.copy("agent", target, with_key=flag)
        assert target.spaces() == []
        with pytest.raises(InvalidInput, match="create is True or False"):
            rote.open(tmp_path / "new.db", create=flag)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("reads", [{}, "", set(), 0, False], ids=repr)
def test_reads_that_are_no_list_are_refused_also_when_they_are_empty(reads: Any) -> None:
    """Such reads were taken for no reads at all, and the commit went through unchecked."""
    with rote.open(":memory:") as store:
        space = store.space("agent")
        with pytest.raises(InvalidInput):
            space.transact(SET, reads=reads)
        assert space.version == 0


def test_a_path_that_the_system_refuses_is_an_error_of_rote(tmp_path: Path) -> None:
    """A name of 5,000 characters gave an OSError."""
    too_long = tmp_path / ("x" * 5_000)
    with pytest.raises(RoteError):
        rote.open(too_long)
    with rote.open(":memory:") as store, pytest.raises(RoteError):
        store.backup(too_long)


@pytest.mark.parametrize("name", ["open", "backup"])
def test_a_path_with_a_lone_surrogate_is_an_error_of_rote(name: str) -> None:
    """The path gave a UnicodeEncodeError, from Path.exists and from SQLite."""
    with rote.open(":memory:") as store, pytest.raises(InvalidInput):
        CALLS[name][0](store, store.space("agent"), WRONG["a lone surrogate"])

"""Branches and merges whose COMMIT fails with unknown outcome: each is there whole, or not at all."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.engines import OutcomeUnknown
from rote.engines.sqlite.writer import SqliteWriter
from rote.errors import Unavailable

A = "urn:a"

ACTIONS: dict[str, Callable[[rote.Space], Any]] = {
    "create": lambda space: space.create_branch("new", key="k"),
    "delete": lambda space: space.delete_branch("topic", key="k"),
    "merge": lambda space: space.merge("topic", key="k"),
}


@pytest.fixture
def space(store_path: Path) -> Iterator[rote.Space]:
    with rote.open(store_path) as store:
        space = store.space("notes")
        space.set(A, 1)
        space.create_branch("topic").set(A, 2)
        yield space


def fail_once(monkeypatch: pytest.MonkeyPatch, *, is_committed: bool) -> None:
    """Let the next COMMIT take effect, or not, and raise without telling which."""
    commit = SqliteWriter.commit

    def failing(self: SqliteWriter) -> None:
        monkeypatch.setattr(SqliteWriter, "commit", commit)
        if is_committed:
            commit(self)
        raise OutcomeUnknown

    monkeypatch.setattr(SqliteWriter, "commit", failing)


def seen(space: rote.Space) -> Any:
    return (
        [commit.to_dict() for commit in space.log()],
        space.branches(),
        [list(space.on(branch.name).scan()) for branch in space.branches()],
    )


@pytest.mark.parametrize("action", ACTIONS)
def test_what_took_effect_is_answered_and_known_at_once(
    space: rote.Space, store_path: Path, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = space.version
    fail_once(monkeypatch, is_committed=True)
    ACTIONS[action](space)
    assert space.version == version + 1
    with rote.open(store_path) as fresh:
        assert seen(space) == seen(fresh.space("notes"))
    ACTIONS[action](space)
    assert space.version == version + 1
    assert space.verify().ok


@pytest.mark.parametrize("action", ACTIONS)
def test_what_did_not_take_effect_is_told_and_can_be_repeated(
    space: rote.Space, store_path: Path, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = seen(space)
    fail_once(monkeypatch, is_committed=False)
    with pytest.raises(Unavailable) as told:
        ACTIONS[action](space)
    assert told.value.details["outcome"] == "not_written"
    assert seen(space) == before
    ACTIONS[action](space)
    with rote.open(store_path) as fresh:
        assert seen(space) == seen(fresh.space("notes"))
    assert space.verify().ok

"""The calls that the state machine makes to a store in one step, and how it reads the answers."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from rote.contract import Commit
from rote.errors import RoteError
from rote.space import Space
from rote.testing.model import SpaceModel

_Answer = TypeVar("_Answer")


def outcome_of(action: Callable[[], _Answer]) -> _Answer | RoteError:
    try:
        return action()
    except RoteError as error:
        return error


def erase_by(space: Space, ids: Sequence[str], key: str | None) -> Commit:
    return space.erase(ids, reason="r", key=key).commit


def without(commit: Commit, ids: Sequence[str]) -> Commit:
    """Return a commit as a store gives it after entities were erased."""
    facts = [
        replace(fact, data=None, salt=None, erased=True) if fact.id in ids else fact
        for fact in commit.facts
    ]
    return replace(commit, facts=tuple(facts))


def finish(tx: Any, id: str, value: Any) -> Commit:
    with tx:
        tx.set(id, value)
    assert isinstance(tx.commit, Commit)
    return tx.commit


def range_read(
    model: SpaceModel, prefix: str, limit: int | None, version: int, *, branch: str
) -> dict[str, Any]:
    """Return the read of a scan: everything below the prefix, or up to the last entity it returned."""
    found = model.scan(prefix, limit=limit, version=version, branch=branch)
    if limit is None or len(found) < limit:
        return {"prefix": prefix, "version": version}
    return {"from": prefix, "to": found[-1] + "\0", "version": version}

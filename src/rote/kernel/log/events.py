"""Events: records of a commit beside its facts, read from the log. Frozen: docs/formats/chain.md.

branch.create   name, parent, fork_version          on the branch of that name
branch.delete   name                                on the branch of that name
merge           source, source_version, bases       on the target
erase           id, reason                          on main
compact         before, checkpoint                  on main
"""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, ValidationError, convert

from rote.contract import Commit
from rote.engines import Reader
from rote.engines.rows import CommitRow
from rote.errors import InvalidInput
from rote.values import Json, decode_canonical
from rote.values.limits import PAGE_MAX


class BaseOfMerge(Struct, frozen=True, forbid_unknown_fields=True):
    branch: str
    version: int


class BranchCreated(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="branch.create"
):
    name: str
    parent: str
    fork_version: int


class BranchDeleted(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="branch.delete"
):
    name: str


class BranchMerged(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="merge"):
    source: str
    source_version: int
    bases: tuple[BaseOfMerge, ...]


class EntityErased(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="erase"):
    id: str
    reason: str


class SpaceCompacted(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="compact"
):
    before: int
    checkpoint: dict[str, Any]


EVENTS = frozenset({"branch.create", "branch.delete", "merge", "erase", "compact"})

Happening = BranchCreated | BranchDeleted | BranchMerged | EntityErased | SpaceCompacted


def read_event(event: Any) -> Happening:
    """Return the event of a commit; InvalidInput when it is malformed."""
    try:
        happening: Happening = convert(event, Happening)
        return happening
    except ValidationError as error:
        raise InvalidInput(f"its event cannot be one: {error}") from None


def told_of_call(reads: Reader, space: int, commit: Commit) -> dict[str, tuple[Json, ...]]:
    """Return the members of the call that made a commit, as far as its event shows them.

    Each member has a tuple of the values that it may have had.
    """
    match read_event(commit.event):
        case BranchCreated(name, parent, fork_version):
            was_newest = fork_version == commit.version - 1
            return {
                "name": ("create_branch",),
                "branch": (name,),
                "parent": (parent,),
                "fork_version": (fork_version, None) if was_newest else (fork_version,),
            }
        case BranchDeleted(name):
            return {"name": ("delete_branch",), "branch": (name,)}
        case BranchMerged(source):
            return {"name": ("merge",), "branch": (commit.branch,), "source": (source,)}
        case EntityErased(id, reason):
            return {"name": ("erase",), "id": (id,), "reason": (reason,)}
        case SpaceCompacted(before):
            rows = compactions_above(reads, space, after=before - 1)
            kept = commit.version - before - sum(row.version < commit.version for row in rows)
            return {"name": ("compact",), "before": (before, None), "keep": (kept, None)}


def erased_by(row: CommitRow) -> str | None:
    """Return the id of the entity that a commit erases, or None."""
    event = None if row.event is None else decode_canonical(row.event)
    if type(event) is not dict or event.get("type") != "erase":
        return None
    id = event.get("id")
    return id if type(id) is str else None


def erasures(reads: Reader, space: int, *, after: int) -> Iterator[tuple[int, str]]:
    """Yield (version, id) of each erasure above a version, oldest first."""
    for row in event_rows(reads, space, after=after):
        id = erased_by(row)
        if id is not None:
            yield row.version, id


def compactions_above(reads: Reader, space: int, *, after: int) -> Iterator[CommitRow]:
    """Yield the commits above a version that record compactions, oldest first."""
    for row in event_rows(reads, space, after=after):
        if isinstance(read_event(decode_canonical(row.event or b"")), SpaceCompacted):
            yield row


def event_rows(reads: Reader, space: int, *, after: int) -> Iterator[CommitRow]:
    """Yield the commits above a version that have an event, oldest first."""
    while True:
        rows = reads.events(space, after=after, limit=PAGE_MAX)
        yield from rows
        if len(rows) < PAGE_MAX:
            return
        after = rows[-1].version

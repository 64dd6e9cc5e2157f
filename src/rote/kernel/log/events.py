"""Events: records of a commit beside its facts, read from the log. Frozen: docs/formats/chain.md.

branch.create   name, parent, fork_version          on the branch of that name
branch.delete   name                                on the branch of that name
merge           source, source_version, bases       on the target
erase           id, or ids of several, and reason   on main
compact         before, checkpoint                  on main
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from msgspec import UNSET, Struct, UnsetType, ValidationError, convert

from rote.contract import Commit
from rote.engines import Reader
from rote.engines.rows import CommitRow
from rote.errors import Corrupt, InvalidInput
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
    """Either `id`, or `ids` of at least two entities, in code point order."""

    reason: str
    id: str | UnsetType = UNSET
    ids: tuple[str, ...] | UnsetType = UNSET

    @property
    def entities(self) -> tuple[str, ...]:
        if self.ids is not UNSET:
            return self.ids
        return () if self.id is UNSET else (self.id,)


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
    except ValidationError as error:
        raise InvalidInput(f"its event cannot be one: {error}") from None
    if isinstance(happening, EntityErased):
        _check_erased(happening)
    return happening


def event_of(row: CommitRow) -> Happening:
    """Return the event of a stored commit; Corrupt when it is malformed."""
    try:
        return read_event(decode_canonical(row.event or b""))
    except InvalidInput as error:
        raise Corrupt(f"the event of version {row.version} was damaged: {error}") from error


def _check_erased(erased: EntityErased) -> None:
    names_one, names_several = erased.id is not UNSET, erased.ids is not UNSET
    ids = erased.entities
    is_ordered = all(one < other for one, other in pairwise(ids))
    if names_one == names_several or not is_ordered or (names_several and len(ids) < 2):
        raise InvalidInput("its event names one entity by id, or several by ids, in order")


def erase_event(ids: Sequence[str], reason: str) -> Json:
    """Return the event of a commit that erases entities, given in order."""
    named: dict[str, Json] = {"id": ids[0]} if len(ids) == 1 else {"ids": list(ids)}
    return {"type": "erase", "reason": reason, **named}


def could_have_made(reads: Reader, space: int, commit: Commit, call: Mapping[str, Json]) -> bool:
    """Whether a call may have made a commit, as far as its event tells."""
    happening = read_event(commit.event)
    if isinstance(happening, EntityErased) and not _covers(call, happening):
        return False
    told = _told_of_call(reads, space, commit, happening)
    return all(call.get(member) in possible for member, possible in told.items())


def _covers(call: Mapping[str, Json], erased: EntityErased) -> bool:
    """Whether a call names all that was erased; it may name more, which had been erased before."""
    if call.get("prefix") is not None:
        return all(id.startswith(call["prefix"]) for id in erased.entities)
    return {call.get("id"), *call.get("ids", ())}.issuperset(erased.entities)


def _told_of_call(
    reads: Reader, space: int, commit: Commit, happening: Happening
) -> dict[str, tuple[Json, ...]]:
    """Return the members of the call that made a commit, as far as its event shows them.

    Each member has a tuple of the values that it may have had.
    """
    match happening:
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
        case EntityErased(reason):
            return {"name": ("erase",), "reason": (reason,)}
        case SpaceCompacted(before):
            rows = compactions_above(reads, space, after=before - 1)
            kept = commit.version - before - sum(row.version < commit.version for row in rows)
            return {"name": ("compact",), "before": (before, None), "keep": (kept, None)}


def erased_by(row: CommitRow) -> tuple[str, ...]:
    """Return the ids of the entities that a commit erases."""
    event = None if row.event is None else decode_canonical(row.event)
    if type(event) is not dict or event.get("type") != "erase":
        return ()
    try:
        happening = read_event(event)
    except InvalidInput:
        return ()
    return happening.entities if isinstance(happening, EntityErased) else ()


def erasures(reads: Reader, space: int, *, after: int) -> Iterator[tuple[int, str]]:
    """Yield (version, id) of each entity that was erased above a version, oldest first."""
    for row in event_rows(reads, space, after=after):
        for id in erased_by(row):
            yield row.version, id


def compactions_above(reads: Reader, space: int, *, after: int) -> Iterator[CommitRow]:
    """Yield the commits above a version that record compactions, oldest first."""
    for row in event_rows(reads, space, after=after):
        if isinstance(event_of(row), SpaceCompacted):
            yield row


def event_rows(reads: Reader, space: int, *, after: int) -> Iterator[CommitRow]:
    """Yield the commits above a version that have an event, oldest first."""
    while True:
        rows = reads.events(space, after=after, limit=PAGE_MAX)
        yield from rows
        if len(rows) < PAGE_MAX:
            return
        after = rows[-1].version

"""Parts of commands, and the pages that answer them. Frozen values, also sent over the wire."""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from rote.contract.facts import Fact, State
from rote.values import Json


class Guard(Struct, frozen=True, gc=False):
    """A commit's claim on a side row: it applies only if the row still has this fence."""

    kind: str
    key: str
    fence: int  # 0: there is no such row yet, and the commit makes it
    body: Json = None  # what the row holds after the commit
    stamped: bool = False  # whether the commit's `version` and `at` become members of the body
    drop: bool = False  # whether there is no such row after the commit; then it has no body


class OnlyIf(Struct, frozen=True, gc=False):
    """A condition of a write: this fact of an entity is still the newest on the branch's line."""

    id: str
    version: int  # 0: it was never written
    branch: str = "main"


class AnswerRead(Struct, frozen=True, gc=False):
    """A question about many entities that a commit relies on, and the answer it got."""

    call: dict[str, Any]  # the question, to be asked again
    digest: str  # of the answer
    ranges: Sequence[tuple[str, str, str | None]]  # branch and ids, half open, that can change it
    version: int  # at which it was the answer
    branch: str
    now: int  # the time that the question went by, microseconds since the epoch


class Rehearsal(Struct, frozen=True, gc=False):
    """The effect that an operation would have on a state of the space; nothing is written."""

    op: str  # of the fact that would be made: a patch that finds nothing makes a set
    parent: str | None  # hash of the fact it would follow; None when there is none in the store
    after: State  # its times are those of the rehearsal


class View(Struct, frozen=True, gc=False):
    """A place to read from: the line of a branch, at a version or (None) at its head."""

    branch: str = "main"
    version: int | None = None


class ReadState(Struct, frozen=True, gc=False):
    """A state in a page, or, where the reader has it already, only that it is unchanged."""

    id: str
    version: int
    hash: str | None
    value: Json | UnsetType = UNSET
    exists: bool | UnsetType = UNSET
    erased: bool | UnsetType = UNSET
    unchanged: bool | UnsetType = UNSET  # True; then the three above are left out


class StatePage(Struct, frozen=True, gc=False):
    """Entities that were asked for by id, all from one state."""

    version: int  # the state they come from
    states: tuple[ReadState, ...]  # in the order of the ids
    next: int | None  # how many ids were answered, when these are not all


class ScanPage(Struct, frozen=True, gc=False):
    """Existing entities in id order, all from one state."""

    states: tuple[State, ...]
    version: int  # the state they come from
    next: str | None  # the id to go on after; None at the end


class FactPage(Struct, frozen=True, gc=False):
    """An entity's facts, newest first."""

    facts: tuple[Fact, ...]
    next: tuple[int, int] | None  # go on below this (version, index); None at the end


class Head(Struct, frozen=True, gc=False):
    """The newest commit of a space, over all branches."""

    version: int  # 0 when empty
    hash: str | None  # None when empty
    at: int | None  # microseconds since the epoch


class SpaceInfo(Struct, frozen=True, gc=False):
    """A space of a store."""

    did: str
    name: str


class SpacePage(Struct, frozen=True, gc=False):
    """Spaces of a store, by name."""

    spaces: tuple[SpaceInfo, ...]
    next: str | None  # the name to go on after; None at the end


class SpaceSummary(Struct, frozen=True, gc=False):
    """A space at its head."""

    did: str
    name: str
    version: int  # 0 when empty
    hash: str | None
    at: int | None  # microseconds since the epoch
    oldest: int  # the version that history begins with


class Versions(Struct, frozen=True, gc=False):
    """The newest version of a space, and that of its newest erasure."""

    version: int  # 0 when empty
    erased: int  # 0 when nothing was erased


class Times(Struct, frozen=True, gc=False):
    """The time, in microseconds since the epoch."""

    now: int  # by the store's clock
    # By the clock that all processes of the store share: the database's, if it has one. None when
    # it was not asked for.
    shared_now: int | None


class SideRow(Struct, frozen=True, gc=False):
    """A small mutable row beside the chain, written by compare-and-set on its fence."""

    kind: str
    key: str
    fence: int  # 1 for a new row, one more at every write
    body: Json


class SideRowPage(Struct, frozen=True, gc=False):
    """Side rows of one kind, in key order."""

    rows: tuple[SideRow, ...]
    next: str | None  # the key to go on after; None at the end

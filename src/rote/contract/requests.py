"""What is asked of a store: frozen requests and the pages that answer them."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from rote.contract.facts import Fact, State
from rote.values import Json


class Guard(Struct, frozen=True, gc=False):
    """A commit's claim on a side row: it applies only if the row still has this fence."""

    kind: str
    key: str
    fence: int
    body: Json  # what the row holds after the commit
    stamped: bool = False  # then with the commit's `version` and `at` as members of it


class CommitRequest(Struct, frozen=True, gc=False):
    """One commit to make. Operations and reads are as the caller sent them, unchecked."""

    operations: Sequence[Mapping[str, Any]]
    branch: str = "main"
    reads: Sequence[Mapping[str, Any]] = ()
    key: str | None = None
    meta: Json = None
    guard: Guard | None = None
    unerased_since: int | None = (
        None  # a Conflict when what it writes was erased after this version
    )


class Rehearsal(Struct, frozen=True, gc=False):
    """What an operation would do to a state of the space; nothing is written."""

    op: str  # what the fact would be: a patch that finds nothing is a set
    parent: str | None  # hash of the fact it would follow; None when there is none in the store
    after: State  # its times are those of the rehearsal


class View(Struct, frozen=True, gc=False):
    """Where to read: a branch's line, at a version or (None) at its head."""

    branch: str = "main"
    version: int | None = None


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


class SideRow(Struct, frozen=True, gc=False):
    """A small mutable row beside the chain, written by compare-and-set on its fence."""

    kind: str
    key: str
    fence: int  # 1 for a new row, one more at every write
    body: Json

"""Commands about what a store and its spaces hold: reading, writing, branches, side rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from rote.contract.branches import Branch, Change, ChangePage, MergeResult, Resolution
from rote.contract.commands.command import HEAD, Command, StoreCommand
from rote.contract.erasures import SpaceErasure
from rote.contract.facts import Commit, Glance, State
from rote.contract.index import Found, Hit
from rote.contract.requests import (
    AnswerRead,
    FactPage,
    Guard,
    Head,
    OnlyIf,
    Rehearsal,
    ScanPage,
    SideRow,
    SideRowPage,
    SpaceInfo,
    SpacePage,
    SpaceSummary,
    StatePage,
    Times,
    Versions,
    View,
)
from rote.values import Json
from rote.values.limits import PAGE_MAX

# -- the store -------------------------------------------------------------------------------------


class GetTimes(StoreCommand[Times], frozen=True, gc=False):
    """Ask for the time, by the store's clock and by the clock that all its processes share."""

    shared: bool = True  # False leaves the latter out, which may cost a look at the database


class ListSpaces(StoreCommand[SpacePage], frozen=True, gc=False):
    """List spaces by name."""

    after: str | None = None
    limit: int = PAGE_MAX
    leased: bool = False  # only those with a side row of the kind `lease`, found by one look


class FindSpace(StoreCommand[SpaceInfo], frozen=True, gc=False):
    """Find a space by name or did; make it when it is new and `create`, else NotFound."""

    name: str
    create: bool = False


class EraseSpace(StoreCommand[SpaceErasure], frozen=True, gc=False):
    """Take a space away for good, with its key; what stays is one signed row of the store.

    Copies in the store's files are removed afterwards. Busy when only that failed: ask again, by did.
    """

    space: str  # by name or did
    reason: str
    confirm: str  # the same as `space`


class AdoptSpace(StoreCommand[SpaceInfo], frozen=True, gc=False):
    """Find the space of a did that another store has made; make it empty when it is new."""

    did: str
    name: str


# -- points of a space -----------------------------------------------------------------------------


class Describe(Command[SpaceSummary], frozen=True, gc=False):
    """Ask for the name, head and oldest readable version of a space."""


class GetHead(Command[Head], frozen=True, gc=False):
    """Ask for the head: now, as it was at a version, or at an instant (the newest not after it)."""

    version: int | None = None
    at: int | None = None  # microseconds since the epoch


class GetVersions(Command[Versions], frozen=True, gc=False):
    """Ask for the newest version, and for that of the newest erasure: caches from before hold what is gone.

    With `may_be_old` the answer may be as this process has last seen it, where a look is a round trip.
    """

    may_be_old: bool = False


class GetSnapshot(Command[Head], frozen=True, gc=False):
    """Ask for the newest commit that made a view what it is: one with facts, a merge or an erasure on
    its line. When that commit was compacted away, the answer is the oldest commit that can be read."""

    view: View = HEAD


# -- entities --------------------------------------------------------------------------------------


class Read(Command[tuple[State, ...]], frozen=True, gc=False):
    """Read entities, in that order, all from one state of the space."""

    ids: Sequence[str]
    view: View = HEAD


class ReadPage(Command[StatePage], frozen=True, gc=False):
    """Read entities like Read, in a page that ends with the value that passes its bytes. Ask for the rest
    at the version of the page.

    A state that has the known hash comes without its value, unless it was erased.
    """

    ids: Sequence[str]  # at most PAGE_MAX
    view: View = HEAD
    known: Sequence[str | None] | None = None  # for each id the hash that the caller has, or None


class GlanceAt(Command[Glance], frozen=True, gc=False):
    """Ask what an entity holds at some pointers, and how long the arrays at others are.

    With `may_be_new` the answer for an entity that is not cached may be "absent" without a look into
    the store. A writer that relies on it names it in the reads of the commit, and asks again without
    `may_be_new` when they do not hold.
    """

    id: str
    values: Sequence[str] = ()
    sizes: Sequence[str] = ()
    view: View = HEAD
    may_be_new: bool = False
    is_noted: bool = True  # False: the caller names in its commit what it relies on


class Scan(Command[ScanPage], frozen=True, gc=False):
    """List existing entities with start <= id < end and id > after, in code point order; with
    `descending` those with id < after, in the reverse order."""

    start: str = ""
    end: str | None = None
    after: str | None = None
    limit: int = PAGE_MAX
    view: View = HEAD
    descending: bool = False


class Skip(Command[str | None], frozen=True, gc=False):
    """Ask for the last of the first `count` ids of existing entities with start <= id < end.

    None when there are fewer, and when only a scan can tell: in the past, and on a branch with a parent.
    """

    start: str = ""
    end: str | None = None
    count: int = 1
    view: View = HEAD


class GetHistory(Command[FactPage], frozen=True, gc=False):
    """List the facts of an entity below a place, newest first."""

    id: str
    before: tuple[int, int] | None = None  # version, index
    limit: int = PAGE_MAX
    view: View = HEAD


class GetLog(Command[tuple[Commit, ...]], frozen=True, gc=False):
    """List commits in (since, before), over all branches; oldest first, or newest first."""

    since: int | None = 0  # None: from the oldest commit on that can be read
    limit: int = PAGE_MAX
    newest: bool = False
    before: int | None = None  # None: up to the newest


class Find(Command[tuple[Hit, ...]], frozen=True, gc=False):
    """List entities that a declared index has under terms in [start, end), above a hit, in (term, id)
    order; with `descending` those below it, in the reverse order.

    The states in `own` take the place of those in the view.
    """

    index: str
    start: str = ""
    end: str | None = None
    after: Hit | None = None
    limit: int = PAGE_MAX
    view: View = HEAD
    within: str = ""  # ids that do not start with it may be left out
    own: Mapping[str, State] = {}
    descending: bool = False
    is_own_only: bool = False  # leave out what is stored


class Postings(Command[Found | None], frozen=True, gc=False):
    """Ask a declared packed index for its segments, and for the postings of terms in them.

    None where the index cannot be used: the store is read only and the index is not there or too far
    behind. Then only a scan tells.
    """

    index: str
    terms: tuple[str, ...]  # at most RETRIEVAL_TERMS_MAX
    # Numbers of segments whose bodies the caller has, at most SEGMENTS_KNOWN_MAX; others are sent.
    known: tuple[int, ...] = ()
    view: View = HEAD
    within: str = ""  # the caller looks only at entities whose ids start with it


class Query(Command[dict[str, Json]], frozen=True, gc=False):
    """Select entities and those that links lead to, all from one state."""

    query: Mapping[str, Any]
    view: View = HEAD
    path: str | None = None  # entities outside are as if they were absent (access/paths.py)


class Values(Command[dict[str, Json]], frozen=True, gc=False):
    """Ask for the values of selected entities, with those behind links in the links' places."""

    query: Mapping[str, Any]
    view: View = HEAD
    path: str | None = None  # as in Query


class Watch(Command[dict[str, Json]], frozen=True, gc=False):
    """Follow the result of a query in frames {from, to, upserts, removes}.

    The first frame leads from `since` to now, each next one comes when the result changes. A frame
    from None replaces the whole result.
    """

    query: Mapping[str, Any]
    view: View = HEAD
    since: int | None = None
    path: str | None = None  # as in Query


class AwaitCommit(Command[int], frozen=True, gc=False):
    """Wait until the space has a version above `after`, at most so many seconds; answer the newest."""

    after: int
    seconds: float


# -- writing ---------------------------------------------------------------------------------------
# Commands that make a commit are made once: by their `key`, which is part of the commit, or by their
# `attempt`, which is not. It is the name of one try, 16 random bytes in hex that the caller draws: a
# repetition answers the same commit, and Settle tells what became of it. Those that have no reads may
# have a condition, `only_if`, whose failure is a Conflict.


class Rehearse(Command[tuple[Rehearsal, ...]], frozen=True, gc=False):
    """Ask what operations would do at a view, one after the other.

    The states in `own` take the place of those in the view. Raises what a commit of the operations
    there, at the instant `now`, would raise.
    """

    operations: Sequence[Mapping[str, Any]]
    own: Mapping[str, State]
    now: int
    view: View = HEAD


class GetMade(Command[Commit | None], frozen=True, gc=False):
    """Ask for the commit that an attempt or a key has made for a call; None when neither was used.

    PayloadMismatch when it stands for something else.
    """

    key: str
    call: Mapping[str, Any]  # as in MakeCommit
    ids: Sequence[str]  # that the call writes, in that order
    branch: str = "main"
    attempt: str | None = None


class MakeCommit(Command[Commit], frozen=True, gc=False):
    """Validate, append and make durable, or raise and write nothing."""

    operations: Sequence[Mapping[str, Any]]
    branch: str = "main"
    reads: Sequence[Mapping[str, Any]] = ()
    answers: Sequence[AnswerRead] = ()  # that must still be the same
    key: str | None = None
    meta: Json = None
    guards: Sequence[Guard] = ()
    unerased_since: int | None = (
        None  # raise Conflict when an entity that it writes was erased after this version
    )
    # What the key stands for, where the operations depend on the state; None: the operations.
    call: Mapping[str, Any] | None = None
    attempt: str | None = None
    unchanged_since: int | None = None  # raise Conflict when the space has a newer version
    # False: facts of plain sets come without their data, which the caller has.
    bodies: bool = True


class Settle(Command[Commit | None], frozen=True, gc=False):
    """Ask for the commit that an attempt has made; None when it has made none, and never will.

    Compacted when it has made one that was compacted away.
    """

    attempt: str


class CreateBranch(Command[Commit], frozen=True, gc=False):
    """Make a branch that begins with the state of another one, now or at a version."""

    name: str
    parent: str = "main"
    fork_version: int | None = None  # None: the space's version when it is made
    key: str | None = None
    attempt: str | None = None
    only_if: OnlyIf | None = None


class DeleteBranch(Command[Commit], frozen=True, gc=False):
    """End a branch: it stays readable."""

    name: str
    key: str | None = None
    attempt: str | None = None
    only_if: OnlyIf | None = None


class Merge(Command[MergeResult], frozen=True, gc=False):
    """Apply the changes of the source to the target as one commit.

    Conflicts are an answer, not an error; with conflicts nothing is written. A merge that would itself
    write the entity of its `only_if` fails like one whose condition does not hold.
    """

    source: str
    target: str = "main"
    on_conflict: str = "fail"
    resolutions: Mapping[str, Json | Resolution] = {}
    dry_run: bool = False
    key: str | None = None
    attempt: str | None = None
    only_if: OnlyIf | None = None


class ListBranches(Command[tuple[Branch, ...]], frozen=True, gc=False):
    """List all branches as of a version (None: now), deleted ones too, in the order of creation."""

    version: int | None = None


class Diff(Command[tuple[Change, ...]], frozen=True, gc=False):
    """Ask what turns one state into another, in id order."""

    before: View
    after: View


class ListChanges(Command[ChangePage], frozen=True, gc=False):
    """Ask what turns one state into another like Diff, in pages that end with the value that passes
    their bytes."""

    before: View
    after: View
    beyond: str | None = None  # only ids after this one
    limit: int = PAGE_MAX


# -- side rows -------------------------------------------------------------------------------------


class GetSide(Command[SideRow | None], frozen=True, gc=False):
    """Read a side row."""

    kind: str
    key: str


class ListSides(Command[SideRowPage], frozen=True, gc=False):
    """List the rows of a kind above `after`, in key order."""

    kind: str
    after: str = ""
    limit: int = PAGE_MAX


class PutSide(Command[SideRow], frozen=True, gc=False):
    """Write a row if its fence is `fence` (0: if it is absent); a stale fence is Denied."""

    kind: str
    key: str
    body: Json
    fence: int
    # Raise Conflict, and write nothing, when the row holds an entity that was erased after this
    # version; the rule of its kind tells (contract.SideRule).
    unerased_since: int | None = None
    only_if: OnlyIf | None = None


class DropSide(Command[None], frozen=True, gc=False):
    """Drop a row if its fence is `fence`; a stale fence is Denied."""

    kind: str
    key: str
    fence: int
    only_if: OnlyIf | None = None


class DropSides(Command[None], frozen=True, gc=False):
    """Drop many rows of a kind together, by key and fence; those that have moved on stay."""

    kind: str
    rows: Sequence[tuple[str, int]]  # at most PAGE_MAX

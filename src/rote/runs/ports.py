"""Ports of a run: each is the store's, wrapped, so that everything that is written against a space works
in a run too.

    SnapshotPort   shows one state and what came before it; notes what was read of that state
    BufferPort     shows that state with the run's own operations applied, and keeps operations back
    LivePort       shows the space as it is, for as long as the run goes on
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from msgspec import structs

from rote.contract import (
    Caller,
    Commit,
    Glance,
    Head,
    Port,
    PortLayer,
    ScanPage,
    Task,
    Times,
    View,
    Watching,
)
from rote.contract.commands import (
    CollectGarbage,
    Command,
    Compact,
    Describe,
    Diff,
    Find,
    FindSpace,
    GetBlobInfo,
    GetHead,
    GetHistory,
    GetLog,
    GetMade,
    GetSnapshot,
    GetTimes,
    GlanceAt,
    ListBranches,
    ListSpaces,
    MakeCheckpoint,
    MakeCommit,
    Postings,
    Query,
    Read,
    ReadPiece,
    Reindex,
    Scan,
    Skip,
    Values,
    Verify,
    Watch,
    Work,
)
from rote.errors import InvalidInput
from rote.runs.answers import query_digest, query_ranges
from rote.runs.reads import NotedScan, ReadSet
from rote.runs.run_rows import NotedAnswer
from rote.space.buffer import Buffer
from rote.space.scan_pages import ScanPages
from rote.values import Json, canonical, decode_canonical
from rote.values.blobs import META_PREFIX
from rote.values.ranges import above, prefix_end

R = TypeVar("R")
Check = Callable[[], None]

# Commands that only look.
_LOOKS = (
    Read, GlanceAt, Scan, Skip, GetHistory, GetLog, Find, Postings, Query, Values, Watch, ListBranches,
    Diff, GetHead, GetSnapshot, GetBlobInfo, ReadPiece, Describe, GetTimes, ListSpaces, FindSpace,
)  # fmt: skip
# Commands that tend the store, and the calls that send them.
_TENDS: dict[type[Command[Any]], str] = {
    CollectGarbage: "gc",
    Reindex: "reindex",
    Verify: "verify",
    Compact: "compact",
    MakeCheckpoint: "checkpoint",
}


class SnapshotPort(PortLayer):
    """The snapshot of a run and the states before it. Nothing leads to what came after it."""

    def __init__(
        self, port: Port, *, branch: str, snapshot: Head, until: int, reads: ReadSet, check: Check
    ) -> None:
        """Wrap a port.

        until  the newest version at which the branch is still as the snapshot has it
        check  raises when the run may not read, or not any more
        """
        super().__init__(port)
        self._branch = branch
        self._snapshot = snapshot
        self._until = until
        self._reads = reads
        self._check = check
        self._scans = ScanPages(self._begin_scan)
        self._rules: dict[type[Command[Any]], Callable[[str, Any], Any]] = {
            Read: self._read,
            GlanceAt: self._glance,
            GetHistory: self._history,
            GetBlobInfo: self._blob_info,
            Scan: self._scan,
            Skip: self._skip,
            Find: self._find,
            Postings: self._postings,
            Query: self._query,
            Values: self._values,
            GetLog: self._log,
            Diff: self._diff,
            GetHead: self._head,
        }

    def answer(self, space: str, command: Command[R], /) -> R:
        if not isinstance(command, _LOOKS) or getattr(command, "create", False):
            raise _outside(command)
        self._check()
        rule = self._rules.get(type(command), self._port.answer)
        answer: R = rule(space, command)
        return answer

    def begin(self, space: str, command: Work[R], /) -> Task[R]:
        raise _outside(command)

    def watch(self, space: str, command: Watch, /) -> Watching:
        raise _outside(command)

    def for_caller(self, caller: Caller, /) -> Port:
        raise InvalidInput("a run is of who started it")

    def _shows(self, view: View) -> bool:
        """Whether a view is the snapshot; what was there before is history, which nobody changes."""
        if view.version is None or view.version > self._snapshot.version:
            raise InvalidInput(
                f"a run sees nothing after its snapshot, which is version {self._snapshot.version}"
            )
        if view.version < self._snapshot.version:
            return False
        if view.branch != self._branch:
            raise InvalidInput(
                f"a run is on one branch, this one on {self._branch!r};"
                f" begin another on {view.branch!r}"
            )
        return True

    # -- single entities ---------------------------------------------------------------------------

    def _read(self, space: str, command: Read) -> Any:
        is_noted = self._shows(command.view)
        states = self._port.answer(space, command)
        for state in states if is_noted else ():
            self._reads.add_entity(state.id)
        return states

    def _glance(self, space: str, command: GlanceAt) -> Glance:
        is_noted = self._shows(command.view)
        seen = self._port.answer(space, structs.replace(command, may_be_new=False))
        if is_noted:
            for path in (*command.values, *command.sizes) or (None,):
                self._reads.add_entity(command.id, path)
        return seen

    def _history(self, space: str, command: GetHistory) -> Any:
        is_noted = self._shows(command.view)
        page = self._port.answer(space, command)
        if is_noted:
            self._reads.add_entity(command.id)
        return page

    def _blob_info(self, space: str, command: GetBlobInfo) -> Any:
        if self._shows(command.view):
            # Before: that there is no such blob is an answer, too.
            self._reads.add_entity(META_PREFIX + command.hash)
        return self._port.answer(space, command)

    # -- many of them ------------------------------------------------------------------------------

    def _scan(self, space: str, command: Scan) -> ScanPage:
        if not self._shows(command.view) or not self._reads.is_kept:
            return self._port.answer(space, command)
        if command.descending:
            self._reads.add_range(command.start, command.end)
            return self._port.answer(space, command)
        scan, page = self._scans.ask(command, partial(self._port.answer, space))
        self._reads.add_page(scan, page, command.end)
        return page

    def _skip(self, space: str, command: Skip) -> str | None:
        is_noted = self._shows(command.view)
        last = self._port.answer(space, command)
        if is_noted and last is not None:
            self._reads.add_range(command.start, above(last))
        return last

    def _begin_scan(self, start: str) -> NotedScan:
        scan = NotedScan(self._branch, start)
        self._reads.add_answer(scan)
        return scan

    def _find(self, space: str, command: Find) -> Any:
        if self._shows(command.view):
            # Any entity there could come to be listed.
            self._reads.add_range(command.within, prefix_end(command.within))
        return self._port.answer(space, command)

    def _postings(self, space: str, command: Postings) -> Any:
        is_noted = self._shows(command.view)
        found = self._port.answer(space, command)
        if is_noted and found is not None:
            self._reads.add_range(command.within, prefix_end(command.within))
        return found

    def _query(self, space: str, command: Query) -> dict[str, Json]:
        is_noted = self._shows(command.view)
        answer = self._port.answer(space, command)
        if is_noted:
            self._note_query("query", command, answer, answer["facts"])
        return answer

    def _values(self, space: str, command: Values) -> dict[str, Json]:
        is_noted = self._shows(command.view)
        answer = self._port.answer(space, command)
        if is_noted:
            # Values of linked entities stand inside those that link to them, without their ids.
            shown: Any = ()
            if self._reads.names_entities:
                shown = self._port.answer(space, Query(command.query, command.view))["facts"]
            self._note_query("values", command, answer, shown)
        return answer

    def _note_query(
        self, name: str, command: Query | Values, answer: dict[str, Json], shown: Any
    ) -> None:
        asked: Any = decode_canonical(canonical(dict(command.query)))
        call = {"name": name, "query": asked}
        ranges = query_ranges(self._branch, asked)
        self._reads.add_answer(NotedAnswer(call, query_digest(answer), ranges), shown)

    def _log(self, space: str, command: GetLog) -> tuple[Commit, ...]:
        self._reads.add_range("", None)
        before, after_snapshot = command.before, self._snapshot.version + 1
        if before is None or (type(before) is int and before > after_snapshot):
            command = structs.replace(command, before=after_snapshot)
        return self._port.answer(space, command)

    def _diff(self, space: str, command: Diff) -> Any:
        views, newest = (command.before, command.after), self._snapshot.version
        for view in views:
            if view.version is not None and view.version > newest:
                raise InvalidInput(
                    f"version {view.version} came after the snapshot of this run, which is {newest}"
                )
        is_noted = {self._shows(view) for view in views} != {False}
        changes = self._port.answer(space, command)
        if is_noted:
            self._reads.add_range("", None)
        return changes

    # -- points ------------------------------------------------------------------------------------

    def _head(self, space: str, command: GetHead) -> Head:
        if command.version is None and command.at is None:
            return self._snapshot
        head = self._port.answer(space, command)
        is_snapshot = self._snapshot.version <= head.version <= self._until
        return self._snapshot if is_snapshot else head


class BufferPort(PortLayer):
    """The snapshot with a run's own operations applied, so that the verbs of a memory can tell what a
    write does. Nothing that is read here is noted but what they name."""

    def __init__(
        self, port: Port, *, view: View, snapshot: Head, now: int, buffer: Buffer, check: Check
    ) -> None:
        """Wrap a port; `check` raises when the run may not write, or not any more."""
        super().__init__(port)
        self._view = view
        self._snapshot = snapshot
        self._now = now
        self._buffer = buffer
        self._check = check

    def answer(self, space: str, command: Command[R], /) -> R:
        self._check()
        answer: Any
        if isinstance(command, MakeCommit | GetMade):
            answer = self._commit(command)
        elif isinstance(command, GlanceAt):
            answer = self._glance(space, command)
        elif isinstance(command, GetTimes):
            answer = Times(self._now, None)
        elif isinstance(command, GetHead):
            answer = self._snapshot
        elif isinstance(command, _LOOKS) and hasattr(command, "view"):
            answer = self._port.answer(space, structs.replace(command, view=self._view))
        else:
            raise _outside(command)
        made: R = answer
        return made

    def begin(self, space: str, command: Work[R], /) -> Task[R]:
        raise _outside(command)

    def watch(self, space: str, command: Watch, /) -> Watching:
        raise _outside(command)

    def for_caller(self, caller: Caller, /) -> Port:
        raise InvalidInput("a run is of who started it")

    def _glance(self, space: str, command: GlanceAt) -> Glance:
        own = self._buffer.own(command.id)
        if command.is_noted:
            for path in (*command.values, *command.sizes) or (None,):
                self._buffer.rely_on(command.id, path)
        if own is not None:
            return own.glance(command)
        return self._port.answer(space, structs.replace(command, view=self._view))

    def _commit(self, command: MakeCommit | GetMade) -> Commit:
        if isinstance(command, GetMade) or command.key is not None or command.meta is not None:
            raise InvalidInput("a run makes one commit, whose key is its own; leave key and meta")
        return self._buffer.add(command.operations, command.reads)


class LivePort(PortLayer):
    """The space as it is."""

    def __init__(self, port: Port, *, check_read: Check, check_write: Check) -> None:
        """Wrap a port; the checks raise when the run may not do it, or not any more."""
        super().__init__(port)
        self._check_read = check_read
        self._check_write = check_write

    def answer(self, space: str, command: Command[R], /) -> R:
        if isinstance(command, _LOOKS):
            self._check_read()
        else:
            self._check_write()
        return self._port.answer(space, command)

    def begin(self, space: str, command: Work[R], /) -> Task[R]:
        self._check_write()
        return self._port.begin(space, command)

    def watch(self, space: str, command: Watch, /) -> Watching:
        self._check_read()
        return self._port.watch(space, command)


def _outside(command: Command[Any]) -> InvalidInput:
    name = _TENDS.get(type(command))
    if name is None:
        return InvalidInput("a run writes by its own calls; its snapshot is read-only")
    return InvalidInput(f"a run does not tend its store; call {name}() on the space, outside of it")

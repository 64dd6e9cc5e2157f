"""A space as users hold it: methods that turn calls into commands of the port. It decides nothing."""

import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from rote.contract import (
    Branch,
    Change,
    Commit,
    Fact,
    Found,
    Glance,
    Head,
    Hit,
    MergeResult,
    Port,
    Resolution,
    SpaceInfo,
    State,
    View,
    paged,
)
from rote.contract.commands import (
    CreateBranch,
    DeleteBranch,
    Describe,
    Diff,
    Find,
    GetHead,
    GetHistory,
    GetMade,
    GetSnapshot,
    GetTimes,
    GlanceAt,
    ListBranches,
    MakeCommit,
    Merge,
    Postings,
    Query,
    Read,
    Scan,
    Settle,
    Skip,
    Values,
    Watch,
)
from rote.errors import InvalidInput
from rote.space.arguments import check_flags, check_limit, check_list, check_timeout
from rote.space.blob_calls import BlobCalls
from rote.space.commits import commit_at, commits_of
from rote.space.driving import Frames, retry
from rote.space.home import Home
from rote.space.running import Runs, RunStart, check_runs
from rote.space.searching import Searching, check_searching
from rote.space.sessions import check_sessions
from rote.space.transaction import Transaction
from rote.space.transaction_port import TransactionPort
from rote.values import (
    Json,
    check_branch_name,
    check_entity_id,
    check_key,
    datetime_of,
    micros_of,
    parse_time,
)
from rote.values.client_limits import CALL_SECONDS_DEFAULT
from rote.values.limits import HITS_READ_FIRST, PAGE_MAX, ROWS_READ_FIRST, SEGMENTS_KNOWN_MAX
from rote.values.names import check_prefix, check_text
from rote.values.ranges import prefix_end
from rote.values.times import as_text

if TYPE_CHECKING:
    from rote.runs.run import Run
    from rote.sessions.session import Session
    from rote.traces.models import ModelConfig
    from rote.traces.profiles import ToolProfile

T = TypeVar("T")

_StatePage = tuple[Sequence[State], tuple[str | None, View] | None]
_HistoryPage = tuple[Sequence[Fact], tuple[int, int] | None]


class Space(BlobCalls):
    """One space, on one branch, at its head or pinned at a version."""

    def __init__(
        self,
        port: Port,
        info: SpaceInfo,
        *,
        turns: "threading.RLock",
        branch: str = "main",
        pinned: Head | None = None,
        runs: Runs | None = None,
        searching: Searching | None = None,
        home: Home = Home(),  # noqa: B008 - it is frozen
    ) -> None:
        self._port = port
        self._info = info
        self._did = info.did
        self._turns = turns  # held by the thread of this store that retries after a conflict
        self._pinned = pinned
        self._runs = runs
        self._searching = searching
        self._home = home
        self._view = View(branch, None if pinned is None else pinned.version)

    # -- what it is --------------------------------------------------------------------------------

    @property
    def did(self) -> str:
        return self._did

    @property
    def name(self) -> str:
        return self._info.name

    @property
    def branch(self) -> str:
        return self._view.branch

    @property
    def version(self) -> int:
        """The newest version of the space, over all branches; on a pinned view the pinned one."""
        return self._head().version

    @property
    def oldest(self) -> int:
        """The oldest version that can be read: 1, or the horizon of the last compaction."""
        return self._port.answer(self.did, Describe()).oldest

    @property
    def head(self) -> str | None:
        """The hash of that version's commit; None when the space is empty."""
        return self._head().hash

    @property
    def last_change(self) -> int:
        """The version of the newest commit that changed what this view shows; 0 without one."""
        return self._port.answer(self.did, GetSnapshot(self._view)).version

    @property
    def now(self) -> datetime:
        """The time of the store's clock; on a pinned view the time of its commit."""
        if self._pinned is None:
            return datetime_of(self._port.answer("", GetTimes(shared=False)).now)
        return datetime_of(self._pinned.at or 0)

    @property
    def is_pinned(self) -> bool:
        """Whether it shows one version for good."""
        return self._pinned is not None

    @property
    def searching(self) -> Searching:
        """The object that answers searches in its memory records."""
        return check_searching(self._searching)

    def __repr__(self) -> str:
        at = "" if self._pinned is None else f" at {self._pinned.version}"
        return f"Space({self.name!r} on {self.branch}{at})"

    # -- reading -----------------------------------------------------------------------------------

    def get(self, id: str, default: Json = None) -> Json:
        """Return the value of an entity, or `default` when it does not exist."""
        (state,) = self._port.answer(self._did, Read((id,), self._view))
        return state.value if state.exists else default

    def read(self, id: str) -> State:
        """Return the state of an entity: value, version and hash; also when it does not exist."""
        return self._port.answer(self._did, Read((id,), self._view))[0]

    def read_many(self, ids: Sequence[str]) -> list[State]:
        """Return the states of many entities, in that order, all from one version of the space."""
        check_list(ids, "ids")
        return list(self._port.answer(self.did, Read(ids, self._view)))

    def glance(
        self,
        id: str,
        *,
        values: Sequence[str] = (),
        sizes: Sequence[str] = (),
        may_be_new: bool = False,
        is_noted: bool = True,
    ) -> Glance:
        """Return parts of an entity without the rest: the `values` at some JSON pointers, and the
        `sizes` of the arrays at others.

        With `may_be_new` an entity that is not cached may be shown as never written, without a look.
        Commit with that read, and on Conflict ask again without `may_be_new`.
        Without `is_noted` a transaction takes no note of it; name in the reads of the commit what it
        relies on.
        """
        check_list(values, "the pointers of values")
        check_list(sizes, "the pointers of sizes")
        command = GlanceAt(id, values, sizes, self._view, may_be_new, is_noted)
        return self._port.answer(self.did, command)

    def find(
        self,
        index: str,
        *,
        start: str = "",
        end: str | None = None,
        after: Hit | None = None,
        within: str = "",
        limit: int | None = None,
        descending: bool = False,
    ) -> Iterator[Hit]:
        """Yield entities that an index lists under terms in [start, end), beyond a hit, in (term, id)
        order or its reverse. Use a pinned view to get all of them from one state.

        within  how ids begin that the caller does not pass over; a transaction notes only these
        """

        def ask(above: Hit | None, size: int) -> tuple[Sequence[Hit], Hit | None]:
            view = self._view
            command = Find(index, start, end, above, size, view, within, descending=descending)
            hits = self._port.answer(self.did, command)
            return hits, hits[-1] if len(hits) == size else None

        return paged(ask, after, limit=check_limit(limit), first=HITS_READ_FIRST)

    def postings(
        self, index: str, terms: Sequence[str], *, known: Collection[int] = (), within: str = ""
    ) -> Found | None:
        """Return the parts of a packed index that answer a question; None where only a scan does."""
        named = tuple(known)[:SEGMENTS_KNOWN_MAX]  # others are sent again
        asked = Postings(index, tuple(terms), named, self._view, within)
        return self._port.answer(self.did, asked)

    def scan(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None
    ) -> Iterator[State]:
        """Yield existing entities whose ids start with `prefix`, in id order, all from one state."""
        check_prefix(prefix)
        return self.scan_range(prefix, prefix_end(prefix), after=after, limit=limit)

    def scan_range(
        self,
        start: str,
        end: str | None,
        *,
        after: str | None = None,
        limit: int | None = None,
        descending: bool = False,
    ) -> Iterator[State]:
        """Yield existing entities with start <= id < end, in id order or its reverse, beyond `after`."""
        check_text(start, "start")
        if end is not None:
            check_text(end, "end")
        if after is not None:
            check_text(after, "after")

        def ask(place: tuple[str | None, View] | None, size: int) -> _StatePage:
            above, view = place or (after, self._view)
            page = self._port.answer(self.did, Scan(start, end, above, size, view, descending))
            pinned = View(view.branch, page.version)
            return page.states, None if page.next is None else (page.next, pinned)

        return paged(ask, limit=check_limit(limit))

    def skip(self, prefix: str, count: int) -> str | None:
        """Return the last of the first `count` ids that start with `prefix`, without reading values.

        None when there are fewer, and when only a scan can tell: of the past, or on a branch that has
        a parent.
        """
        check_text(prefix, "prefix")
        return self._port.answer(self.did, Skip(prefix, prefix_end(prefix), count, self._view))

    def history(self, id: str, *, limit: int | None = None) -> list[Fact]:
        """Return the facts of an entity, newest first."""
        return list(self._fact_pages(id, check_limit(limit), PAGE_MAX))

    def facts(self, id: str) -> Iterator[Fact]:
        """Yield the facts of an entity, newest first; a long history need not fit into memory."""
        check_entity_id(id)
        return self._fact_pages(id, None, ROWS_READ_FIRST)

    def _fact_pages(self, id: str, limit: int | None, first: int) -> Iterator[Fact]:
        def ask(before: tuple[int, int] | None, size: int) -> _HistoryPage:
            page = self._port.answer(self.did, GetHistory(id, before, size, self._view))
            return page.facts, page.next

        return paged(ask, limit=limit, first=first)

    def log(
        self,
        *,
        since: int | None = None,
        before: int | None = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> Iterator[Commit]:
        """Yield the commits of the whole space above `since` and below `before`, or all that there
        are, oldest first or newest first."""
        return commits_of(
            self._port, self.did, since=since, before=before, limit=limit, newest=newest
        )

    def commit(self, version: int) -> Commit:
        """Return the commit of a version, on whichever branch it was made."""
        return commit_at(self._port, self.did, version)

    def query(self, query: Mapping[str, Any]) -> dict[str, Json]:
        """Return selected entities and those that their links lead to, all from one state.

        {"select": {"<id>" | "<prefix>*" | "*": {"path": [...], "schema": ...}}, ...}, with branch,
        at, since, limit, cursor, max_depth and max_entities; see docs/queries.md.
        """
        return self._port.answer(self.did, Query(_sendable(query), self._view))

    def values(self, query: Mapping[str, Any]) -> dict[str, Json]:
        """Return the values of selected entities at their paths, with the linked values in the places
        of followed links, and with the defaults of schemas."""
        return self._port.answer(self.did, Values(_sendable(query), self._view))

    def watch(
        self,
        query: Mapping[str, Any],
        *,
        since: int | None = None,
        timeout: float | None = None,
    ) -> Frames:
        """Yield frames of a query's result.

        The first frame leads from the result at version `since` (None: from nothing) to now, each
        next one comes when the result changes. The iterator ends after `timeout` seconds without a
        frame. A frame from None replaces all before it: after an erasure the result at `since` may
        not be known any more.
        """
        check_timeout(timeout)
        watching = self._port.watch(self.did, Watch(query, self._view, since))
        return Frames(watching, timeout)

    # -- writing -----------------------------------------------------------------------------------

    def set(self, id: str, value: Json, *, key: str | None = None) -> Commit:
        """Replace an entity's value."""
        return self.transact([{"op": "set", "id": id, "value": value}], key=key)

    def patch(self, id: str, ops: Sequence[Mapping[str, Any]], *, key: str | None = None) -> Commit:
        """Change an entity's value by RFC 6902 operations, or `splice`."""
        return self.transact([{"op": "patch", "id": id, "ops": ops}], key=key)

    def delete(self, id: str, *, key: str | None = None) -> Commit:
        """Delete an entity; its history stays."""
        return self.transact([{"op": "delete", "id": id}], key=key)

    def transact(
        self,
        operations: Sequence[Mapping[str, Any]],
        *,
        reads: Sequence[Mapping[str, Any]] | None = None,
        key: str | None = None,
        meta: Json = None,
        call: Mapping[str, Json] | None = None,
    ) -> Commit:
        """Commit all operations together, or raise Conflict when a read no longer holds.

        The key stands for the operations; or for `call`, where operations depend on what was read.
        """
        if self._pinned is not None:
            self._check_writable("set(), patch(), delete() or transact")
        relied_on = () if reads is None else reads
        command = MakeCommit(
            operations, self._view.branch, relied_on, (), key, meta, (), None, call
        )
        return self._port.answer(self._did, command)

    def made(self, key: str, call: Mapping[str, Json], ids: Sequence[str]) -> Commit | None:
        """Return the commit that a key has made for a call that writes these ids; None when the key
        is new. PayloadMismatch when it stands for something else."""
        self._check_writable("made")
        return self._port.answer(self.did, GetMade(key, call, ids, self.branch))

    def settle(self, attempt: str) -> Commit | None:
        """Return the commit that an attempt made; None when it made none, which is then final."""
        return self._port.answer(self.did, Settle(attempt))

    def update(self, id: str, function: Callable[[Json], Json], *, attempts: int = 32) -> Commit:
        """Set an entity to what `function` returns for its value (None when it does not exist).

        It is tried again when someone else wrote first; Conflict when all attempts failed.
        """
        if not callable(function):
            raise InvalidInput("update needs a function from the old value to the new one")

        def update_once() -> Commit:
            state = self.read(id)
            operation = {"op": "set", "id": id, "value": function(state.value)}
            return self.transact([operation], reads=[{"id": id, "version": state.version}])

        return self.retry(update_once, attempts=attempts)

    def retry(self, function: Callable[[], T], *, attempts: int = 32) -> T:
        """Call a function that reads and commits; call it again while it raises Conflict."""
        return retry(function, attempts=attempts, turns=self._turns)

    def transaction(self, *, key: str | None = None, meta: Json = None) -> Transaction:
        """Return a transaction: reads and writes that become one commit when its block ends, or nothing."""
        self._check_writable("transaction")
        if key is not None:
            check_key(key)
        port = TransactionPort(self._port, self.did, self.branch)
        space = Space(
            port, self._info, turns=self._turns, branch=self.branch, searching=self._searching
        )
        return Transaction(port, space, key=key, meta=meta)

    def run(
        self,
        *,
        workflow_id: str,
        model: "ModelConfig | None",
        policy_set_id: str,
        mode: str = "read_only",
        tools: "Sequence[ToolProfile]" = (),
        validate: str = "answers",
        run_id: str | None = None,
        commit_policy: Callable[[list[dict[str, Any]]], bool] | None = None,
        record: str | os.PathLike[str] | bool | None = None,
        replay: str | os.PathLike[str] | None = None,
    ) -> "Run":
        """Start a run. It reads from one state; its writes are one commit when its block ends, or
        nothing. It leaves a trace.

        On a pinned view the run reads from that view.

        mode           "off", "read_only", "buffered_write" or "live_read_write"; it must be enabled
        tools          profiles of the tools that it calls
        validate       what must be unchanged when it commits: the "answers" that it got, the
                       "entities" that they showed, or only those of them that it also "writes"
        commit_policy  called with the operations before they are applied; False aborts the run
        record, replay a file to write replies of tools and models to, or to take them from;
                       record=True writes recording.jsonl beside the trace
        """
        return check_runs(self._runs).start(
            RunStart(self._info, self.branch, self._pinned),
            workflow_id=workflow_id,
            model=model,
            policy_set_id=policy_set_id,
            mode=mode,
            tools=tools,
            validate=validate,
            run_id=run_id,
            commit_policy=commit_policy,
            record=record,
            replay=replay,
        )

    def session(
        self,
        *,
        watch: Mapping[str, Any] | None = None,
        journal: str | os.PathLike[str] | None = None,
        timeout: float = CALL_SECONDS_DEFAULT,
    ) -> "Session":
        """Open a session: its writes show at once, and the store decides them afterwards.

        watch    a query, or {name: query}: what it shows is held, and can be read offline
        journal  a file that keeps commits until they are decided, and goes on after a crash
        timeout  seconds to wait for the first state, and at the end for what is not decided
        """
        self._check_writable("session")
        sessions = check_sessions(self._home.sessions)
        return sessions.begin(self, watch=watch, journal=journal, timeout=timeout)

    # -- other views -------------------------------------------------------------------------------

    def at(self, point: int | datetime | str) -> "Space":
        """Return this space as it was at a version, or at a time (also as RFC 3339 text); read-only."""
        head = self._head_at(point)
        if self._pinned is not None and head.version > self._pinned.version:
            raise InvalidInput(
                f"this view is pinned at version {self._pinned.version} and sees nothing later;"
                " ask the space it came from"
            )
        return self._view_of(self.branch, head)

    def _head_at(self, point: int | datetime | str) -> Head:
        if isinstance(point, datetime):
            return self._port.answer(self.did, GetHead(at=micros_of(point)))
        if type(point) is str:
            return self._port.answer(self.did, GetHead(at=parse_time(point)))
        if type(point) is int:
            return self._port.answer(self.did, GetHead(point))
        raise InvalidInput("at() takes a version, an aware datetime or an RFC 3339 time")

    def on(self, branch: str) -> "Space":
        """Return this space on another branch, at the same point."""
        check_branch_name(branch)
        # A read of no entities, which raises NotFound at once for a branch that does not exist.
        self._port.answer(self.did, Read((), View(branch, self._view.version)))
        return self._view_of(branch, self._pinned)

    def _view_of(self, branch: str, pinned: Head | None) -> "Space":
        return Space(
            self._port, self._info, turns=self._turns, branch=branch, pinned=pinned,
            runs=self._runs, searching=self._searching, home=self._home,
        )  # fmt: skip

    # -- branches ----------------------------------------------------------------------------------

    def branches(self) -> list[Branch]:
        """Return all branches, deleted ones too, in the order in which they were made."""
        return list(self._port.answer(self.did, ListBranches(self._view.version)))

    def create_branch(
        self, name: str, *, at: int | datetime | str | None = None, key: str | None = None
    ) -> "Space":
        """Make a branch of this one, as it is now or was at a point; nothing is copied."""
        self._check_writable("create_branch")
        version = None if at is None else self._head_at(at).version
        self._port.answer(self.did, CreateBranch(name, self.branch, version, key))
        return self._view_of(name, None)

    def delete_branch(self, name: str, *, key: str | None = None) -> Commit:
        """End a branch: it can still be read and merged from, but no longer written. Its name cannot
        be used again."""
        self._check_writable("delete_branch")
        return self._port.answer(self.did, DeleteBranch(name, key))

    def merge(
        self,
        source: str,
        *,
        on_conflict: str = "fail",
        resolutions: Mapping[str, Json | Resolution] | None = None,
        dry_run: bool = False,
        key: str | None = None,
    ) -> MergeResult:
        """Bring what another branch has changed into this one, as one commit.

        on_conflict  what to do about entities that both have changed: "fail" (write nothing and
                     return them), "ours", "theirs", "latest" (the newer write) or "paths" (objects
                     member by member)
        resolutions  {id: value or rote.DELETE}, for single conflicts
        """
        self._check_writable("merge")
        check_flags(dry_run=dry_run)
        given = {} if resolutions is None else resolutions
        return self._port.answer(
            self.did, Merge(source, self.branch, on_conflict, given, dry_run, key)
        )

    def diff(self, other: "str | int | Space") -> list[Change]:
        """Return the changes from this state to another: a branch, a version of this one, or a view."""
        view = self._view
        if isinstance(other, Space):
            if other.did != self.did:
                raise InvalidInput("only states of one space can be compared")
            if other._port is not self._port:
                # The view would be read in this store, which may not have the other store's writes.
                raise InvalidInput(
                    "only states of one store can be compared; take both views from it"
                )
            after = other._view
        elif type(other) is int:
            after = View(view.branch, other)
        elif type(other) is str:
            after = View(other, view.version)
        else:
            raise InvalidInput("diff() takes a branch name, a version or a view of this space")
        return list(self._port.answer(self.did, Diff(view, after)))

    def _head(self) -> Head:
        return self._port.answer(self.did, GetHead()) if self._pinned is None else self._pinned


def _sendable(query: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a query with its time as text: a command holds plain data."""
    at = query.get("at") if type(query) is dict else None
    return {**query, "at": as_text(at)} if isinstance(at, datetime) else query

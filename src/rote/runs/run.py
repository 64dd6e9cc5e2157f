"""A run: reads from one state of a space, writes that become one commit at its end or nothing, and a
trace of what happened.

    with space.run(…) as run      the snapshot is taken, the ledger has the run, its owner a lease
        run.get, run.memory …     from the snapshot, and noted
        run.set, run.memory …     rehearsed, and kept back
    the end of the block          the traces are in place; policy; pending; applied, or aborted

When the block raises, its traces say so, and nothing is applied.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Any, Self
from weakref import finalize

from msgspec import Struct, structs

from rote.contract import Commit, Glance, Head, Port, SpaceInfo, State, View
from rote.contract.commands import GetHead, GetTimes
from rote.contract.run_modes import LIVE, Mode
from rote.errors import Denied, InvalidInput
from rote.questions import SPACE_SCHEME, parse_request
from rote.recordings.recordings import Recording, Replay
from rote.records.memory import Memory
from rote.retrieval import Answer
from rote.retrieval.embedders import Embedder, KnownQuestion
from rote.retrieval.package import Package
from rote.retrieval.retrieving import Examined, possible_policies
from rote.runs.adapter_calls import AdapterCalls
from rote.runs.answers import Moment, retrieve_digest, retrieve_ranges, retrieved_ids
from rote.runs.events import Event, RunEvents
from rote.runs.identities import commit_id, payload_fingerprint, snapshot_id
from rote.runs.ledger import RunRow
from rote.runs.life import Ending, RunLife
from rote.runs.memory import RunMemory
from rote.runs.modes import BUFFERED, OFF
from rote.runs.ports import BufferPort, LivePort, SnapshotPort
from rote.runs.reads import ReadSet
from rote.runs.run_rows import (
    BUFFER_OPEN,
    POLICY_REJECTED,
    NotedAnswer,
    PendingCommit,
    RunBody,
)
from rote.runs.scoped import Scoped
from rote.runs.searching import RunSearching
from rote.space import Space
from rote.space.buffer import Buffer
from rote.space.receipts import add_receipt
from rote.traces.models import ModelConfig
from rote.traces.profiles import ToolProfile
from rote.traces.retrieval_events import retrieval_event
from rote.values import Json, canonical, decode_canonical
from rote.values.times import as_text

CommitPolicy = Callable[[list[dict[str, Any]]], bool]


class Terms(Struct, frozen=True, kw_only=True):
    """The terms that a run was started with."""

    run_id: str
    is_named: bool  # whether the caller chose its id, so that others may choose the same
    workflow_id: str
    policy_set_id: str
    mode: Mode
    validate: str
    model: ModelConfig | None
    tools: Sequence[ToolProfile]
    commit_policy: CommitPolicy | None
    folder: Path | None  # of its traces
    record: Path | None  # where its calls are recorded
    is_recorded_beside: bool  # in the folder of its traces


class Run:
    """Use it in a `with` block. Any thread may read and write in it; events come one after the other."""

    def __init__(
        self,
        port: Port,
        life: RunLife,
        *,
        space: SpaceInfo,
        branch: str,
        base: Head,
        snapshot: Head,
        terms: Terms,
        replay: Replay | None,
    ) -> None:
        """base  the head whose state the snapshot is: what is written after it may conflict"""
        self._port = port
        self._life = life
        self._space = space
        self._branch = branch
        self._base = base
        self._snapshot = snapshot
        self._terms = terms
        self._replay = replay
        self._now = now = snapshot.at or 0
        self._row: RunRow | None = None
        self._events: RunEvents | None = None
        self._adapter_calls: AdapterCalls | None = None
        self._state = "new"  # then open, then ended
        self._ending: Ending | None = None
        self._reads = ReadSet(
            branch=branch,
            version=base.version,
            validate=terms.validate,
            is_kept=terms.mode == BUFFERED and replay is None,
        )
        view = View(branch, snapshot.version)
        self._buffer = Buffer(port, space.did, view, now=lambda: now, note=self._reads.add_entity)
        buffering = BufferPort(
            port,
            view=view,
            snapshot=snapshot,
            now=self._now,
            buffer=self._buffer,
            check=self._check_may_write,
        )
        noting = SnapshotPort(
            port,
            branch=branch,
            snapshot=snapshot,
            until=base.version,
            reads=self._reads,
            check=self._check_may_read,
        )
        self._writing = Space(buffering, space, turns=RLock(), branch=branch)
        self._searching = RunSearching(self._ask)
        self._reading = Space(
            noting,
            space,
            turns=RLock(),
            branch=branch,
            pinned=snapshot,
            searching=self._searching,
        )
        self._moment = Moment(
            port, space, branch, snapshot.version, snapshot.hash, base.version, self._now, _root()
        )
        self.memory_snapshot_id = snapshot_id(branch, snapshot)
        self.commit_id = commit_id(terms.run_id, self.memory_snapshot_id, terms.policy_set_id)
        self.memory = self.memory_of()
        self.scoped = self._scoped()

    def _scoped(self) -> Scoped:
        return Scoped(
            did=self._space.did,
            branch=self._branch,
            mode=self._terms.mode,
            is_replay=self._replay is not None,
            buffer=self._buffer,
            memory_of=self.memory_of,
            faces=self._faces,
            calls=self._calls,
            check_read=self._check_may_read,
            check_write=self._check_may_write,
        )

    # -- what it is --------------------------------------------------------------------------------

    @property
    def run_id(self) -> str:
        return self._terms.run_id

    @property
    def workflow_id(self) -> str:
        return self._terms.workflow_id

    @property
    def policy_set_id(self) -> str:
        return self._terms.policy_set_id

    @property
    def mode(self) -> str:
        return self._terms.mode

    @property
    def validate(self) -> str:
        return self._terms.validate

    @property
    def model_config_id(self) -> str:
        return self._told().model_config_id

    @property
    def state(self) -> str:
        """The state of the run: buffer_open, commit_pending, commit_applied or commit_aborted."""
        return BUFFER_OPEN if self._row is None else self._row.body.state

    @property
    def discarded(self) -> bool:
        return self._row is not None and self._row.body.discarded

    @property
    def reason_code(self) -> str | None:
        """The reason of an abort."""
        return None if self._row is None else self._row.body.reason_code

    @property
    def commit(self) -> Commit | None:
        """The commit of the run, afterwards; None when it had nothing to write, or was not applied."""
        return None if self._ending is None else self._ending.commit

    @property
    def payload_fingerprint(self) -> str:
        """The fingerprint of the operations: so far, or in the end."""
        return payload_fingerprint(self._branch, self._buffer.operations)

    @property
    def operations(self) -> list[dict[str, Any]]:
        """The operations as `transact` takes them: so far, or in the end."""
        return deepcopy(self._buffer.operations)

    @property
    def trace(self) -> dict[str, Json]:
        return self._told().trace

    @property
    def retrieval_trace(self) -> dict[str, Json]:
        return self._told().retrieval_trace

    def __repr__(self) -> str:
        return f"Run({self.run_id} {self.mode} at {self.memory_snapshot_id[:40]}, {self.state})"

    # -- reading -----------------------------------------------------------------------------------

    def get(self, id: str, default: Json = None) -> Json:
        return self._readable().get(id, default)

    def read(self, id: str) -> State:
        return self._readable().read(id)

    def glance(self, id: str, *, values: Sequence[str] = (), sizes: Sequence[str] = ()) -> Glance:
        """Parts of an entity; others may change the rest of it without being in the way."""
        return self._readable().glance(id, values=values, sizes=sizes)

    def scan(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None
    ) -> Iterator[State]:
        return self._readable().scan(prefix, after=after, limit=limit)

    def query(self, query: Mapping[str, Any]) -> dict[str, Json]:
        return self._readable().query(query)

    def values(self, query: Mapping[str, Any]) -> dict[str, Json]:
        return self._readable().values(query)

    def retrieve(
        self,
        request: Mapping[str, Any],
        *,
        dropped: str | None = None,
        embedder: Embedder | None = None,
    ) -> Package:
        """The memories that answer a question, from this run's space unless it names other stores;
        the trace has it."""
        found, _ = self._ask(request, dropped, embedder)
        if self._life.is_kept:
            ledger = found.spaces[0].did if found.spaces else self._space.did
            add_receipt(self._port, ledger, found.receipt, since=found.since)
        return found.package

    def _ask(
        self, request: Mapping[str, Any], dropped: str | None, embedder: Embedder | None = None
    ) -> tuple[Examined, int]:
        """Return the answer and the version that it was asked at; the trace and the reads have it."""
        self._check_may_read()
        if not isinstance(request, Mapping):
            raise InvalidInput("the request must be an object", code="invalid_input")
        asked: Any = dict(request)
        if asked.get("store_paths") is None:
            asked["store_paths"] = [f"{SPACE_SCHEME}{self._space.name}"]
        # What is wrong is told as outside of a run.
        parse_request(asked, has_store=True, policies=possible_policies(embedder))
        asked = decode_canonical(canonical(_sendable(asked)))
        moment = self._moment if self._terms.mode != LIVE else self._current_moment()
        own = moment.own_paths(asked["store_paths"])
        found = moment.retrieve(asked, dropped, own=own, embedder=embedder)
        self._told().retrieval(partial(retrieval_event, asked, found.package))
        call = {"name": "retrieve", "request": asked, "own": own}
        if found.answered.query_vector:
            shown = found.package["policy"]["embedder"]
            call["embedder"] = KnownQuestion.form(shown, found.answered.query_vector)
        if any(not path.startswith(SPACE_SCHEME) for path in asked["store_paths"]):
            call["root"] = moment.root
        ranges = retrieve_ranges(self._branch, own)
        answer = NotedAnswer(call, retrieve_digest(found.package), ranges)
        self._reads.add_answer(answer, retrieved_ids(found, own))
        return found, moment.version

    def memory_of(self, **settings: Any) -> Memory:
        """The memory with namespaces, a profile and retention of the host's own, which are those that
        rote.Memory takes."""
        if self._terms.mode == LIVE:
            return Memory(self._live_space(), **settings)
        return RunMemory(
            reading=self._reading,
            plain=self._moment.view(),
            writing=self._writing,
            reads=self._reads,
            buffer=self._buffer,
            check_read=self._check_may_read,
            check_write=self._check_may_write,
            settings=settings,
        )

    def add_retrieval(self, answer: Answer) -> None:
        """Note in the trace what an ApproximateBackend has answered. It is no part of the snapshot, so
        it is not looked at again when the run commits."""
        self._check_may_read()
        if not isinstance(answer, Answer):
            raise InvalidInput("a retrieval is added by the answer of an ApproximateBackend")
        self._told().retrieval(answer.event)

    def _current_moment(self) -> Moment:
        head = self._port.answer(self._space.did, GetHead())
        now = self._port.answer("", GetTimes(shared=False)).now
        return structs.replace(
            self._moment, version=head.version, hash=head.hash, until=head.version, now=now
        )

    # -- writing -----------------------------------------------------------------------------------

    def set(self, id: str, value: Json) -> None:
        self._write({"op": "set", "id": id, "value": value})

    def patch(self, id: str, ops: Sequence[Mapping[str, Any]]) -> None:
        self._write({"op": "patch", "id": id, "ops": ops})

    def delete(self, id: str) -> None:
        self._write({"op": "delete", "id": id})

    def _write(self, operation: dict[str, Any]) -> None:
        self._check_may_write()
        face = self._live_space() if self._terms.mode == LIVE else self._writing
        face.transact([operation])

    # -- what happened -----------------------------------------------------------------------------

    def event(self, *, role: str, interceptor: str, decision_type: str) -> Event:
        """The next event, a context manager: event.call, event.model and event.guardrail."""
        return self._told().event(role=role, interceptor=interceptor, decision_type=decision_type)

    def output(self, value: Json) -> None:
        """Note the output of the run; the trace has its structure."""
        self._told().output(value)

    # -- its life ----------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        if self._state != "new":
            raise InvalidInput("a run is begun once; start another one")
        terms = self._terms
        self._state = "ended"  # until it has begun
        recording: Recording | Replay | None = self._replay
        if terms.record is not None:
            recording = Recording(
                terms.record,
                memory_snapshot_id=self.memory_snapshot_id,
                in_own_folder=terms.is_recorded_beside,
            )
        events = RunEvents(
            run_id=terms.run_id,
            workflow_id=terms.workflow_id,
            memory_snapshot_id=self.memory_snapshot_id,
            mode=terms.mode,
            model=terms.model,
            policy_set_id=terms.policy_set_id,
            tools=terms.tools,
            folder=terms.folder,
            recording=recording,
        )
        try:
            self._row = self._life.open(self._space.did, self._body(), is_named=terms.is_named)
            # An interruption can come between here and the block, and then nobody ends it.
            self._abandoned = finalize(self, self._life.leave, self._row)
            self._abandoned.atexit = False
            self._adapter_calls = AdapterCalls(events)
            self._events, self._state = events, "open"
        except BaseException:
            events.discard()
            if self._row is not None:
                self._life.leave(self._row)
            raise
        return self

    def _body(self) -> RunBody:
        terms = self._terms
        return RunBody(
            run_id=terms.run_id,
            workflow_id=terms.workflow_id,
            policy_set_id=terms.policy_set_id,
            mode=terms.mode,
            validate=terms.validate,
            branch=self._branch,
            memory_snapshot_id=self.memory_snapshot_id,
            commit_id=self.commit_id,
            snapshot_version=self._snapshot.version,
            base_version=self._base.version,
            now=self._now,
            owner="",
            started_at=self._life.now(),
            replayed=self._replay is not None,
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._check_open()
        if error is not None and self._told().is_elsewhere:
            return  # a fork that is left; the run goes on where it began
        self._told().check_here()
        self._state = "ended"
        assert self._row is not None
        row = self._row
        try:
            self._buffer.close()
            self._conclude(error)
        except BaseException:
            if not self._row.body.has_ended:
                self._life.leave(row)
            raise
        finally:
            self._abandoned.detach()

    def _conclude(self, error: BaseException | None) -> None:
        if error is not None:
            self._fail(error)
            return
        try:
            assert self._adapter_calls is not None
            known = self._adapter_calls.hidden(self._buffer.operations)
            recorded = payload_fingerprint(self._branch, known)
            self._told().finish(self.payload_fingerprint, recorded=recorded)
            is_wanted = self._is_wanted()
        except BaseException as failure:
            self._fail(failure)
            raise
        if self._replay is not None:
            self._discard()
            return
        self._end(is_wanted)

    def _fail(self, error: BaseException) -> None:
        try:
            self._told().fail(error)
        finally:
            self._discard()

    def _is_wanted(self) -> bool:
        """Whether the policy allows the operations; without operations it is not asked."""
        policy = self._terms.commit_policy
        if policy is None or not self._buffer.operations or self._replay is not None:
            return True
        is_wanted = policy(deepcopy(self._buffer.operations))
        if type(is_wanted) is not bool:
            raise InvalidInput(
                f"commit_policy must return True or False, not {is_wanted!r:.80}; nothing was applied",
                argument="commit_policy",
            )
        return is_wanted

    def _end(self, is_wanted: bool) -> None:
        assert self._row is not None
        life, row = self._life, self._row
        operations = self._buffer.operations
        if not operations:
            self._row = life.close_empty(row, self.payload_fingerprint)
            return
        if not is_wanted:
            self._row = life.reject(row, POLICY_REJECTED)
            return
        reads, answers = self._reads.checks(self._buffer.written())
        guards = list(self.scoped.guards.values())
        pending = PendingCommit(operations, reads, answers, guards)
        ending = life.commit(row, pending, self.payload_fingerprint)
        self._row, self._ending = ending.row, ending
        if ending.error is not None:
            raise ending.error

    def _discard(self) -> None:
        assert self._row is not None
        self._row = self._life.discard(self._row)

    # -- what it may -------------------------------------------------------------------------------

    def _readable(self) -> Space:
        self._check_may_read()
        return self._live_space() if self._terms.mode == LIVE else self._reading

    def _faces(self) -> tuple[Space, Space]:
        """Return the space that is read, and the one that is written."""
        if self._terms.mode == LIVE:
            live = self._live_space()
            return live, live
        return self._reading, self._writing

    def _live_space(self) -> Space:
        live = LivePort(
            self._port, check_read=self._check_may_read, check_write=self._check_may_write
        )
        return Space(
            live, self._space, turns=RLock(), branch=self._branch, searching=self._searching
        )

    def _told(self) -> RunEvents:
        if self._events is None:
            raise InvalidInput("the run has not begun; use it in its with block")
        return self._events

    def _calls(self) -> AdapterCalls:
        self._check_open()
        assert self._adapter_calls is not None
        return self._adapter_calls

    def _check_open(self) -> None:
        if self._state != "open":
            raise InvalidInput("this run has ended, or has not begun; use it in its with block")

    def _check_may_read(self) -> None:
        self._check_open()
        if self._terms.mode == OFF:
            raise Denied("a run in mode off sees no memory; start it in another mode", mode=OFF)

    def _check_may_write(self) -> None:
        self._check_open()
        if self._terms.mode not in (BUFFERED, LIVE):
            raise Denied(
                f"a run in mode {self._terms.mode} writes nothing; start it in mode {BUFFERED}",
                mode=self._terms.mode,
            )
        self._told().check_replayable("write")


def _sendable(request: dict[str, Any]) -> dict[str, Any]:
    """Return a checked request with its times as texts: a question is plain data."""
    sent = {name: as_text(request[name]) for name in request}
    if sent.get("filters"):
        sent["filters"] = {name: as_text(each) for name, each in sent["filters"].items()}
    return sent


def _root() -> str | None:
    """Return the folder in which retrievals look for files; None when it is gone, or its name is no text
    that a ledger could hold."""
    try:
        root = str(Path().absolute())
        root.encode()
    except (OSError, UnicodeEncodeError):
        return None
    return root

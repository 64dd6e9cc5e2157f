"""A run as a person reads it: its head, then every event with its retrievals, calls and guardrails.

A trace has fingerprints where a recording has the values. The recording has all calls in the order in
which they were made; the nth call of its kind `tool` is the nth tool call of the trace. Calls of adapters
are shown in the event that they were made in, or in the next one.

    recording   model   tool   tool   model   adapter   tool   model
    trace       └── event 0 ──────┘   └─ event 1 ──────────┘   └ rest: no event of the trace has it
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType, to_builtins
from msgspec.structs import asdict

from rote.errors import InvalidInput
from rote.traces.artifacts import Document, member, read_artifact
from rote.traces.documents import DeterminismTrace, Event, RetrievalEvent, RetrievalTrace, ToolCall
from rote.traces.profiles import ToolProfile, profiles_told
from rote.traces.recorded_calls import (
    Origin,
    RecordedCall,
    RecordedLine,
    Source,
    is_tool_call,
)
from rote.traces.reports import Failures
from rote.values import Json, decode
from rote.values.limits import RECORDING_SHOWN_BYTES_MAX, TRACE_DEPTH_MAX

_ASKS = {"adapter": "calls adapters", "model": "asks the model"}


class TimelineCall(RecordedCall, frozen=True, kw_only=True):
    """A call of a tool, an adapter or the model; without a recording its arguments are the compared ones."""

    # Of the compared parts; of a tool call in the trace.
    result_fingerprint: str | UnsetType = UNSET
    side_effect_fingerprint: str | UnsetType = UNSET


class TimelineRecord(Struct, frozen=True):
    """A memory that was returned."""

    rank: int
    record_id: str
    record_type: str
    score: float


class TimelineRetrieval(Struct, frozen=True):
    """A question to memory, and the records that answered it."""

    policy_id: str
    policy_version: str
    retrieval_mode: str
    query_fingerprint: str
    candidate_count: int
    filters: dict[str, Json]  # those that were used
    records: tuple[TimelineRecord, ...]


class TimelineEvent(Struct, frozen=True):
    """One step of a run."""

    index: int
    role: str
    interceptor: str
    decision_type: str
    retrievals: tuple[TimelineRetrieval, ...]
    calls: tuple[TimelineCall, ...]
    guardrails: tuple[str, ...]

    @property
    def tool_calls(self) -> list[TimelineCall]:
        """The tool calls of the trace, in its order."""
        return [call for call in self.calls if call.result_fingerprint is not UNSET]


class Writes(Struct, frozen=True):
    """The commit of a run, as its space tells it."""

    version: int | None  # None when nothing of it was written
    facts: tuple[dict[str, Json], ...]  # op, id and body of each


class Timeline(Struct, frozen=True, kw_only=True):
    """A run and everything that it did, in order."""

    run_id: str
    workflow_id: str
    memory_snapshot_id: str
    visibility_mode: str
    policy_set_id: str
    model: Json  # its settings; null when there is none, or when the trace does not tell
    model_config_id: str
    model_fixed: bool
    replayed: bool
    discarded: bool
    error: str | None  # the class of the exception that its block raised, where the trace tells
    truncated: bool
    events_dropped: int
    output_type: str
    output_shape_hash: str
    commit_payload_fingerprint: str | None
    writes_nothing: bool = False  # as the fingerprint of its writes tells
    tools: Json = None  # their profiles, as far as the trace tells them
    has_recording: bool
    recording_problem: str | None = None  # of one that was found and is not used
    is_recording_cut: bool  # it is so long that its last calls are not here
    events: tuple[TimelineEvent, ...]
    rest: tuple[TimelineCall, ...]  # recorded calls that no event of the trace has
    writes: Writes | None = None  # its commit, where somebody has looked it up

    def to_dict(self) -> dict[str, Json]:
        builtins: dict[str, Json] = to_builtins(self)
        return builtins


def make_timeline(
    trace: Json,
    retrieval: Json = None,
    recording: Source | None = None,
    *,
    is_partial: bool = False,
) -> Timeline:
    """Return the timeline of a run, whose traces are JSON text or plain data.

    is_partial  whether the trace is that of a run that has not ended, which names no recording

    InvalidInput when one of them is not in order, or when a user named a recording of another run. One
    that was found and does not fit is not used.
    """
    value, checked = _read(trace, DeterminismTrace, "trace")
    asked = None if retrieval is None else _read(retrieval, RetrievalTrace, "retrieval")[1]
    run = _Run(value, checked, asked)
    if recording is None:
        return run.timeline(None)
    origin = Origin(checked.metadata.recording, checked.memory_snapshot_id, is_partial)
    calls = _Calls()
    try:
        recording.read(origin, calls.take)
        return run.timeline(calls)
    except InvalidInput as problem:
        recording.refuse(problem)
        return run.timeline(None, problem=str(problem))


def _read(source: Any, kind: type[Document], prefix: str) -> tuple[Any, Document]:
    """Return an artifact as plain data and typed; InvalidInput when a member is not in order."""
    failures = Failures()
    artifact = read_artifact(source, kind, prefix, failures)
    if len(failures):
        raise InvalidInput(
            f"the trace is not in order: {failures.listed[0].message}; rote trace check lists all"
            " that is wrong with it",
            codes=[failure.code for failure in failures.listed[:10]],
        )
    return artifact.value, artifact.checked


class _Run(Struct, frozen=True):
    """The traces of a run."""

    value: Any  # of the trace, with the members that no schema names
    trace: DeterminismTrace
    retrieval: RetrievalTrace | None

    def timeline(self, recorded: "_Calls | None", *, problem: str | None = None) -> Timeline:
        trace, metadata = self.trace, self.trace.metadata
        told = member(self.value, "metadata")
        profiles = profiles_told(member(told, "tools"))
        calls = _Pairing(() if recorded is None else recorded.calls, profiles)
        error = member(told, "error")
        return Timeline(
            run_id=trace.run_id,
            workflow_id=trace.workflow_id,
            memory_snapshot_id=trace.memory_snapshot_id,
            visibility_mode=trace.visibility_mode,
            policy_set_id=trace.policy_set_id,
            model=member(told, "model"),
            tools=member(told, "tools"),
            model_config_id=trace.model_config_id,
            model_fixed=metadata.model_fixed,
            replayed=metadata.replayed,
            discarded=metadata.discarded,
            error=error if type(error) is str else None,
            truncated=metadata.truncated,
            events_dropped=metadata.events_dropped,
            output_type=trace.output.output_type,
            output_shape_hash=trace.output.output_shape_hash,
            commit_payload_fingerprint=metadata.commit_payload_fingerprint,
            has_recording=recorded is not None,
            recording_problem=problem,
            is_recording_cut=recorded is not None and recorded.is_cut,
            events=tuple(self._events(calls)),
            rest=tuple(calls.rest()),
        )

    def _events(self, calls: "_Pairing") -> Iterator[TimelineEvent]:
        asked = [] if self.retrieval is None else self.retrieval.events
        rows = {row.retrieval_event_id: row for row in asked}
        for event in self.trace.events:
            yield _event(event, rows, calls.take(event))


class _Calls:
    """The calls of a recording, as many as may be held."""

    def __init__(self) -> None:
        self.calls: list[RecordedCall] = []
        self.is_cut = False
        self._room = RECORDING_SHOWN_BYTES_MAX

    def take(self, line: RecordedLine) -> None:
        self._room -= line.size_bytes
        if self._room >= 0:
            self.calls.append(line.call())
        else:
            self.is_cut = True


class _Pairing:
    """The calls of a recording on their way to the events of the trace."""

    def __init__(self, calls: Sequence[RecordedCall], profiles: Mapping[str, ToolProfile]) -> None:
        self._waiting = deque(calls)
        self._profiles = profiles

    def take(self, event: Event) -> tuple[TimelineCall, ...]:
        """Return the calls of the next event in the order in which they were made.

        When the trace does not tell how often the event asked the model, the model is asked by the
        event whose tool call comes next.
        """
        taken: list[TimelineCall] = []
        expected, left = deque(event.tool_calls), _Left(event)
        while expected or left.any:
            head = self._waiting[0] if self._waiting else None
            is_tool = head is not None and is_tool_call(head, self._profiles)
            if head is not None and not is_tool and left.takes(head.kind):
                taken.append(_recorded(self._waiting.popleft()))
            elif expected and not expected[0].is_recorded:
                taken.append(_unrecorded(expected.popleft()))
            elif head is None:
                break
            elif not is_tool:
                raise InvalidInput(f"an event {_ASKS[head.kind]} less often than it")
            elif not expected:
                raise InvalidInput("an event calls fewer tools than it")
            else:
                taken.append(_recorded(self._waiting.popleft(), expected.popleft()))
        return (*taken, *map(_unrecorded, expected))

    def rest(self) -> Iterator[TimelineCall]:
        return map(_recorded, self._waiting)


class _Left:
    """The calls of an event that are no tool calls, as far as they were not found yet."""

    def __init__(self, event: Event) -> None:
        self._models = event.model_calls  # None when the trace does not tell
        self._adapters = event.adapter_calls

    @property
    def any(self) -> bool:
        return bool(self._models or self._adapters)

    def takes(self, kind: str) -> bool:
        """Return whether a call of this kind is one of them, and take it."""
        count = self._adapters if kind == "adapter" else self._models
        if count == 0:
            return False
        if kind == "adapter":
            self._adapters -= 1
        elif self._models is not None:
            self._models -= 1
        return True


def _event(
    event: Event, rows: dict[str, RetrievalEvent], calls: tuple[TimelineCall, ...]
) -> TimelineEvent:
    asked = [rows[id] for id in event.retrieval_event_ids if id in rows]
    return TimelineEvent(
        index=event.index,
        role=event.role,
        interceptor=event.interceptor,
        decision_type=event.decision_type,
        retrievals=tuple(map(_retrieval, asked)),
        calls=calls,
        guardrails=tuple(event.guardrails_triggered),
    )


def _retrieval(row: RetrievalEvent) -> TimelineRetrieval:
    filters: dict[str, Json] = to_builtins(row.applied_filters)
    return TimelineRetrieval(
        policy_id=row.policy_id,
        policy_version=row.policy_version,
        retrieval_mode=row.retrieval_mode,
        query_fingerprint=row.query_fingerprint,
        candidate_count=row.candidate_count,
        filters={name: value for name, value in filters.items() if value is not None},
        records=tuple(
            TimelineRecord(each.rank, each.record_id, each.record_type, each.score)
            for each in row.selected_records
        ),
    )


def _recorded(line: RecordedCall, call: ToolCall | None = None) -> TimelineCall:
    """Return a recorded call, with the call of the trace that it is, if that has it."""
    if call is not None and call.tool_name != line.name:
        raise InvalidInput(
            f"it calls {line.name!r:.120} where the trace calls {call.tool_name!r:.120}"
        )
    fingerprints = {} if call is None else _fingerprints(call)
    return TimelineCall(**asdict(line), **fingerprints)


def _unrecorded(call: ToolCall) -> TimelineCall:
    """Return a call that only the trace has. A profile that compares all arguments has them under
    the empty pointer."""
    args = {
        pointer: decode(bytes(raw), size_bytes_max=len(bytes(raw)), depth_max=TRACE_DEPTH_MAX)
        for pointer, raw in call.normalized_args.items()
    }
    whole = args[""] if list(args) == [""] else args
    return TimelineCall(kind="tool", name=call.tool_name, args=whole, **_fingerprints(call))


def _fingerprints(call: ToolCall) -> dict[str, Any]:
    return {
        "result_fingerprint": call.tool_result_fingerprint,
        "side_effect_fingerprint": call.side_effect_fingerprint or UNSET,
    }

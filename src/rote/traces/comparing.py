"""Comparing the behaviour of two runs, strictly by index; every difference is reported.

Events are compared as they were decoded, most of them with one comparison. Only events that differ
are compared part by part.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, islice, zip_longest
from math import inf
from typing import Any, get_args

from msgspec import Struct

from rote.errors import InvalidInput
from rote.traces.artifacts import member
from rote.traces.checking import MODEL, Examination
from rote.traces.documents import (
    Arguments,
    DeterminismTrace,
    Event,
    RetrievalEvent,
    RetrievalTrace,
    ToolCall,
)
from rote.traces.formats import CONTRACT_VERSIONS, SCORE_DECIMALS
from rote.traces.profiles import Part, profiles_told
from rote.traces.recorded import Recorded, Wanted, add_values
from rote.traces.recorded_calls import Origin, Source, named_source
from rote.traces.reports import Failures, Level, Report
from rote.values import Json, decode, json_v1
from rote.values.limits import TRACE_BYTES_MAX, TRACE_DEPTH_MAX
from rote.values.names import told

_ENVELOPE = (
    "workflow_id",
    "model_config_id",
    "policy_set_id",
    "memory_snapshot_id",
    "visibility_mode",
    "determinism_trace_schema_version",
)
_EVENT_FIELDS = ("role", "interceptor", "decision_type")
_RETRIEVAL_FIELDS = (
    "policy_id",
    "policy_version",
    "query_normalization_version",
    "query_fingerprint",
    "retrieval_mode",
)
_OUTPUT_FIELDS = (
    ("output_type", "type"),
    ("output_shape_hash", "structure"),
    ("normalization_version", "normalization version"),
)
# Members of a call, with the code and the message of a difference in them, and the part of a recorded
# call that they tell of.
_CALL_FIELDS: tuple[tuple[str, str, str, Part | None], ...] = (
    ("tool_name", "tool_name_mismatch", "another tool is called", None),
    ("tool_profile_version", "tool_profile_mismatch", "the tool has another profile version", None),
    ("normalized_args", "tool_args_mismatch", "the tool is called with other arguments", "args"),
    (
        "tool_result_fingerprint",
        "tool_result_fingerprint_mismatch",
        "the tool answered otherwise",
        "reply",
    ),
    (
        "side_effect_fingerprint",
        "side_effect_fingerprint_mismatch",
        "the tool did something else",
        "effects",
    ),
)
Sources = tuple[Source | None, Source | None]


def compare_traces(
    left: Json,
    right: Json,
    *,
    left_retrieval: Json = None,
    right_retrieval: Json = None,
    left_recording: bytes | str | Iterable[bytes] | None = None,
    right_recording: bytes | str | Iterable[bytes] | None = None,
    level: Level = "contract",
    size_bytes_max: int = TRACE_BYTES_MAX,
) -> Report:
    """Compare two runs; return a report with every difference.

    Traces and retrieval traces may be JSON text or plain data, recordings JSON lines. With the level
    `full`, writes, replies of the model and scores are compared too. Raises InvalidValue or
    LimitExceeded when text cannot be read, and InvalidInput when a recording is not that of its run.
    """
    return compare_runs(
        Examination(left, left_retrieval, size_bytes_max, parameter="left_retrieval"),
        Examination(right, right_retrieval, size_bytes_max, parameter="right_retrieval"),
        (
            named_source(left_recording, "left_recording"),
            named_source(right_recording, "right_recording"),
        ),
        level,
    )


def compare_runs(left: Examination, right: Examination, sources: Sources, level: Level) -> Report:
    """Compare two runs whose traces were examined; show values from those recordings that fit."""
    if level not in get_args(Level):
        raise InvalidInput(f"there is no level {level!r:.80}; {told(get_args(Level))}")
    reasons = _reasons(left, right)
    if any(failure.code != MODEL for failure in reasons.listed):
        return reasons.report("equivalent", "ineligible", level=level)
    found = _differences(left, right, sources, level)
    if not len(reasons):
        return found.report("equivalent", "different", level=level)
    # Two runs of a model that may reply otherwise prove nothing, and still it can be told what differs.
    return reasons.report("equivalent", "ineligible", level=level, differences=found)


def _differences(
    left: Examination, right: Examination, sources: Sources, level: Level
) -> "_Differences":
    """Return all differences between two traces that are in order."""
    found = _Differences()
    before, after = left.trace.checked, right.trace.checked
    _compare_events(before, after, found, _other_replies(before, after) if level == "full" else [])
    if left.retrieval is not None and right.retrieval is not None:
        asked = (before, left.retrieval.checked), (after, right.retrieval.checked)
        _compare_retrievals(*asked, found, are_scores_compared=level == "full")
    _compare_output(before, after, found)
    if level == "full":
        _compare_writes(before, after, found)
    wanted = found.wanted(before, after) if any(sources) else []
    add_values(found.listed, wanted, _recorded(left, sources[0]), _recorded(right, sources[1]))
    return found


def _recorded(side: Examination, source: Source | None) -> Recorded:
    tools = member(member(side.trace.value, "metadata"), "tools")
    origin = Origin(side.recording, side.trace.checked.memory_snapshot_id)
    return Recorded(source, origin, profiles_told(tools))


class _Differences(Failures):
    """A list of differences that knows whose values a recording has."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[tuple[int, Part, int, int]] = []  # failure, part, event, place in it
        self._replies: list[tuple[int, int]] = []  # failure, number of the reply

    def note_call(self, part: Part, index: int, place: int) -> None:
        """Note that the difference that is added next is one of a tool call."""
        if not self.is_full:
            self._calls.append((len(self.listed), part, index, place))

    def note_reply(self, number: int) -> None:
        """Note that the difference that is added next is one of a reply of the model."""
        if not self.is_full:
            self._replies.append((len(self.listed), number))

    def wanted(self, left: DeterminismTrace, right: DeterminismTrace) -> list[Wanted]:
        """Return the recorded calls whose values belong to listed differences."""
        if not self._calls and not self._replies:
            return []
        before, after = _CallNumbers(left), _CallNumbers(right)
        return [
            Wanted(failure, "tool", part, before.of(index, place), after.of(index, place))
            for failure, part, index, place in self._calls
        ] + [Wanted(failure, "model", "reply", number, number) for failure, number in self._replies]


class _CallNumbers:
    """The numbers of tool calls among the lines of a recording that are tool calls."""

    def __init__(self, trace: DeterminismTrace) -> None:
        self._recorded = [
            list(accumulate((call.is_recorded for call in event.tool_calls), initial=0))
            for event in trace.events
        ]
        self._before = list(accumulate((places[-1] for places in self._recorded), initial=0))
        self._events = trace.events

    def of(self, index: int, place: int) -> int | None:
        """Return the number of a call; None when recordings do not have it."""
        if not self._events[index].tool_calls[place].is_recorded:
            return None
        return self._before[index] + self._recorded[index][place]


# -- whether they can be compared ---------------------------------------------------------------------


def _reasons(left: Examination, right: Examination) -> Failures:
    """Return all reasons why the traces cannot be compared."""
    reasons = Failures()
    # One had the replies of the other, so the model's own do not matter. Two runs that were recorded in
    # the same bytes are no proof: a model may have been asked outside of event.model.
    is_replay = (
        left.recording is not None
        and left.recording == right.recording
        and (left.is_replayed or right.is_replayed)
    )
    for name, side in (("left", left), ("right", right)):
        tell = _teller(reasons, name)
        for failure in side.failures.listed:
            if is_replay and failure.code == MODEL:
                continue
            tell(failure.code, failure.pointer, failure.left, failure.message)
        reasons.more += side.failures.more
        for kind, artifact in (("trace", side.trace), ("retrieval", side.retrieval)):
            if artifact is not None and artifact.is_truncated:
                message = "what was cut off cannot be compared"
                tell(f"{kind}:truncated", "/metadata/truncated", True, message)
    if (left.retrieval is None) != (right.retrieval is None):
        name, side = ("left", left) if left.retrieval is None else ("right", right)
        message = f"there is no retrieval trace, and the other side has one; {side.advice}"
        _teller(reasons, name)("retrieval:missing", "", None, message)
    _compare_envelopes(left, right, reasons)
    return reasons


def _teller(reasons: Failures, name: str) -> Callable[[str, str, Json, str], None]:
    """Return a function that adds a fault of one side to `reasons`."""

    def tell(code: str, pointer: str, value: Json, message: str) -> None:
        left, right = (value, None) if name == "left" else (None, value)
        reasons.add(code, pointer, left, right, f"{name}: {message}")

    return tell


def _compare_envelopes(left: Examination, right: Examination, reasons: Failures) -> None:
    """Compare workflow, model, policy and versions where both traces have them.

    A member that one trace lacks is reported as missing elsewhere.
    """
    traces = (left.trace.value, right.trace.value)
    for field in _ENVELOPE:
        _compare_member(traces, field, f"/{field}", field, reasons)
    versions = [member(trace, "contract_versions") for trace in traces]
    for name in CONTRACT_VERSIONS:
        pointer = f"/contract_versions/{name}"
        _compare_member(versions, name, pointer, "contract_versions", reasons)
    if left.retrieval is not None and right.retrieval is not None:
        field = "retrieval_trace_schema_version"
        values = (left.retrieval.value, right.retrieval.value)
        _compare_member(values, field, f"/{field}", field, reasons)


def _compare_member(sides: Any, name: str, pointer: str, field: str, reasons: Failures) -> None:
    left, right = (member(side, name) for side in sides)
    if type(left) is str and type(right) is str and left != right:
        message = f"the runs differ in {pointer[1:]}, so they are not the same run twice"
        reasons.add(f"envelope_mismatch:{field}", pointer, left, right, message)


# -- events -------------------------------------------------------------------------------------------


def _compare_events(
    left: DeterminismTrace,
    right: DeterminismTrace,
    found: _Differences,
    replies: Sequence["_OtherReply"],
) -> None:
    """Compare events in order. The replies that differ are told before the calls of their events."""
    waiting = deque(replies)
    if len(left.events) != len(right.events):
        message = (
            f"the left run has {len(left.events):,} events, the right one {len(right.events):,}"
        )
        found.add("events_length_mismatch", "/events", len(left.events), len(right.events), message)
    for index, (a, b) in enumerate(zip(left.events, right.events, strict=False)):
        while waiting and waiting[0].event <= index:
            _tell_reply(waiting.popleft(), found)
        if (
            a.role != b.role
            or a.interceptor != b.interceptor
            or a.decision_type != b.decision_type
            or a.tool_calls != b.tool_calls
            or a.guardrails_triggered != b.guardrails_triggered
        ):
            _compare_event(index, a, b, found)
    for reply in waiting:
        _tell_reply(reply, found)


def _compare_event(index: int, left: Event, right: Event, found: _Differences) -> None:
    pointer = f"/events/{index}"
    for field in _EVENT_FIELDS:
        a, b = getattr(left, field), getattr(right, field)
        if a != b:
            message = f"event {index} has another {field.replace('_', ' ')}"
            found.add(f"event_mismatch:{index}:{field}", f"{pointer}/{field}", a, b, message)
    calls = len(left.tool_calls), len(right.tool_calls)
    if calls[0] != calls[1]:
        message = (
            f"event {index} has {calls[0]:,} tool calls on the left, {calls[1]:,} on the right"
        )
        found.add(f"tool_count_mismatch:{index}", f"{pointer}/tool_calls", *calls, message)
    for place, pair in enumerate(zip(left.tool_calls, right.tool_calls, strict=False)):
        if pair[0] != pair[1]:
            _compare_call(index, place, *pair, found)
    guardrails = left.guardrails_triggered, right.guardrails_triggered
    if Counter(guardrails[0]) != Counter(guardrails[1]):
        message = f"event {index} triggered other guardrails"
        found.add(
            f"guardrails_mismatch:{index}", f"{pointer}/guardrails_triggered", *guardrails, message
        )


def _compare_call(
    index: int, place: int, left: ToolCall, right: ToolCall, found: _Differences
) -> None:
    for field, code, words, part in _CALL_FIELDS:
        a, b = getattr(left, field), getattr(right, field)
        if a == b:
            continue
        if field == "normalized_args":
            a, b = _decoded(a), _decoded(b)
            if json_v1(a) == json_v1(b):
                continue
        pointer = f"/events/{index}/tool_calls/{place}/{field}"
        message = f"event {index}, tool call {place} ({left.tool_name:.80}): {words}"
        if part is not None:
            found.note_call(part, index, place)
        found.add(f"{code}:{index}:{place}", pointer, a, b, message)


def _decoded(arguments: Arguments) -> Json:
    return {
        name: decode(bytes(raw), size_bytes_max=len(bytes(raw)), depth_max=TRACE_DEPTH_MAX)
        for name, raw in arguments.items()
    }


# -- retrievals, output -------------------------------------------------------------------------------


def _compare_retrievals(
    left: tuple[DeterminismTrace, RetrievalTrace],
    right: tuple[DeterminismTrace, RetrievalTrace],
    found: _Differences,
    *,
    are_scores_compared: bool,
) -> None:
    lengths = len(left[1].events), len(right[1].events)
    if lengths[0] != lengths[1]:
        message = (
            f"the left run asked its memory {lengths[0]:,} times, the right one {lengths[1]:,}"
        )
        found.add("retrieval_length_mismatch", "/events", *lengths, message)
    places = [{event.event_id: event.index for event in side[0].events} for side in (left, right)]
    for index, (a, b) in enumerate(zip(left[1].events, right[1].events, strict=False)):
        _compare_retrieval(index, a, b, found)
        if are_scores_compared:
            _compare_scores(index, a, b, found)
        at = places[0][a.event_id], places[1][b.event_id]
        if at[0] != at[1]:
            message = (
                f"retrieval {index} belongs to event {at[0]} on the left, {at[1]} on the right"
            )
            found.add(
                f"retrieval_mismatch:{index}:event_index", f"/events/{index}/event_id", *at, message
            )


def _compare_retrieval(
    index: int, left: RetrievalEvent, right: RetrievalEvent, found: _Differences
) -> None:
    for field in _RETRIEVAL_FIELDS:
        a, b = getattr(left, field), getattr(right, field)
        if a != b:
            message = f"retrieval {index} has another {field.replace('_', ' ')}"
            found.add(
                f"retrieval_mismatch:{index}:{field}", f"/events/{index}/{field}", a, b, message
            )
    before, after = (
        [record.record_id for record in side.selected_records] for side in (left, right)
    )
    if before != after:
        message = f"retrieval {index} returned other records, or in another order"
        pointer = f"/events/{index}/selected_records"
        found.add(f"retrieval_record_order_mismatch:{index}", pointer, before, after, message)


def _compare_scores(
    index: int, left: RetrievalEvent, right: RetrievalEvent, found: _Differences
) -> None:
    """Compare the scores of the records that both sides returned."""
    before, after = (
        {each.record_id: round(each.score, SCORE_DECIMALS) for each in side.selected_records}
        for side in (left, right)
    )
    others = [id for id in before if id in after and before[id] != after[id]]
    if others:
        message = f"retrieval {index} gave {len(others):,} of its records another score"
        pointer = f"/events/{index}/selected_records"
        a, b = ({id: side[id] for id in others} for side in (before, after))
        found.add(f"scores_mismatch:{index}", pointer, a, b, message)


def _compare_output(left: DeterminismTrace, right: DeterminismTrace, found: _Differences) -> None:
    for field, words in _OUTPUT_FIELDS:
        a, b = getattr(left.output, field), getattr(right.output, field)
        if a != b:
            message = f"the output has another {words}"
            found.add(f"output_mismatch:{field}", f"/output/{field}", a, b, message)


# -- beyond the contract ------------------------------------------------------------------------------


def _compare_writes(left: DeterminismTrace, right: DeterminismTrace, found: _Differences) -> None:
    field = "commit_payload_fingerprint"
    a, b = getattr(left.metadata, field), getattr(right.metadata, field)
    if a != b:
        message = "the runs would write something else"
        if a is None or b is None:
            message = f"only the {'right' if a is None else 'left'} run says what it would write"
        found.add("writes_mismatch", f"/metadata/{field}", a, b, message)


class _OtherReply(Struct, frozen=True):
    """A reply of the model that differs."""

    number: int
    event: float  # the event that got it; infinite when no event of the traces says so
    left: str | None  # fingerprints; None where there is no such reply
    right: str | None


def _other_replies(left: DeterminismTrace, right: DeterminismTrace) -> list[_OtherReply]:
    replies = zip_longest(left.metadata.model_replies, right.metadata.model_replies)
    before, after = _askers(left), _askers(right)
    events = [*before, *after[len(before) :]]
    return [
        _OtherReply(number, events[number] if number < len(events) else inf, a, b)
        for number, (a, b) in enumerate(replies)
        if a != b
    ]


def _askers(trace: DeterminismTrace) -> list[int]:
    """Return the index of the event that got each reply of the model, as far as the trace says it."""
    each = (event.index for event in trace.events for _ in range(event.model_calls or 0))
    return list(islice(each, len(trace.metadata.model_replies)))


def _tell_reply(reply: _OtherReply, found: _Differences) -> None:
    number, a, b = reply.number, reply.left, reply.right
    message = f"reply {number} of the model is another"
    if a is None or b is None:
        message = f"only the {'right' if a is None else 'left'} run has a reply {number}"
    found.note_reply(number)
    pointer = f"/metadata/model_replies/{number}"
    found.add(f"model_reply_mismatch:{number}", pointer, a, b, message)

"""Writing the two artifacts of a run: events are written one by one, and few are held in memory.

    trace       {"contract_versions":…,"determinism_trace_schema_version":…,"events":[ … ],
                 "memory_snapshot_id":…,"metadata":…,"model_config_id":…,"output":…, …}
    retrieval   {"events":[ … ],"metadata":…,"retrieval_trace_schema_version":…}

Both are canonical JSON, so the members that are known only at the end (metadata and output) come
after the events. Each artifact has a cap. An event stays when it and its retrievals fit. The first
event that does not fit is cut from both artifacts, with everything after it, so that all links left
lead somewhere.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from rote.contract.run_modes import Mode
from rote.errors import LimitExceeded
from rote.traces.formats import CONTRACT_VERSIONS, DETERMINISM_TRACE, RETRIEVAL_TRACE
from rote.traces.shapes import describe_output
from rote.values import Json, canonical, decode_canonical
from rote.values.limits import INTEGER_MAX, TRACE_BYTES_MAX, TRACE_NAME_BYTES_MAX

# The place of the events in an artifact without any. In both artifacts its first occurrence is the
# right one, since only constants stand before it.
_EVENTS = b'"events":[]'
# A character of text takes at most six bytes in JSON.
_ESCAPED_TIMES = 6


class Sink(Protocol):
    """The target of the bytes of an artifact."""

    def write(self, data: bytes, /) -> object: ...


class Envelope(Struct, frozen=True):
    """The members of a trace that are known when its run starts."""

    run_id: str
    workflow_id: str
    memory_snapshot_id: str
    visibility_mode: Mode
    model_config_id: str
    policy_set_id: str


class _Held(Struct, frozen=True):
    """An event that fits only if the end of the artifacts is short."""

    event: bytes
    rows: Sequence[bytes]


class TraceWriter:
    """Writes both artifacts; one thread at a time."""

    def __init__(
        self,
        envelope: Envelope,
        *,
        trace: Sink,
        retrieval: Sink,
        size_bytes_max: int = TRACE_BYTES_MAX,
    ) -> None:
        self.size_bytes_max = size_bytes_max
        self._output = describe_output({"type": "none"})
        self._trace = _Artifact(trace, size_bytes_max, _trace_fields(envelope))
        self._retrieval = _Artifact(retrieval, size_bytes_max, _retrieval_fields())
        self._held: list[_Held] = []
        self._events_dropped = 0
        self._rows_dropped = 0
        longest = {**self._output, "output_type": "x" * TRACE_NAME_BYTES_MAX * _ESCAPED_TIMES}
        shortest = {**self._output, "output_type": ""}
        self._trace.reserve(shortest={"output": shortest}, longest={"output": longest})
        self._retrieval.reserve(shortest={}, longest={})

    def add(self, event: bytes, rows: Sequence[bytes]) -> None:
        """Add the next event and its retrievals, as canonical bytes."""
        if self._events_dropped:
            self.cut(len(rows))
        elif not self._held and self._trace.is_safe((event,)) and self._retrieval.is_safe(rows):
            self._trace.write((event,))
            self._retrieval.write(rows)
        elif self._fits([*self._held, _Held(event, rows)]):
            self._held.append(_Held(event, rows))
        else:
            self.cut(len(rows))

    def cut(self, rows: int) -> None:
        """Count an event and its retrievals as dropped; all later events are dropped too."""
        self._events_dropped += 1
        self._rows_dropped += rows

    def describe(self, output: Json) -> None:
        """Set the output of the run."""
        self._output = describe_output(output)

    def finish(self) -> None:
        """Write the held events and the end of both artifacts, which completes them."""
        kept, trace_end, retrieval_end = self._ending()
        self._trace.write([held.event for held in kept])
        self._retrieval.write([row for held in kept for row in held.rows])
        self._trace.end(trace_end)
        self._retrieval.end(retrieval_end)

    def trace(self, written: bytes) -> dict[str, Json]:
        """Return the trace as if the run ended now, from the bytes that its sink holds."""
        kept, ending, _ = self._ending()
        return self._trace.value(written, [held.event for held in kept], ending)

    def retrieval(self, written: bytes) -> dict[str, Json]:
        kept, _, ending = self._ending()
        return self._retrieval.value(written, [row for held in kept for row in held.rows], ending)

    def _fits(self, held: Sequence[_Held]) -> bool:
        """Whether these fit with the shortest possible end."""
        return self._trace.may_take([one.event for one in held]) and self._retrieval.may_take(
            [row for one in held for row in one.rows]
        )

    def _ending(self) -> tuple[list[_Held], bytes, bytes]:
        """Return the held events that stay, and the ends of both artifacts with them."""
        kept = list(self._held)
        events_dropped, rows_dropped = self._events_dropped, self._rows_dropped
        while True:
            trace_end = self._trace.ending(events_dropped, output=self._output)
            retrieval_end = self._retrieval.ending(rows_dropped)
            rows = [row for held in kept for row in held.rows]
            if not kept or (
                self._trace.takes([held.event for held in kept], trace_end)
                and self._retrieval.takes(rows, retrieval_end)
            ):
                return kept, trace_end, retrieval_end
            events_dropped += 1
            rows_dropped += len(kept.pop().rows)


class _Artifact:
    """One capped JSON object whose events come one by one."""

    def __init__(self, sink: Sink, size_bytes_max: int, fields: dict[str, Json]) -> None:
        self._sink = sink
        self._size_bytes_max = size_bytes_max
        self._fields = fields
        self._lead = b""  # written before the next event
        head = canonical({**fields, "events": []}).partition(_EVENTS)[0]
        self._size = 0
        self._put(head + _EVENTS[:-1])

    def reserve(self, *, shortest: dict[str, Json], longest: dict[str, Json]) -> None:
        """Set the shortest and the longest possible end; LimitExceeded when the longest does not fit."""
        self._end_shortest = min(len(self.ending(0, **shortest)), len(self.ending(1, **shortest)))
        self._end_longest = len(self.ending(INTEGER_MAX, **longest))
        size = self._size + self._end_longest
        if size > self._size_bytes_max:
            raise LimitExceeded("a trace without events", size=size, limit=self._size_bytes_max)

    def is_safe(self, events: Sequence[bytes]) -> bool:
        """Whether these fit with the longest possible end."""
        return self._size_with(events) + self._end_longest <= self._size_bytes_max

    def may_take(self, events: Sequence[bytes]) -> bool:
        """Whether these fit with the shortest possible end."""
        return self._size_with(events) + self._end_shortest <= self._size_bytes_max

    def takes(self, events: Sequence[bytes], ending: bytes) -> bool:
        return self._size_with(events) + len(ending) <= self._size_bytes_max

    def write(self, events: Sequence[bytes]) -> None:
        for event in events:
            self._put(self._lead + event)
            self._lead = b","

    def end(self, ending: bytes) -> None:
        self._put(ending)

    def ending(self, dropped: int, **fields: Json) -> bytes:
        """Return the bytes that follow the events."""
        metadata = {"truncated": dropped > 0, "events_dropped": dropped}
        whole = canonical({**self._fields, **fields, "events": [], "metadata": metadata})
        return _EVENTS[-1:] + whole.partition(_EVENTS)[2]

    def value(self, written: bytes, events: Sequence[bytes], ending: bytes) -> dict[str, Json]:
        between = self._lead if events else b""
        value: dict[str, Json] = decode_canonical(written + between + b",".join(events) + ending)
        return value

    def _size_with(self, events: Sequence[bytes]) -> int:
        commas = max(len(events) - (not self._lead), 0)
        return self._size + commas + sum(map(len, events))

    def _put(self, data: bytes) -> None:
        self._sink.write(data)
        self._size += len(data)


def _trace_fields(envelope: Envelope) -> dict[str, Json]:
    return {
        "run_id": envelope.run_id,
        "workflow_id": envelope.workflow_id,
        "memory_snapshot_id": envelope.memory_snapshot_id,
        "visibility_mode": envelope.visibility_mode,
        "model_config_id": envelope.model_config_id,
        "policy_set_id": envelope.policy_set_id,
        "determinism_trace_schema_version": DETERMINISM_TRACE,
        "contract_versions": CONTRACT_VERSIONS,
    }


def _retrieval_fields() -> dict[str, Json]:
    return {"retrieval_trace_schema_version": RETRIEVAL_TRACE}

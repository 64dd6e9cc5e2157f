"""Writing the two artifacts of a run: its events go into a partial file one by one (partial.py), and
at its end both artifacts are composed from there, so that few events are held in memory.

    trace       {"contract_versions":…,"determinism_trace_schema_version":…,"events":[ … ],
                 "memory_snapshot_id":…,"metadata":{…,"model_replies":[ … ], …},
                 "model_config_id":…,"output":…, …}
    retrieval   {"events":[ … ],"metadata":…,"retrieval_trace_schema_version":…}

Both are canonical JSON. Each artifact has a cap. An event stays when it, its retrievals and the
fingerprints of its model's replies fit. The first event that does not fit is cut from both artifacts,
with everything after it, so that all links left lead somewhere.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from msgspec import Struct

from rote.contract.run_modes import Mode
from rote.errors import LimitExceeded
from rote.traces.formats import CONTRACT_VERSIONS, DETERMINISM_TRACE, RETRIEVAL_TRACE
from rote.traces.partial import EVENT, REPLY, RETRIEVAL, event_lines, parts_of, start_line
from rote.traces.shapes import describe_output
from rote.values import Json, canonical
from rote.values.limits import (
    INTEGER_MAX,
    TRACE_BYTES_MAX,
    TRACE_NAME_BYTES_MAX,
    TRACE_WRITE_BYTES,
)

# The places of the parts in an artifact without any. The first occurrence of each is the right one:
# in front of it stand only members whose names are fixed, and a quote inside a text is escaped.
_EVENTS = b'"events":[]'
_REPLIES = b'"model_replies":[]'
# A character of text takes at most six bytes in JSON.
_ESCAPED_TIMES = 6
_HASH = "0" * 64
REPLY_BYTES = len(canonical(_HASH)) + 1  # with a comma


class Sink(Protocol):
    """The target of the bytes of an artifact."""

    def write(self, data: bytes, /) -> object: ...


# Begins the lines of the partial file from the first on.
Lines = Callable[[], Iterable[bytes]]


class Envelope(Struct, frozen=True):
    """The members of a trace that are known when its run starts."""

    run_id: str
    workflow_id: str
    memory_snapshot_id: str
    visibility_mode: Mode
    model_config_id: str
    policy_set_id: str
    model_fixed: bool = True
    replayed: bool = False
    model: dict[str, Any] | None = None  # for people, and to run it again; never compared
    tools: Sequence[dict[str, Any]] = ()


class Ending(Struct, frozen=True):
    """The members of a trace's metadata that are known when its run ends."""

    commit_payload_fingerprint: str | None = None  # None when the block raised
    recording: str | None = None  # SHA-256 of its bytes
    discarded: bool = False  # the block raised


class _Amount(Struct, frozen=True):
    """A number of events, and all that they bring into both artifacts."""

    events: int = 0
    event_bytes: int = 0
    replies: int = 0
    rows: int = 0
    row_bytes: int = 0

    def plus(self, event: bytes, rows: Sequence[bytes], replies: Sequence[str]) -> "_Amount":
        return _Amount(
            self.events + 1,
            self.event_bytes + len(event),
            self.replies + len(replies),
            self.rows + len(rows),
            self.row_bytes + sum(map(len, rows)),
        )

    @property
    def trace_bytes(self) -> int:
        replies = max(self.replies * REPLY_BYTES - 1, 0)
        return self.event_bytes + max(self.events - 1, 0) + replies

    @property
    def retrieval_bytes(self) -> int:
        return self.row_bytes + max(self.rows - 1, 0)


class TraceWriter:
    """Writes the partial file and then both artifacts; one thread at a time."""

    def __init__(
        self, envelope: Envelope, *, partial: Sink, size_bytes_max: int = TRACE_BYTES_MAX
    ) -> None:
        self.size_bytes_max = size_bytes_max
        self._fields = _trace_fields(envelope)
        self._metadata: dict[str, Json] = {
            "model_fixed": envelope.model_fixed,
            "replayed": envelope.replayed,
            "model": envelope.model,
            "tools": list(envelope.tools),
        }
        self._output = describe_output({"type": "none"})
        self._reserve()
        self._partial = partial
        partial.write(start_line(self._fields, self._metadata))
        # What fits with any end, and then what every further event makes of it.
        self._totals = [_Amount()]
        self._events_dropped = 0
        self._rows_dropped = 0

    def add(self, event: bytes, rows: Sequence[bytes], replies: Sequence[str] = ()) -> None:
        """Add the next event with its retrievals, as canonical bytes, and with the fingerprints of its
        model's replies."""
        total = self._totals[-1].plus(event, rows, replies)
        if self._events_dropped or not self._fits(total, self._shortest):
            self.cut(len(rows))
            return
        self._partial.write(event_lines(event, rows, replies))
        if self._fits(total, self._longest):
            self._totals = [total]
        else:
            self._totals.append(total)

    def cut(self, rows: int) -> None:
        """Count an event and its retrievals as dropped; all later events are dropped too."""
        self._events_dropped += 1
        self._rows_dropped += rows

    def describe(self, output: Json) -> None:
        """Set the output of the run."""
        self._output = describe_output(output)

    def compose(self, lines: Lines, ending: Ending, *, trace: Sink, retrieval: Sink) -> None:
        """Write both artifacts, as they are when the run ends so, from the lines of the partial file."""
        total, whole, whole_retrieval = self._ended(ending)
        events = total.events
        head, rest = _parted(whole, _EVENTS)
        between, tail = _parted(rest, _REPLIES)
        _write(trace, [head], _joined(parts_of(lines(), EVENT, events=events)), [between],
               _joined(parts_of(lines(), REPLY, events=events)), [tail])  # fmt: skip
        head, tail = _parted(whole_retrieval, _EVENTS)
        _write(retrieval, [head], _joined(parts_of(lines(), RETRIEVAL, events=events)), [tail])

    def _ended(self, ending: Ending) -> tuple[_Amount, bytes, bytes]:
        """Return the events that stay, and both artifacts without them."""
        totals = list(self._totals)
        while True:
            total = totals.pop()
            events_dropped = self._events_dropped + self._totals[-1].events - total.events
            rows_dropped = self._rows_dropped + self._totals[-1].rows - total.rows
            trace = self._trace(events_dropped, self._output, ending)
            retrieval = _retrieval(rows_dropped)
            if not totals or self._fits(total, (len(trace), len(retrieval))):
                return total, trace, retrieval

    def _fits(self, total: _Amount, empty: tuple[int, int]) -> bool:
        """Whether events fit into both artifacts, which have these sizes without them."""
        trace, retrieval = empty
        return (
            trace + total.trace_bytes <= self.size_bytes_max
            and retrieval + total.retrieval_bytes <= self.size_bytes_max
        )

    def _reserve(self) -> None:
        """Set the least and the greatest sizes of both artifacts without events; LimitExceeded when the
        greatest are over the cap."""
        shortest = {**self._output, "output_type": ""}
        longest = {**self._output, "output_type": "x" * TRACE_NAME_BYTES_MAX * _ESCAPED_TIMES}
        soonest = Ending(discarded=True)
        self._shortest = (
            min(len(self._trace(dropped, shortest, soonest)) for dropped in (0, 1)),
            min(len(_retrieval(dropped)) for dropped in (0, 1)),
        )
        self._longest = (
            len(self._trace(INTEGER_MAX, longest, Ending(_HASH, _HASH))),
            len(_retrieval(INTEGER_MAX)),
        )
        if max(self._longest) > self.size_bytes_max:
            raise LimitExceeded(
                "a trace without events", size=max(self._longest), limit=self.size_bytes_max
            )

    def _trace(self, dropped: int, output: dict[str, Json], ending: Ending) -> bytes:
        metadata = {
            **self._metadata,
            **_cut(dropped),
            "recording": ending.recording,
            "discarded": ending.discarded,
            "commit_payload_fingerprint": ending.commit_payload_fingerprint,
            "model_replies": [],
        }
        return canonical({**self._fields, "events": [], "output": output, "metadata": metadata})


def _retrieval(dropped: int) -> bytes:
    return canonical(
        {
            "retrieval_trace_schema_version": RETRIEVAL_TRACE,
            "events": [],
            "metadata": _cut(dropped),
        }
    )


def _cut(dropped: int) -> dict[str, Json]:
    return {"truncated": dropped > 0, "events_dropped": dropped}


def _parted(artifact: bytes, place: bytes) -> tuple[bytes, bytes]:
    """Return the bytes around the parts at a place."""
    before, _, after = artifact.partition(place)
    return before + place[:-1], place[-1:] + after


def _joined(parts: Iterable[bytes]) -> Iterator[bytes]:
    lead = b""
    for part in parts:
        yield lead + part
        lead = b","


def _write(sink: Sink, *pieces: Iterable[bytes]) -> None:
    """Write pieces in batches."""
    waiting: list[bytes] = []
    size = 0
    for group in pieces:
        for piece in group:
            waiting.append(piece)
            size += len(piece)
            if size >= TRACE_WRITE_BYTES:
                sink.write(b"".join(waiting))
                waiting, size = [], 0
    sink.write(b"".join(waiting))


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

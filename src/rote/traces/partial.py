"""A trace in the making: the file that grows while its run goes on. JSON lines, in canonical form:

    {"contract_versions":…,"kind":"trace_partial/1","metadata":{…},"run_id":…, …}
    {"retrieval":{…}}       the retrievals and the replies of an event come before it,
    {"model_reply":"…"}     each in order
    {"event":{…}}           and complete it

A kill at any point leaves whole events with all that they link to. The half-written last line and the
lines after the last event are left out. Frozen.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from rote.contract.run_modes import Mode
from rote.errors import InvalidInput, InvalidValue, LimitExceeded
from rote.traces.documents import ContractVersions, Hash, Text
from rote.traces.formats import RETRIEVAL_TRACE
from rote.traces.shapes import describe_output
from rote.values import Json, canonical, decode
from rote.values.limits import TRACE_DEPTH_MAX, TRACE_READ_BYTES_MAX

KIND = "trace_partial/1"
EVENT, REPLY, RETRIEVAL = b'{"event":', b'{"model_reply":', b'{"retrieval":'
_END = b"}\n"


def start_line(fields: dict[str, Json], metadata: dict[str, Json]) -> bytes:
    """Return the first line: the members of a trace that are known when its run starts."""
    return canonical({**fields, "kind": KIND, "metadata": metadata}) + b"\n"


def event_lines(event: bytes, rows: Sequence[bytes], replies: Sequence[str]) -> bytes:
    """Return the lines of an event that has ended, with its retrievals and its model's replies."""
    return b"".join(
        [
            *(RETRIEVAL + row + _END for row in rows),
            *(REPLY + canonical(reply) + _END for reply in replies),
            EVENT + event + _END,
        ]
    )


def parts_of(lines: Iterable[bytes], kind: bytes, *, events: int) -> Iterator[bytes]:
    """Yield what the lines of one kind hold, for so many events from the first on. For lines that were
    made here: nothing is checked."""
    if not events:
        return
    for line in lines:
        if line.startswith(kind):
            yield line[len(kind) : -len(_END)]
        if line.startswith(EVENT):
            events -= 1
            if not events:
                return


class _StartMetadata(Struct, frozen=True):
    model_fixed: bool
    replayed: bool
    model: dict[str, Any] | None
    tools: list[dict[str, Any]]


class _Start(Struct, frozen=True):
    kind: Literal["trace_partial/1"]
    run_id: Text
    workflow_id: Text
    memory_snapshot_id: Text
    visibility_mode: Mode
    model_config_id: Text
    policy_set_id: Text
    determinism_trace_schema_version: Literal["memory.determinism_trace.v1"]
    contract_versions: ContractVersions
    metadata: _StartMetadata


class _Part(Struct, frozen=True, forbid_unknown_fields=True):
    """A line after the first; it has one of these."""

    event: dict[str, Any] | None = None
    model_reply: Hash | None = None
    retrieval: dict[str, Any] | None = None


_Line = TypeVar("_Line", _Start, _Part)


def read_partial(data: bytes) -> tuple[dict[str, Json], dict[str, Json]]:
    """Return the trace and the retrieval trace of a run that has not come to its end, or never did.

    Both say that they are truncated. InvalidInput for a file that no run has written.
    """
    if not isinstance(data, bytes):
        raise InvalidInput(f"a partial trace is bytes, not {type(data).__qualname__}")
    if len(data) > TRACE_READ_BYTES_MAX:
        raise LimitExceeded("the size of a trace", size=len(data), limit=TRACE_READ_BYTES_MAX)
    whole, _, _ = data.rpartition(b"\n")
    first, *lines = whole.split(b"\n")
    start = _decoded(first, 1)
    _taken(start, _Start, 1)
    events: list[Json] = []
    rows: list[Json] = []
    replies: list[Json] = []
    ended = (0, 0)  # the rows and the replies of whole events
    for number, line in enumerate(lines, 2):
        part = _taken(_decoded(line, number), _Part, number)
        if [part.event, part.model_reply, part.retrieval].count(None) != 2:
            raise _foreign(number, "it holds an event, a model_reply or a retrieval, one of them")
        if part.retrieval is not None:
            rows.append(part.retrieval)
        elif part.model_reply is not None:
            replies.append(part.model_reply)
        else:
            events.append(part.event)
            ended = len(rows), len(replies)
    return _trace_of(start, events, replies[: ended[1]]), _retrieval_of(rows[: ended[0]])


def _trace_of(
    start: dict[str, Any], events: list[Json], model_replies: list[Json]
) -> dict[str, Json]:
    return {
        **{name: value for name, value in start.items() if name != "kind"},
        "events": events,
        "output": describe_output({"type": "none"}),
        "metadata": {
            **start["metadata"],
            "truncated": True,
            "events_dropped": 0,
            "recording": None,
            "discarded": False,
            "commit_payload_fingerprint": None,
            "model_replies": model_replies,
        },
    }


def _retrieval_of(rows: list[Json]) -> dict[str, Json]:
    return {
        "retrieval_trace_schema_version": RETRIEVAL_TRACE,
        "events": rows,
        "metadata": {"truncated": True, "events_dropped": 0},
    }


def _decoded(line: bytes, number: int) -> Any:
    try:
        return decode(line, size_bytes_max=TRACE_READ_BYTES_MAX, depth_max=TRACE_DEPTH_MAX)
    except InvalidValue as error:
        raise _foreign(number, str(error)) from None


def _taken(value: Any, kind: type[_Line], number: int) -> _Line:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _foreign(number, str(error)) from None


def _foreign(number: int, reason: str) -> InvalidInput:
    return InvalidInput(f"this is no partial trace of a run: line {number}: {reason}", line=number)

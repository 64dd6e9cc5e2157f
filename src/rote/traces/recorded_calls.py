"""Calls as a recording tells them, to be shown beside a trace.

A replay is stricter (runs/recordings.py): it refuses what is torn or not in canonical form. Here a
recording that was cut tells the calls that it has.
"""

from collections.abc import Iterator
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from rote.errors import InvalidInput, InvalidValue, LimitExceeded
from rote.values import Json, decode
from rote.values.limits import RECORDING_CALLS_MAX, RECORDING_LINE_BYTES_MAX

_KIND = "recording/1"
_Line = TypeVar("_Line", bound=Struct)


class Raised(Struct, frozen=True):
    """An exception that a function raised."""

    type: str
    message: str = ""


class RecordedCall(Struct, frozen=True):
    """A call and its reply: a result or an error."""

    kind: str  # tool or model
    name: str
    args: dict[str, Any]
    result: Any = UNSET
    error: Raised | UnsetType = UNSET
    effects: Any = UNSET


class Recorded(Struct, frozen=True):
    """The calls of a recording, in the order in which they were made."""

    memory_snapshot_id: str
    calls: tuple[RecordedCall, ...]
    is_cut: bool  # its run did not come to an end


class _Start(Struct, frozen=True):
    kind: Literal["recording/1"]
    memory_snapshot_id: str


def read_recorded(data: bytes) -> Recorded:
    """Return the calls of a recording; a last line that was not written to its end is left out."""
    lines = _lines(data)
    start = _taken(next(lines, {}), _Start)
    calls: list[RecordedCall] = []
    for line in lines:
        if line.get("kind") == "end":
            return Recorded(start.memory_snapshot_id, tuple(calls), is_cut=False)
        calls.append(_taken(line, RecordedCall))
        if len(calls) > RECORDING_CALLS_MAX:
            raise LimitExceeded(
                "the number of recorded calls", size=len(calls), limit=RECORDING_CALLS_MAX
            )
    return Recorded(start.memory_snapshot_id, tuple(calls), is_cut=True)


def _lines(data: bytes) -> Iterator[dict[str, Json]]:
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        try:
            line = decode(data[start:end], size_bytes_max=RECORDING_LINE_BYTES_MAX)
        except InvalidValue as error:
            raise _foreign(str(error)) from None
        if type(line) is not dict:
            raise _foreign("a line is no object")
        yield line
        start = end + 1


def _taken(line: dict[str, Json], kind: type[_Line]) -> _Line:
    try:
        return msgspec.convert(line, kind)
    except msgspec.ValidationError as error:
        raise _foreign(str(error)) from None


def _foreign(reason: str) -> InvalidInput:
    return InvalidInput(f"that is no recording: {reason}")

"""The calls of a recording, to be shown beside a trace.

A replay is stricter (runs/recordings.py): it refuses what is torn or not in canonical form. Here a
recording that was cut tells the calls that it has.
"""

from hashlib import sha256
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from rote.errors import InvalidInput, InvalidValue, LimitExceeded
from rote.traces.recorded import Source
from rote.values import Json, decode
from rote.values.limits import (
    RECORDING_LINE_BYTES_MAX,
    RECORDING_SHOWN_BYTES_MAX,
)


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
    is_cut: bool  # there are more, which would take too much memory


class _Start(Struct, frozen=True):
    kind: Literal["recording/1"]
    memory_snapshot_id: str


def read_recorded(source: Source, digest: str | None, *, is_partial: bool) -> Recorded:
    """Return the calls of a recording; InvalidInput when it is not that of its trace.

    digest      the SHA-256 that the trace names
    is_partial  whether the trace is cut: if it names none, any recording may be its own
    """
    reader = _Reader()
    hasher = sha256()
    for line in source.lines:
        hasher.update(line)
        reader.take(line)
    found = hasher.hexdigest()
    if found != digest and not (digest is None and is_partial):
        named = "none" if digest is None else digest
        raise InvalidInput(f"its SHA-256 is {found}, and the trace names {named}")
    if reader.start is None or reader.fault is not None:
        raise InvalidInput(reader.fault or "it is empty")
    return Recorded(reader.start.memory_snapshot_id, tuple(reader.calls), reader.is_full)


class _Reader:
    """Takes the lines of a recording one by one, and keeps as many calls as may be held."""

    def __init__(self) -> None:
        self.start: _Start | None = None
        self.calls: list[RecordedCall] = []
        self.fault: str | None = None  # what shows that this is no recording
        self._room = RECORDING_SHOWN_BYTES_MAX

    @property
    def is_full(self) -> bool:
        return self._room < 0

    def take(self, line: bytes) -> None:
        """Take the next line; none after a fault, none that was not written to its end."""
        self._room -= len(line)
        if self.is_full or self.fault is not None or not line.endswith(b"\n"):
            return
        try:
            self._take(decode(line, size_bytes_max=RECORDING_LINE_BYTES_MAX))
        except (msgspec.ValidationError, InvalidValue, LimitExceeded) as error:
            self.fault = f"a line is not of a recording: {error}"

    def _take(self, line: Json) -> None:
        if self.start is None:
            self.start = msgspec.convert(line, _Start)
        elif type(line) is not dict or line.get("kind") != "end":
            self.calls.append(msgspec.convert(line, RecordedCall))

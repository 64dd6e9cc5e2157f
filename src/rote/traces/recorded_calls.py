"""Recordings as they are read beside a trace: one set of rules for reports, pages, terminals, replays.

The nth tool call of a trace is the nth line in its recording that is one, but for calls that say that they
are not recorded; the nth reply of its model is the nth line of kind `model`. A line is a tool call when it is
of kind `tool`, or of kind `adapter` with a profile in the trace.

A recording belongs to a trace when the trace names its SHA-256. The trace of a run that has not ended names
none: then any that began in the same state may be its own, and its last line may be half a line. Reading
stops at the first line that no recording has.

A replay is stricter (recordings/recordings.py): it refuses what is not in canonical form.
"""

import io
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, to_builtins

from rote.errors import InvalidInput, InvalidValue, LimitExceeded
from rote.traces.profiles import Part, ToolProfile, compared_value
from rote.values import Json, decode
from rote.values.limits import (
    DEPTH_MAX,
    RECORDING_CALLS_MAX,
    RECORDING_LINE_BYTES_MAX,
    RECORDING_SHOWN_BYTES_MAX,
)
from rote.values.tier_limits import HOST_CALL_LEVELS

# The first line and the last one.
_LINES_MAX = RECORDING_CALLS_MAX + 2
_DEPTH_MAX = DEPTH_MAX + HOST_CALL_LEVELS


class Raised(Struct, frozen=True):
    """An exception that a function raised."""

    type: str
    message: str = ""
    code: str | UnsetType = UNSET  # these two of errors of Rote in an adapter
    details: dict[str, Any] | UnsetType = UNSET


class RecordedCall(Struct, frozen=True):
    """A call and its reply: a result or an error. A call that was not recorded has neither."""

    kind: str  # tool, model or adapter
    name: str
    args: Json
    result: Json | UnsetType = UNSET
    error: Raised | UnsetType = UNSET
    effects: Json | UnsetType = UNSET

    @property
    def is_recorded(self) -> bool:
        return self.result is not UNSET or self.error is not UNSET


class RecordedLine(Struct, frozen=True):
    """A line with a call, whose values are not decoded yet."""

    kind: Literal["tool", "model", "adapter"]
    name: str
    args: Raw
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET
    effects: Raw | UnsetType = UNSET

    @property
    def size_bytes(self) -> int:
        parts = (self.args, self.result, self.error, self.effects)
        return sum(len(bytes(part)) for part in parts if not isinstance(part, UnsetType))

    def call(self) -> RecordedCall:
        """Return the call; InvalidValue or LimitExceeded when a value of it cannot be decoded."""
        error = _value(self.error)
        return RecordedCall(
            kind=self.kind,
            name=self.name,
            args=_value(self.args),
            result=_value(self.result),
            error=UNSET if error is UNSET else msgspec.convert(error, Raised),
            effects=_value(self.effects),
        )


def is_tool_call(call: RecordedCall | RecordedLine, profiles: Mapping[str, ToolProfile]) -> bool:
    """Return whether a recorded call is a tool call of its trace, which tells these profiles."""
    return call.kind == "tool" or (call.kind == "adapter" and call.name in profiles)


class Origin(Struct, frozen=True):
    """Facts in a trace by which its recording is known."""

    digest: str | None  # the SHA-256 that the trace names
    memory_snapshot_id: str
    is_partial: bool = False  # the run has not ended


class Source:
    """A recording that may belong to a trace. Its lines are read when it is needed."""

    def __init__(self, lines: Iterable[bytes], name: str, *, is_named: bool = True) -> None:
        """Take the lines of a recording.

        lines     with their ends
        name      for errors
        is_named  whether a user named it; another one that does not fit is not used
        """
        self._lines = lines
        self.name = name
        self.is_named = is_named

    def read(self, origin: Origin, take: Callable[[RecordedLine], None]) -> None:
        """Give each call to `take`, in order.

        InvalidInput says why it is not the recording of a trace; then nothing that was taken counts.
        """
        if origin.digest is None and not origin.is_partial:
            raise InvalidInput("the trace names none")
        hasher, reader = sha256(), _Reader(take)
        for line in self._lines:
            if type(line) is not bytes:
                raise InvalidInput(f"a line is {type(line).__qualname__}, not bytes")
            hasher.update(line)
            if line.endswith(b"\n") or not origin.is_partial:
                reader.take(line)
        if reader.memory_snapshot_id is None:
            raise InvalidInput("it is empty")
        found = hasher.hexdigest()
        if origin.digest not in (None, found):
            raise InvalidInput(f"its SHA-256 is {found}, and the trace names {origin.digest}")
        if reader.memory_snapshot_id != origin.memory_snapshot_id:
            raise InvalidInput(f"it began at {reader.memory_snapshot_id:.200}")

    def refuse(self, problem: InvalidInput) -> None:
        """Raise the problem of a recording that a user named; another one is only not used."""
        if self.is_named:
            raise InvalidInput(f"{self.name} is not the recording of its trace: {problem}")


class KeptSource(Source):
    """A recording that is read more than once, although its lines may come from a pipe.

    Later readings give as many calls as a timeline shows.
    """

    def __init__(self, source: Source) -> None:
        super().__init__((), source.name, is_named=source.is_named)
        self._source: Source | None = source
        self._kept: list[RecordedLine] = []
        self._room = RECORDING_SHOWN_BYTES_MAX
        self._problem: InvalidInput | None = None

    def read(self, origin: Origin, take: Callable[[RecordedLine], None]) -> None:
        source, self._source = self._source, None
        try:
            if source is not None:
                source.read(origin, lambda line: take(self._keep(line)))
        except InvalidInput as problem:
            self._problem = problem
        if self._problem is not None:
            raise self._problem
        if source is None:
            for line in self._kept:
                _give(line, take)

    def _keep(self, line: RecordedLine) -> RecordedLine:
        if self._room >= 0:
            self._kept.append(line)
            self._room -= line.size_bytes
        return line


def named_source(recording: Any, name: str) -> Source | None:
    """Return the recording that a caller gave: bytes or text of JSON lines, or the lines as bytes."""
    if recording is None:
        return None
    if isinstance(recording, str):
        recording = recording.encode("utf-8", "surrogatepass")
    if isinstance(recording, bytes):
        recording = io.BytesIO(recording)
    if not isinstance(recording, Iterable):
        raise InvalidInput(
            f"{name} is the content of a recording (bytes, text, or lines as bytes, such as a file"
            f" opened with open(path, 'rb')), not {type(recording).__qualname__}"
        )
    return Source(recording, name)


def compared_part(call: RecordedCall, part: Part, profile: ToolProfile | None = None) -> Json:
    """Return what is compared of a recorded call; all of a part where no profile is known."""
    if part == "args":
        value = call.args
    elif part == "effects":
        value = (
            {} if call.effects is UNSET else call.effects
        )  # of which none are known, it has none
    else:
        value = call.result if call.error is UNSET else {"error": to_builtins(call.error)}
    return value if profile is None else compared_value(profile, part, value)


# -- lines --------------------------------------------------------------------------------------------


class _Start(Struct, frozen=True):
    kind: Literal["recording/1"]
    memory_snapshot_id: str


class _Kind(Struct, frozen=True):
    kind: str


_start = msgspec.json.Decoder(_Start)
_kind = msgspec.json.Decoder(_Kind)
_call = msgspec.json.Decoder(RecordedLine)


class _Reader:
    """Takes the lines of a recording one by one; InvalidInput for one that no recording has."""

    def __init__(self, take: Callable[[RecordedLine], None]) -> None:
        self.memory_snapshot_id: str | None = None  # None before the first line
        self._take_call = take
        self._count = 0

    def take(self, line: bytes) -> None:
        self._count += 1
        if self._count > _LINES_MAX:
            raise InvalidInput(f"it has more than {RECORDING_CALLS_MAX:,} calls")
        if len(line) > RECORDING_LINE_BYTES_MAX:
            reason = LimitExceeded(
                "a line in bytes", size=len(line), limit=RECORDING_LINE_BYTES_MAX
            )
            raise _foreign(reason)
        try:
            if self.memory_snapshot_id is None:
                self.memory_snapshot_id = _start.decode(line).memory_snapshot_id
                return
            if _kind.decode(line).kind == "end":
                return
            call = _call.decode(line)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise _foreign(error) from None
        if (call.result is UNSET) == (call.error is UNSET):
            raise InvalidInput("a line is not of a recording: a call has a result or an error")
        _give(call, self._take_call)


def _give(line: RecordedLine, take: Callable[[RecordedLine], None]) -> None:
    try:
        take(line)
    except (msgspec.MsgspecError, InvalidValue, LimitExceeded) as error:
        raise _foreign(error) from None


def _foreign(reason: Exception) -> InvalidInput:
    return InvalidInput(f"a line is not of a recording: {reason}")


def _value(raw: Raw | UnsetType) -> Any:
    return UNSET if isinstance(raw, UnsetType) else decode(bytes(raw), depth_max=_DEPTH_MAX)

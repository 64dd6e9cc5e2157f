"""A recording: every reply that a run got from its tools and its model, so that it can be run again
without them. JSON lines, each in canonical form:

    {"kind":"recording/1","memory_snapshot_id":…}
    {"args":{…},"kind":"tool","name":…,"result":…,"seq":0}      or "error":{"message":…,"type":…},
    {"args":{…},"kind":"model","name":…,"result":…,"seq":1}     and "effects" where a tool named some
    {"kind":"end","payload_fingerprint":…}

A file without its last line is no recording: what it would replay might be anything.
"""

from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from rote.errors import (
    InvalidInput,
    InvalidValue,
    LimitExceeded,
    NotFound,
    RecordedError,
    RunAborted,
    Unavailable,
)
from rote.runs.calls import Call, Reply
from rote.runs.drafts import FileDraft
from rote.values import Json, canonical, decode
from rote.values.limits import (
    CALL_CHARACTERS_SHOWN,
    RECORDING_CALLS_MAX,
    RECORDING_LINE_BYTES_MAX,
)

_KIND = "recording/1"
_THE_END = "the end of the run"
_Name = Annotated[str, Meta(min_length=1)]
_Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class _Line(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class _Start(_Line, frozen=True):
    kind: Literal["recording/1"]
    memory_snapshot_id: _Name


class _Failure(_Line, frozen=True):
    type: str
    message: str


class _Exchange(_Line, frozen=True):
    seq: int
    kind: Literal["tool", "model"]
    name: _Name
    args: dict[str, Any]
    result: Any = UNSET
    error: _Failure | UnsetType = UNSET
    effects: Any = UNSET


class _End(_Line, frozen=True):
    kind: Literal["end"]
    payload_fingerprint: _Hash


_SomeLine = TypeVar("_SomeLine", bound=_Line)


class Recording:
    """The recording of a run; under its name there is a whole one, or nothing."""

    def __init__(self, path: Path, *, memory_snapshot_id: str) -> None:
        _check_new(path)
        self._draft = FileDraft(path, durable=True)
        self._count = 0
        self._failure: BaseException | None = None  # why a call is missing
        self._write({"kind": _KIND, "memory_snapshot_id": memory_snapshot_id})

    def add(self, call: Call, reply: Reply) -> None:
        """Note a call. One that cannot be is missing, and whoever goes on gets no recording."""
        try:
            self._add(call, reply)
        except BaseException as error:
            self._failure = error
            raise

    def _add(self, call: Call, reply: Reply) -> None:
        if self._count == RECORDING_CALLS_MAX:
            raise LimitExceeded(
                "the number of recorded calls", size=self._count + 1, limit=RECORDING_CALLS_MAX
            )
        line: dict[str, Json] = {
            "seq": self._count,
            "kind": call.kind,
            "name": call.name,
            "args": call.args,
        }
        if reply.error is not None:
            line["error"] = reply.error
        else:
            line["result"] = reply.result
        if reply.effects is not None:
            line["effects"] = reply.effects
        self._write(line)
        self._count += 1

    def finish(self, payload_fingerprint: str) -> None:
        """Durable when it returns."""
        try:
            if self._failure is not None:
                raise self._failure
            self._write({"kind": "end", "payload_fingerprint": payload_fingerprint})
        except BaseException:
            self._draft.drop()
            raise
        self._draft.place()

    def discard(self) -> None:
        self._draft.drop()

    def _write(self, line: dict[str, Json]) -> None:
        self._draft.write(canonical(line) + b"\n")


class Replay:
    """A recording that answers in the place of tools and model.

    It is read to its end once before anything is answered: a torn or foreign file is refused while
    nothing has happened. Then it is read along with the run, a line at a time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._difference: InvalidInput | None = None
        self._file = _opened(path)
        try:
            start = self._taken(self._next(), _Start)
            self.memory_snapshot_id = start.memory_snapshot_id
            first_call = self._file.tell()
            self._seq = 0
            line = self._exchange_or_end()
            while isinstance(line, _Exchange):
                line = self._exchange_or_end()
            self.payload_fingerprint = line.payload_fingerprint
            if self._file.read(1):
                raise self._foreign("it goes on after its end")
            self._file.seek(first_call)
            self._seq = 0
        except BaseException:
            self._file.close()
            raise

    def answer(self, call: Call) -> Reply:
        """Return the reply to this call; InvalidInput when the recorded call is another one, and from
        then on: whoever goes on has left the recording."""
        if self._difference is not None:
            raise self._difference
        recorded = self._exchange_or_end()
        if isinstance(recorded, _End) or not call.is_like(
            recorded.kind, recorded.name, recorded.args
        ):
            self._difference = self._differs(_shown(recorded), _shown(call))
            raise self._difference
        effects = None if recorded.effects is UNSET else recorded.effects
        if recorded.error is UNSET:
            return Reply(recorded.result, effects)
        error = {"type": recorded.error.type, "message": recorded.error.message}
        return Reply(
            effects=effects,
            error=error,
            raised=RecordedError.of(recorded.error.type, recorded.error.message),
        )

    def finish(self, payload_fingerprint: str) -> None:
        """Compare the writes with the recorded ones; RunAborted when they are others."""
        try:
            if self._difference is not None:
                raise self._difference
            rest = self._exchange_or_end()
        finally:
            self._file.close()
        if payload_fingerprint != self.payload_fingerprint:
            raise RunAborted(
                "payload_mismatch",
                message=(
                    f"the replay of {self._path} would write {payload_fingerprint}, the recorded run "
                    f"{self.payload_fingerprint}; the program or what it reads has changed"
                ),
            )
        if isinstance(rest, _Exchange):
            raise self._differs(_shown(rest), _THE_END)

    def discard(self) -> None:
        self._file.close()

    def _exchange_or_end(self) -> _Exchange | _End:
        value = self._next()
        if value.get("kind") == "end":
            return self._taken(value, _End)
        line = self._taken(value, _Exchange)
        if (line.result is UNSET) == (line.error is UNSET):
            raise self._foreign("a call has a result or an error, one of the two")
        if line.seq != self._seq:
            raise self._foreign(f"call {self._seq} is missing")
        if line.seq == RECORDING_CALLS_MAX:
            raise self._foreign(f"it has more than {RECORDING_CALLS_MAX:,} calls")
        self._seq += 1
        return line

    def _next(self) -> dict[str, Json]:
        try:
            data = self._file.readline(RECORDING_LINE_BYTES_MAX + 1)
        except OSError as error:
            raise Unavailable(f"cannot read {self._path}: {error.strerror}") from error
        if not data.endswith(b"\n"):
            raise self._foreign(self._torn(data))
        try:
            value = decode(data[:-1])
        except InvalidValue as error:
            raise self._foreign(str(error)) from None
        if type(value) is not dict or canonical(value) != data[:-1]:
            raise self._foreign("a line is no object in canonical form")
        return value

    def _torn(self, data: bytes) -> str:
        """Return the error of a file whose last line has no end."""
        if len(data) > RECORDING_LINE_BYTES_MAX:
            return f"a line has more than {RECORDING_LINE_BYTES_MAX:,} bytes"
        if self._file.tell() == len(data):
            return "it has not even a first line" if data else "it is empty"
        return "it ends in the middle; the recorded run did not come to its end"

    def _taken(self, value: dict[str, Json], kind: type[_SomeLine]) -> _SomeLine:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise self._foreign(str(error)) from None

    def _foreign(self, reason: str) -> InvalidInput:
        return InvalidInput(f"{self._path} is no recording: {reason}", path=str(self._path))

    def _differs(self, recorded: str, made: str) -> InvalidInput:
        return InvalidInput(
            f"the replay leaves the recording: recorded is {recorded}, but now comes {made}; "
            "replay what was recorded, or record anew",
            code="replay_differs",
            recorded=recorded,
            made=made,
        )


def _check_new(path: Path) -> None:
    try:
        is_there = path.exists()
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}", path=str(path)) from None
    if is_there:
        raise InvalidInput(
            f"{path} is there already; name a new file for the recording", path=str(path)
        )


def _opened(path: Path) -> BinaryIO:
    try:
        if not path.is_file():
            raise NotFound(f"there is no recording {path}", path=str(path))
        return path.open("rb")
    except OSError as error:
        raise Unavailable(f"cannot read {path}: {error.strerror}") from error


def _shown(call: Call | _Exchange | _End) -> str:
    if isinstance(call, _End):
        return _THE_END
    text = canonical(call.args).decode()
    more = "…" if len(text) > CALL_CHARACTERS_SHOWN else ""
    return f"{call.kind} {call.name} {text[:CALL_CHARACTERS_SHOWN]}{more}"

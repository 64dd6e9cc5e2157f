"""A recording: every reply that a run got from its tools and its model, or a workflow from the adapters
of its host, so that it can be run again without them. JSON lines, each in canonical form:

    {"kind":"recording/1","memory_snapshot_id":…}               null without a run
    {"args":{…},"kind":"tool","name":…,"result":…,"seq":0}      or "error":{"message":…,"type":…},
    {"args":{…},"kind":"model","name":…,"result":…,"seq":1}     and "effects" where a tool named some
    {"args":{…},"kind":"adapter","name":…,"result":…,"seq":2}   its error has "code" and "details" too
    {"kind":"end","payload_fingerprint":…}                      or "error":{"type":…} of a block that
                                                                raised

It grows as `<its name>.partial`, which a kill leaves. A file without its last line is no recording:
what it would replay might be anything.
"""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, Protocol, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, to_builtins

from rote.errors import (
    InvalidInput,
    InvalidValue,
    LimitExceeded,
    NotFound,
    RecordedError,
    RoteError,
    RunAborted,
    Unavailable,
)
from rote.recordings.calls import Reply, class_name
from rote.recordings.drafts import FileDraft, check_new, make_folder, remove_if_empty
from rote.recordings.redaction import salt_in
from rote.values import Json, canonical, decode
from rote.values.limits import (
    CALL_CHARACTERS_SHOWN,
    DEPTH_MAX,
    RECORDING_CALLS_MAX,
    RECORDING_LINE_BYTES_MAX,
)
from rote.values.tier_limits import HOST_CALL_LEVELS

PARTIAL_ENDING = ".partial"  # of a recording that is not complete
_KIND = "recording/1"
# A call's arguments and its result stand inside a line.
_DEPTH_MAX = DEPTH_MAX + HOST_CALL_LEVELS + 1
_THE_END = "the end of the run"
_HOST_ADVICE = (
    "; a replay needs a host with the profile, grant, limits and redact of the recorded one"
)
_Name = Annotated[str, Meta(min_length=1)]
_Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class _Line(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class _Start(_Line, frozen=True):
    kind: Literal["recording/1"]
    memory_snapshot_id: _Name | None


class _Failure(_Line, frozen=True):
    type: str
    message: str
    code: _Name | UnsetType = UNSET  # these two of errors of Rote alone
    details: dict[str, Any] | UnsetType = UNSET


class _Exchange(_Line, frozen=True):
    seq: int
    kind: Literal["tool", "model", "adapter"]
    name: _Name
    args: dict[str, Any]
    result: Any = UNSET
    error: _Failure | UnsetType = UNSET
    effects: Any = UNSET


class _Raised(_Line, frozen=True):
    type: str


class _End(_Line, frozen=True):
    kind: Literal["end"]
    payload_fingerprint: _Hash | UnsetType | None = UNSET
    error: _Raised | UnsetType = UNSET


_SomeLine = TypeVar("_SomeLine", bound=_Line)


class RunEnd(Struct, frozen=True, kw_only=True):
    """The end of a run's block: one of the two."""

    payload_fingerprint: str | None = None  # it came to its end, and would write this
    error: str | None = None  # it raised an exception of this class


def error_name(error: BaseException) -> str:
    """Return the name of an exception's class, which is the same in a run and in its replay."""
    if isinstance(error, RecordedError):
        return str(error.details["type"])
    return class_name(error)


class Asked(Protocol):
    """A call, as it is recorded."""

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def args(self) -> dict[str, Json]: ...

    def is_like(self, kind: str, name: str, args: dict[str, Json], /) -> bool:
        """Return whether a recorded call is this one, as far as calls are compared."""


SomeAsked = TypeVar("SomeAsked", bound=Asked)


class Recording:
    """The recording of a run or a host; under its name there is a whole one, or nothing."""

    def __init__(
        self, path: Path, *, memory_snapshot_id: str | None, in_own_folder: bool = False
    ) -> None:
        """in_own_folder  whether it lies in the folder of its run, which is made for it"""
        self._folder = path.parent if in_own_folder else None
        if self._folder is not None:
            make_folder(self._folder.parent)  # of all traces; it too is its owner's alone
            make_folder(self._folder)
        partial = path.with_name(path.name + PARTIAL_ENDING)
        for each in (path, partial):
            check_new(each)
        self._draft = FileDraft(path, durable=True, partial=partial)
        self._digest = sha256()
        self._count = 0
        self._failure: BaseException | None = None  # why a call is missing
        self.salt: bytes | None = None  # of what is redacted in it so far
        try:
            self._write({"kind": _KIND, "memory_snapshot_id": memory_snapshot_id})
        except BaseException:
            self.discard()
            raise

    def add(self, call: SomeAsked, reply: Reply, note: Callable[[SomeAsked, Reply], None]) -> None:
        """Let a call be noted and record it. When one of the two fails, they tell different calls, and
        whoever goes on gets no recording."""
        try:
            note(call, reply)
            self._add(call, reply)
        except BaseException as error:
            self._failure = error
            raise

    def _add(self, call: Asked, reply: Reply) -> None:
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

    def seal(self, end: RunEnd) -> str:
        """Write the last line and return the SHA-256 of all bytes, which are durable then."""
        if self._failure is not None:
            raise self._failure
        if end.error is None:
            self._write({"kind": "end", "payload_fingerprint": end.payload_fingerprint})
        else:
            self._write({"kind": "end", "error": {"type": end.error}})
        self._draft.sync()
        return self._digest.hexdigest()

    def place(self) -> None:
        """Move the sealed file to its name."""
        self._draft.place()

    def discard(self) -> None:
        self._draft.drop()
        if self._folder is not None:
            remove_if_empty(self._folder)

    def _write(self, line: dict[str, Json]) -> None:
        data = canonical(line, depth_max=_DEPTH_MAX) + b"\n"
        if len(data) > RECORDING_LINE_BYTES_MAX:  # no replay would read it
            raise LimitExceeded(
                "the line of a recorded call in bytes",
                size=len(data),
                limit=RECORDING_LINE_BYTES_MAX,
                advice="redact fewer values of one call, or make several calls",
            )
        self._draft.write(data)
        self._digest.update(data)
        if self.salt is None:
            self.salt = salt_in(data)


class Replay:
    """A recording that answers in the place of tools and model.

    It is read to its end once before anything is answered: a torn or foreign file is refused while
    nothing has happened. Then it is read along with the run, a line at a time.
    """

    def __init__(self, path: Path, *, of_run: bool = True) -> None:
        """Open a recording, of a run (`of_run`) or of a host alone."""
        self._path = path
        self._difference: InvalidInput | None = None  # the first
        self._digest = sha256()
        self.salt: bytes | None = None  # of what is redacted in it
        self._file = _opened(path)
        try:
            start = self._taken(self._next(), _Start)
            if (start.memory_snapshot_id is not None) != of_run:
                raise self._of_other(of_run)
            self.memory_snapshot_id = start.memory_snapshot_id or ""
            first_call, first_digest = self._file.tell(), self._digest.copy()
            self._seq = 0
            line = self._exchange_or_end()
            while isinstance(line, _Exchange):
                line = self._exchange_or_end()
            self.end = self._ended(line)
            if self._file.read(1):
                raise self._foreign("it goes on after its end")
            self._sealed = self._digest.hexdigest()
            self._file.seek(first_call)
            self._digest = first_digest
            self._seq = 0
        except BaseException:
            self._file.close()
            raise

    def answer(self, call: Asked) -> Reply:
        """Return the reply to this call; InvalidInput when the recorded call is another one, and from
        then on: whoever goes on has left the recording."""
        if self._difference is not None:
            raise _again(self._difference)
        recorded = self._exchange_or_end()
        if isinstance(recorded, _End) or not call.is_like(
            recorded.kind, recorded.name, recorded.args
        ):
            self._difference = self._differs(recorded, call)
            raise self._difference
        effects = None if recorded.effects is UNSET else recorded.effects
        if recorded.error is UNSET:
            return Reply(recorded.result, effects)
        error: dict[str, Any] = to_builtins(recorded.error)
        return Reply(effects=effects, error=error, raised=self._raised(error))

    def _raised(self, error: dict[str, Any]) -> RoteError:
        if "code" not in error:
            return RecordedError.of(error["type"], error["message"])
        try:
            return RoteError.from_dict({"details": {}, **error})
        except (KeyError, TypeError):
            raise self._foreign("an error lacks the details of its type") from None

    def seal(self, end: RunEnd) -> str:
        """Return the SHA-256 of the recording, whatever the end of its replay is."""
        return self._sealed

    def compare(self, end: RunEnd) -> None:
        """Compare the end of the replay with the recorded one; RunAborted when it would write something
        else, InvalidInput when it is another."""
        rest = self._rest()
        if self.end.error is not None or isinstance(rest, _Exchange):
            raise self._differs(rest, end)
        if end.payload_fingerprint != self.end.payload_fingerprint:
            raise RunAborted(
                "payload_mismatch",
                message=(
                    f"the replay of {self._path} would write {end.payload_fingerprint}, the recorded"
                    f" run {self.end.payload_fingerprint}; the program, what it reads, or an option of"
                    " its host has changed"
                ),
            )

    def compare_failure(self, error: BaseException) -> None:
        """Compare what the block of the replay has raised with what the recorded one did."""
        first = self._difference
        is_difference = (
            first is not None
            and isinstance(error, RoteError)
            and error.to_dict() == first.to_dict()
        )
        if self.end.error is None or is_difference:
            self._file.close()
            return  # the exception tells it
        try:
            rest = self._rest()
        except InvalidInput as difference:
            raise difference from error
        end = RunEnd(error=error_name(error))
        if isinstance(rest, _Exchange) or end != self.end:
            raise self._differs(rest, end) from error

    def _rest(self) -> "_Exchange | _End":
        """Return the next line, which is the last of the recording at the end of its replay."""
        try:
            if self._difference is not None:
                raise _again(self._difference)
            line = self._exchange_or_end()
            if isinstance(line, _End) and self._digest.hexdigest() != self._sealed:
                raise self._foreign("it was changed while it was replayed")
            return line
        finally:
            self._file.close()

    def discard(self) -> None:
        self._file.close()

    def _ended(self, line: _End) -> RunEnd:
        if (line.payload_fingerprint is UNSET) == (line.error is UNSET):
            raise self._foreign("its end has a payload_fingerprint or an error, one of the two")
        if line.error is not UNSET:
            return RunEnd(error=line.error.type)
        return RunEnd(payload_fingerprint=line.payload_fingerprint or None)

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
        self._digest.update(data)
        if self.salt is None:
            self.salt = salt_in(data)
        try:
            value = decode(data[:-1], depth_max=_DEPTH_MAX)
        except InvalidValue as error:
            raise self._foreign(str(error)) from None
        if type(value) is not dict or canonical(value, depth_max=_DEPTH_MAX) != data[:-1]:
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

    def _of_other(self, of_run: bool) -> InvalidInput:
        if of_run:
            advice = "it is the recording of a host without a run; replay it by host.replay"
        else:
            advice = "it is the recording of a run; replay it by space.run(replay=…)"
        return InvalidInput(f"{self._path}: {advice}", path=str(self._path))

    def _foreign(self, reason: str) -> InvalidInput:
        return InvalidInput(f"{self._path} is no recording: {reason}", path=str(self._path))

    def _differs(self, recorded: _Exchange | _End, made: Asked | RunEnd) -> InvalidInput:
        then, now = _shown(recorded), _shown(made)
        is_of_host = "adapter" in (recorded.kind, None if isinstance(made, RunEnd) else made.kind)
        return InvalidInput(
            f"the replay leaves the recording: recorded is {then}, but now comes {now}; replay what"
            f" was recorded, or record anew{_HOST_ADVICE if is_of_host else ''}",
            code="replay_differs",
            recorded=then,
            made=now,
        )


def _again(first: InvalidInput) -> RoteError:
    """Return an error as it was raised first, with the place where that was.

    Raised itself, it would get longer by its way through each call.
    """
    return RoteError.from_dict(first.to_dict()).with_traceback(first.__traceback__)


def _opened(path: Path) -> BinaryIO:
    try:
        if not path.is_file():
            raise NotFound(f"there is no recording {path}", path=str(path))
        return path.open("rb")
    except OSError as error:
        raise Unavailable(f"cannot read {path}: {error.strerror}") from error


def _shown(call: Asked | _Exchange | _End | RunEnd) -> str:
    if isinstance(call, RunEnd):
        return _THE_END if call.error is None else f"{_THE_END} by {call.error}"
    if isinstance(call, _End):
        return _THE_END if call.error is UNSET else f"{_THE_END} by {call.error.type}"
    text = canonical(call.args, depth_max=_DEPTH_MAX).decode()
    more = "…" if len(text) > CALL_CHARACTERS_SHOWN else ""
    return f"{call.kind} {call.name} {text[:CALL_CHARACTERS_SHOWN]}{more}"

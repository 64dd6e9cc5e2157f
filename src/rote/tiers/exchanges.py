"""Recording and replaying the calls of a host, without a run.

While a host records, its calls go one at a time, and each that reaches an adapter is a line of the
recording. While it replays, the recording answers in the place of the adapters, and nothing is touched.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from msgspec import Struct

from rote.errors import RoteError, public_class
from rote.recordings.calls import Reply, described
from rote.recordings.recordings import Recording, Replay, RunEnd, error_name
from rote.recordings.redaction import Redaction, matches, without_texts
from rote.values import Json
from rote.values.limits import ERROR_MESSAGE_CHARACTERS_MAX

if TYPE_CHECKING:
    from rote.tiers.host import Host

SomeHost = TypeVar("SomeHost", bound="Host")
_FRAME_GET = "frame.get"
SALT_BYTES = 16


class AdapterCall(Struct, frozen=True):
    """A call of an adapter, as it is recorded."""

    name: str  # <adapter>.<verb>
    given: dict[str, Json]  # the arguments, by name
    args: dict[str, Json]  # the same without what is redacted
    kind: Literal["adapter"] = "adapter"

    def is_like(self, kind: str, name: str, args: dict[str, Json], /) -> bool:
        return (kind, name) == (self.kind, self.name) and matches(self.given, args)


class Exchange(Protocol):
    """The way of calls to their adapters, or to a recording."""

    is_replay: bool

    def call(self, name: str, given: dict[str, Json], perform: Callable[[], Json]) -> Json:
        """Return the result of a call, or raise its error."""


class Recorder:
    """Records the calls that reach an adapter."""

    is_replay = False

    def __init__(self, path: Path, redaction: Redaction) -> None:
        self._recording = Recording(path, memory_snapshot_id=None)
        self._redaction = redaction
        self._turn = threading.Lock()

    def call(self, name: str, given: dict[str, Json], perform: Callable[[], Json]) -> Json:
        with self._turn:
            call = AdapterCall(name, given, self._redaction.hidden(given))
            try:
                result = perform()
            except BaseException as error:  # an interrupted call was made all the same
                told = _told(call, error, self._redaction)
                raised = error
                if isinstance(error, RoteError) and told != _plain(error):
                    raised = RoteError.from_dict(told)  # so that nobody prints what is redacted
                self._add(call, Reply(error=told))
                if raised is error:
                    raise
                raise raised from None
            self._add(call, Reply(self._hidden_result(call, result)))
            return result

    def _hidden_result(self, call: AdapterCall, result: Json) -> Json:
        if call.name == _FRAME_GET and self._redaction.is_on_path(call.given.get("path")):
            return self._redaction.hidden_whole(result)
        return self._redaction.hidden(result)

    def _add(self, call: AdapterCall, reply: Reply) -> None:
        self._recording.add(call, reply, lambda call, reply: None)

    def finish(self, error: BaseException | None) -> None:
        """Complete the recording, also of a block that raised; when that fails, there is none."""
        end = RunEnd() if error is None else RunEnd(error=error_name(error))
        with self._turn:
            try:
                self._recording.seal(end)
                self._recording.place()
            except BaseException as failure:
                self._recording.discard()
                if error is None:
                    raise
                error.add_note(f"the recording was not completed: {failure}")


class Replayer:
    """Answers calls from a recording; the first that differs, and each after it, is refused."""

    is_replay = True

    def __init__(self, path: Path, redaction_of: Callable[[bytes | None], Redaction]) -> None:
        self._replay = Replay(path, of_run=False)
        self._redaction = redaction_of(self._replay.salt)
        self._turn = threading.Lock()

    def call(self, name: str, given: dict[str, Json], perform: Callable[[], Json]) -> Json:
        with self._turn:
            call = AdapterCall(name, given, self._redaction.hidden(given))
            return self._replay.answer(call).outcome()

    def finish(self, error: BaseException | None) -> None:
        """Compare the end with the recorded one; InvalidInput when calls are left over."""
        with self._turn:
            if error is None:
                self._replay.compare(RunEnd())
            else:
                self._replay.compare_failure(error)


class Exchanging(Generic[SomeHost]):
    """The `with` block of host.record and host.replay."""

    def __init__(self, host: SomeHost, make: Callable[[], Recorder | Replayer]) -> None:
        self._host = host
        self._make = make

    def __enter__(self) -> SomeHost:
        self._exchange = self._host._begin_exchange(self._make)
        return self._host

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        shared = self._host._shared
        if os.getpid() != shared.process:
            return  # a fork that is left; the block goes on where it began
        shared.exchange = None
        self._exchange.finish(error)


def _plain(error: RoteError) -> dict[str, Any]:
    message = str(error)[:ERROR_MESSAGE_CHARACTERS_MAX]
    return {
        "type": public_class(error).__name__,
        "code": error.code,
        "message": message.encode("utf-8", "backslashreplace").decode(),
        "details": error.details,
    }


def _told(call: AdapterCall, error: BaseException, redaction: Redaction) -> dict[str, Any]:
    """Return an error as it is recorded."""
    told = _plain(error) if isinstance(error, RoteError) else described(error)
    texts = redaction.texts(call.given) | redaction.texts(told)
    if texts:
        told = _without(told, texts)
    return redaction.hidden(told)  # type: ignore[no-any-return]


def _without(told: Any, texts: set[str]) -> Any:
    """Return an error without redacted texts in its message and its details.

    Only our own code nests details, so no input makes this recurse deeply.
    """
    if type(told) is str:
        return without_texts(told, texts)
    if type(told) is dict:
        return {name: _without(each, texts) for name, each in told.items()}
    return [_without(each, texts) for each in told] if type(told) is list else told

"""Recording and replaying the calls of a host, without a run.

While a host records, its calls go one at a time, and each that reaches an adapter is a line of the
recording. While it replays, the recording answers in the place of the adapters, and nothing is touched.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from rote.errors import InvalidInput
from rote.recordings.adapter_calls import AdapterCall
from rote.recordings.recordings import Recording, Replay, RunEnd, error_name
from rote.recordings.redaction import Redaction
from rote.values import Json

if TYPE_CHECKING:
    from rote.tiers.host import Host

SomeHost = TypeVar("SomeHost", bound="Host")
SALT_BYTES = 16


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
        self._has_ended = False

    def call(self, name: str, given: dict[str, Json], perform: Callable[[], Json]) -> Json:
        with self._turn:
            if not self._has_ended:
                call = AdapterCall.of(name, given, self._redaction)
                reply = call.perform(perform)
                self._recording.add(call, reply, lambda call, reply: None)
                return reply.outcome()
        return perform()  # of a thread that was on its way here when the block ended

    def finish(self, error: BaseException | None) -> None:
        """Complete the recording, also of a block that raised; when that fails, there is none."""
        end = RunEnd() if error is None else RunEnd(error=error_name(error))
        with self._turn:
            self._has_ended = True
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
        self._has_ended = False

    def call(self, name: str, given: dict[str, Json], perform: Callable[[], Json]) -> Json:
        with self._turn:
            if self._has_ended:
                raise InvalidInput(
                    f"the replay has ended while {name} was under way; wait for the threads that"
                    " call before you leave its block"
                )
            call = AdapterCall.of(name, given, self._redaction)
            return self._replay.answer(call).outcome()

    def finish(self, error: BaseException | None) -> None:
        """Compare the end with the recorded one; InvalidInput when calls are left over."""
        with self._turn:
            self._has_ended = True
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

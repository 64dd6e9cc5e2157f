"""Long work on a server: its progress comes as lines while it goes on, and its answer as the last one."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from rote.client.replies import Broken, Take
from rote.contract import Task, Tell
from rote.contract.wire import decode_error
from rote.errors import InvalidInput, RoteError, Unavailable
from rote.values.limits import MESSAGE_BYTES_MAX

R = TypeVar("R")
LINES = "application/x-ndjson"


class _Line(Struct):
    """One line: progress, or the end."""

    progress: tuple[str, int, int] | None = None
    result: Raw = Raw(b"")
    error: Any = None


_decode_line = msgspec.json.Decoder(_Line).decode


class Lines:
    """Takes the bytes of an answer and hands on its lines."""

    def __init__(self, tell: Callable[[str, int, int], None]) -> None:
        self._tell = tell
        self._waiting = b""
        self.result: bytes | None = None
        self.error: RoteError | None = None

    def begin(self) -> Take:
        """Begin anew: the request is sent once more."""
        self._waiting, self.result, self.error = b"", None, None
        return self.take

    def take(self, data: bytes) -> None:
        *lines, self._waiting = (self._waiting + data).split(b"\n")
        if len(self._waiting) > MESSAGE_BYTES_MAX:
            raise Broken("a line of the answer is too long")
        for line in lines:
            self._look(line)

    def _look(self, line: bytes) -> None:
        try:
            read = _decode_line(line)
        except msgspec.MsgspecError as error:
            raise Broken(f"a line of the answer is not one of a server of Rote: {error}") from None
        if read.progress is not None:
            self._tell(*read.progress)
        elif result := bytes(read.result):
            self.result = result
        else:
            self.error = decode_error(line)


class RemoteTask(Task[R]):
    """Work that a server does for the thread that asks for its result."""

    def __init__(self, work: Callable[[Tell], R]) -> None:
        self._work: Callable[[Tell], R] | None = work
        self._is_cancelled = threading.Event()

    def result(self, tell: Tell | None = None) -> R:
        work, self._work = self._work, None
        if work is None:
            raise InvalidInput("the result of this work was asked for already; begin it again")

        def told(what: str, done: int, total: int) -> None:
            self._check()
            if tell is not None:
                tell(what, done, total)

        self._check()
        return work(told)

    def cancel(self) -> None:
        self._is_cancelled.set()

    def _check(self) -> None:
        if self._is_cancelled.is_set():
            raise Unavailable("the work was cancelled; begin it again", code="cancelled")

"""The worker as its host sees it: a process that is started once, asked many times, and killed when
it does not answer in time. The next question starts another one."""

import marshal
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Any
from weakref import finalize

from rote.errors import LimitExceeded, Unavailable, system_failure
from rote.values.tier_limits import SQL_CLOSE_SECONDS_MAX, SQL_KILL_SECONDS, SQL_START_SECONDS_MAX

_LENGTH_BYTES = 4
_PIECE_BYTES = 1 << 20
# Of a request that are in the worker's memory at once: its pieces, its frame, its values.
_COPIES = 4
# No site, no environment and no user's folder: two folders, that of Rote and that of the driver.
_OPTIONS = ("-I", "-S", "-c")
_PROGRAM = "import sys; sys.path += sys.argv[1:]; from rote.tiers.sqlite.worker import main; main()"


class Worker:
    """One process for one file. It is not for several threads at once."""

    def __init__(
        self, settings: Mapping[str, Any], *, seconds_max: float, reply_bytes_max: int
    ) -> None:
        self._settings = marshal.dumps(dict(settings))
        self._request_bytes_max = settings["max_memory_bytes"] // _COPIES
        self._seconds_max = seconds_max  # of one statement
        self._reply_bytes_max = reply_bytes_max
        self._line: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._end: finalize[..., Worker] | None = None

    def start(self) -> None:
        """Start a process unless one is there."""
        if self._process is not None and self._process.poll() is None:
            return
        self.kill()
        try:
            self._start()
        except OSError as error:
            self.kill()
            raise system_failure("cannot start a process for SQLite", error, "") from error
        try:
            self._send(self._settings, monotonic() + SQL_START_SECONDS_MAX)
            if self._receive(monotonic() + SQL_START_SECONDS_MAX) != b"+":
                raise OSError("another answer than expected")
        except BaseException as error:
            self.kill()
            if isinstance(error, OSError):
                raise Unavailable(f"the process for SQLite did not start: {error}") from error
            raise

    def ask(self, request: Mapping[str, Any], seconds: float) -> bytes:
        """Return the reply to a request, which begins with its kind.

        A process that has not answered after so many seconds is killed: LimitExceeded.
        """
        deadline = monotonic() + seconds + SQL_KILL_SECONDS
        data = marshal.dumps({**request, "seconds": seconds})
        if len(data) > self._request_bytes_max:
            what = "max_memory_bytes: a statement has a quarter of it, which in bytes"
            raise LimitExceeded(what, size=len(data), limit=self._request_bytes_max)
        is_committing = False
        try:
            self._send(data, deadline)
            while (reply := self._receive(deadline)) == b"c":
                is_committing = True
        except OSError as error:
            raise self._ended(error, is_committing) from error
        except BaseException:
            self.kill()
            raise
        if reply[:1] == b"x":
            self.kill()
        return reply

    def close(self) -> None:
        """End the process: it closes its file when its input ends."""
        if self._line is not None:
            with suppress(OSError):
                self._line.shutdown(socket.SHUT_WR)
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(SQL_CLOSE_SECONDS_MAX)
        self.kill()

    def kill(self) -> None:
        """End the process at once, if there is one."""
        if self._end is not None:
            self._end()
        self._process = self._line = self._end = None

    def _start(self) -> None:
        driver = find_spec("apsw")
        if driver is None or driver.origin is None:
            raise OSError("apsw is not installed")
        folders = [str(Path(__file__).parents[3]), str(Path(driver.origin).parents[1])]
        self._line, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, *_OPTIONS, _PROGRAM, *folders],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                # Ctrl-C in a terminal is for the host.
                start_new_session=True,
            )
        self._end = finalize(self, _end, self._process, self._line, os.getpid())

    def _ended(self, error: OSError, is_committing: bool) -> Exception:
        """End the process; return the error for a question that it did not answer."""
        process = self._process
        is_late = isinstance(error, TimeoutError)
        self.kill()
        if is_committing:
            return Unavailable(
                "the statement was stopped while it was committed; look whether it was done",
                outcome="unknown",
            )
        if is_late or (process is not None and process.returncode == -signal.SIGXCPU):
            return too_late(self._seconds_max)
        return Unavailable("the process for SQLite ended; the next call starts another one")

    def _send(self, data: bytes, deadline: float) -> None:
        assert self._line is not None
        self._line.settimeout(_left(deadline))
        self._line.sendall(len(data).to_bytes(_LENGTH_BYTES, "big") + data)

    def _receive(self, deadline: float) -> bytes:
        size = int.from_bytes(self._receive_bytes(_LENGTH_BYTES, deadline), "big")
        if size > self._reply_bytes_max:
            raise OSError("it sent more than was asked for")
        return self._receive_bytes(size, deadline)

    def _receive_bytes(self, size: int, deadline: float) -> bytes:
        assert self._line is not None
        pieces: list[bytes] = []
        while size:
            self._line.settimeout(_left(deadline))
            piece = self._line.recv(min(size, _PIECE_BYTES))
            if not piece:
                raise ConnectionError("it ended")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


def too_late(seconds: float) -> LimitExceeded:
    return LimitExceeded(
        "timeout_seconds: the time of the statement in milliseconds",
        size=int(seconds * 1_000),
        limit=int(seconds * 1_000),
        advice="ask for less",
    )


def _left(deadline: float) -> float:
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError("the time is over")
    return left


def _end(process: "subprocess.Popen[bytes]", line: socket.socket, owner: int) -> None:
    line.close()
    if os.getpid() == owner:  # not where the host was only forked
        with suppress(OSError):
            process.kill()
        process.wait()

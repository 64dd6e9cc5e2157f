"""The access log: one JSON line after each request, without a word that a client may have meant to hide.

A line says who asked for which command of which space and what came of it. Paths, queries, ids, values,
headers and secrets have no place in it. A thread writes the lines, so that a slow disk holds up no
answer: LOG_LINES_MAX lines wait, the next ones are counted and dropped.
"""

import queue
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from rote.errors import system_failure
from rote.values.server_limits import LOG_LINES_MAX


class Entry(Struct, frozen=True, kw_only=True):
    """One request, as the log tells of it."""

    time: str  # when it was answered
    request: str  # its id
    peer: str
    principal: str | None
    proofs: tuple[str, ...]  # ids of delegations
    method: str
    command: str | None  # None: no such route
    space: str | None  # did
    status: int
    code: str | None  # of the error
    ms: float
    bytes_in: int = msgspec.field(name="in")
    bytes_out: int = msgspec.field(name="out")


class FailedEntry(Entry, frozen=True, kw_only=True):
    """A request that met an error of the server."""

    error: str  # class and message


_END = None


class AccessLog:
    """Lines on their way to a file. `note` never waits."""

    def __init__(self, sink: BinaryIO | None, *, dropped: Callable[[int], None]) -> None:
        """Write to a sink, or nowhere; `dropped` is told how many lines were dropped."""
        self._sink = sink
        self._dropped = dropped
        self._lines: queue.Queue[bytes | None] = queue.Queue(LOG_LINES_MAX)
        self._thread: threading.Thread | None = None
        if sink is not None:
            self._thread = threading.Thread(target=self._write, name="rote-access-log", daemon=True)
            self._thread.start()

    @property
    def is_kept(self) -> bool:
        """Whether lines go anywhere."""
        return self._thread is not None

    def note(self, entry: Entry) -> None:
        """Add the line of a request."""
        if self.is_kept:
            self.line(msgspec.json.encode(entry) + b"\n")

    def line(self, data: bytes) -> None:
        """Add lines, or drop them when too many wait."""
        if self._thread is None:
            return
        try:
            self._lines.put_nowait(data)
        except queue.Full:
            self._dropped(1)

    def close(self) -> None:
        """Write what waits, as far as the sink takes it, and end."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            self._lines.put(_END, timeout=1)
        except queue.Full:
            return  # the sink takes nothing; its thread ends with the process
        thread.join(timeout=5)
        if self._sink is not None and self._sink is not sys.stderr.buffer:
            self._sink.close()

    def _write(self) -> None:
        assert self._sink is not None
        while (line := self._lines.get()) is not _END:
            try:
                self._sink.write(line)
                if self._lines.empty():
                    self._sink.flush()
            except (OSError, ValueError):
                self._dropped(1)  # a full disk must not end the log


def open_log(place: str, *, dropped: Callable[[int], None]) -> AccessLog:
    """Open the log that `--access-log` names: a file, `-` for stderr, or `none`."""
    if place == "none":
        return AccessLog(None, dropped=dropped)
    if place == "-":
        return AccessLog(sys.stderr.buffer, dropped=dropped)
    try:
        sink = Path(place).open("ab")  # noqa: SIM115 - the log closes it
    except OSError as error:
        raise system_failure("the access log cannot be opened", error, place) from None
    return AccessLog(sink, dropped=dropped)

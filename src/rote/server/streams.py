"""Answers that are streamed: lines of NDJSON and server-sent events, piece by piece.

A piece is what goes to the client at once. An error after the first piece is the last line or event of
the stream, because the status is sent already.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from rote.contract.port import Watching
from rote.contract.wire import encode_error
from rote.errors import InternalError, RoteError
from rote.values.server_limits import STREAM_PIECE_BYTES

EVENTS = b"text/event-stream"

_encode = msgspec.json.Encoder().encode


def lines(items: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines, many in a piece; the error of an iterable that fails is the last line."""
    waiting = bytearray()
    try:
        for item in items:
            waiting += item
            waiting += b"\n"
            if len(waiting) >= STREAM_PIECE_BYTES:
                yield bytes(waiting)
                waiting.clear()
    except RoteError as error:
        waiting += encode_error(error) + b"\n"
    if waiting:
        yield bytes(waiting)


class WatchStream:
    """A watch as pieces of a stream. Nothing in it waits."""

    def __init__(
        self, watching: Watching, *, is_events: bool, sent: Callable[[], None] = lambda: None
    ) -> None:
        """`sent` counts a frame."""
        self._watching = watching
        self._is_events = is_events
        self._sent = sent
        self._first: bytes | None = None
        self.has_ended = False

    def begin(self) -> None:
        """Compute the first frame, which always comes."""
        frame = self._watching.next(0)
        self._first = None if frame is None else self._piece(frame)

    def poll(self) -> bytes | None:
        """Return the next frame, or the error that ends the stream; None when there is none yet."""
        if self._first is not None:
            first, self._first = self._first, None
            return first
        try:
            frame = self._watching.next(0)
        except RoteError as error:
            self.close()
            told = encode_error(error)
            return event("error", told) if self._is_events else told + b"\n"
        return None if frame is None else self._piece(frame)

    def _piece(self, frame: dict[str, Any]) -> bytes:
        self._sent()
        data = _encode(frame)
        return event("frame", data, id=frame["to"]) if self._is_events else data + b"\n"

    def beat(self) -> bytes:
        """Return a sign of life."""
        return b": \n\n" if self._is_events else b"{}\n"

    def closing(self) -> bytes:
        """Return the last word to a watcher whose server stops."""
        self.close()
        return event("closing", b"{}") if self._is_events else b'{"closing":{}}\n'

    def close(self) -> None:
        self.has_ended = True
        self._watching.close()


def event(name: str, data: bytes, *, id: int | None = None) -> bytes:
    """Return a server-sent event; its data is one line."""
    if b"\n" in data:
        raise InternalError("the data of an event has one line")
    head = b"" if id is None else b"id: %d\n" % id
    return head + b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"

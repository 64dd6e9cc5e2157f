"""Streams: lines, events, and the error that ends one."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rote.errors import Compacted, InternalError
from rote.server.streams import WatchStream, event, lines
from rote.values.server_limits import STREAM_PIECE_BYTES


def test_small_lines_travel_together_and_large_ones_do_not_wait() -> None:
    small = list(lines([b"{}"] * 10))
    assert small == [b"{}\n" * 10]
    large = list(lines([b"x" * STREAM_PIECE_BYTES] * 3))
    assert len(large) == 3
    assert b"".join(large) == (b"x" * STREAM_PIECE_BYTES + b"\n") * 3


def test_nothing_is_read_before_it_is_asked_for() -> None:
    read = []

    def items() -> Iterator[bytes]:
        for number in range(10):
            read.append(number)
            yield b"x" * STREAM_PIECE_BYTES

    pieces = lines(items())
    next(pieces)
    assert read == [0]


def test_an_error_is_the_last_line() -> None:
    def items() -> Iterator[bytes]:
        yield b'{"a":1}'
        raise Compacted(3, oldest=7)

    first, last = b"".join(lines(items())).splitlines()
    assert first == b'{"a":1}'
    assert json.loads(last) == {"error": Compacted(3, oldest=7).to_dict()}


def test_the_data_of_an_event_is_one_line() -> None:
    assert event("frame", b"{}", id=4) == b"id: 4\nevent: frame\ndata: {}\n\n"
    assert event("closing", b"{}") == b"event: closing\ndata: {}\n\n"
    with pytest.raises(InternalError):
        event("frame", b"{\n}")


class Watched:
    """Frames that are there already."""

    def __init__(self, *frames: Any) -> None:
        self.frames = list(frames)
        self.is_closed = False

    def next(self, timeout: float | None = None) -> Any:
        assert timeout == 0
        found = self.frames.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def advance(self, version: int) -> dict[str, Any] | None:
        raise AssertionError("a stream goes on to whatever is the newest")

    def close(self) -> None:
        self.is_closed = True


FRAME = {"from": None, "to": 3, "upserts": [{"id": "urn:a", "value": "a\nb"}], "removes": []}


def test_a_watch_is_events_or_lines() -> None:
    events = WatchStream(Watched(FRAME, None), is_events=True)
    piece = events.poll()
    assert piece is not None
    head, name, data, *rest = piece.split(b"\n")
    assert (head, name, rest) == (b"id: 3", b"event: frame", [b"", b""])
    assert json.loads(data.removeprefix(b"data: ")) == FRAME
    assert events.poll() is None
    assert events.beat() == b": \n\n"
    plain = WatchStream(Watched(FRAME), is_events=False)
    piece = plain.poll()
    assert piece is not None and json.loads(piece) == FRAME and piece.endswith(b"}\n")
    assert plain.beat() == b"{}\n"


@pytest.mark.parametrize("is_events", [True, False])
def test_an_error_ends_a_watch_and_is_told(is_events: bool) -> None:
    watched = Watched(Compacted(3, oldest=7))
    stream = WatchStream(watched, is_events=is_events)
    piece = stream.poll()
    assert piece is not None and stream.has_ended and watched.is_closed
    assert (b"event: error\n" in piece) == is_events
    assert b'"code":"compacted"' in piece


@pytest.mark.parametrize("is_events", [True, False])
def test_a_stopping_server_says_its_last_word(is_events: bool) -> None:
    watched = Watched()
    assert b"closing" in WatchStream(watched, is_events=is_events).closing()
    assert watched.is_closed

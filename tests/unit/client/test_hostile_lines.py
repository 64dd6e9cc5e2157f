"""Messages that no server of Rote sends: the line breaks and is mended, and nothing else is raised."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

import rote
from rote.client.address import address_of
from rote.client.calls import Calls
from rote.client.credentials import Token
from rote.client.line import Line, Watched
from rote.client.links import WireLinker
from rote.client.pool import Pool
from rote.contract import sync as wire
from rote.errors import RoteError, Unavailable
from rote.opening.sources import SystemClock, SystemIds
from rote.sessions.store_sessions import StoreSessions

DID = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"
STATE = {"branch": "main", "id": "urn:a", "version": 1, "hash": "ab", "value": 5}
OPENED = {"space": DID, "session": "ab" * 16, "token": "x", "version": 1}
BOUNDS = {"message_bytes": 1 << 20, "calls": 1, "transacts": 1, "watches": 1, "window": 2}
WELCOME = {
    "protocol": "rote/1", "server": DID, "challenge": "x", "expires": "2030-01-01T00:00:00Z",
    "limits": BOUNDS,
}  # fmt: skip
ANSWERS = {"hello": WELCOME, "session.open": OPENED}


def step(states: list[Any], places: list[int]) -> dict[str, Any]:
    part = {"from": None, "upserts": places, "removes": []}
    return {
        "type": "sync", "to": 1, "hash": "ab", "at": 1, "decided": 0, "erased": 0,
        "states": states, "watches": {"1": part}, "more": False,
    }  # fmt: skip


GARBAGE = {
    "no json": b"<html>",
    "a list": b"[]",
    "deep": b'{"id":3,"x":' + b"[" * 100_000,
    "an odd id": b'{"id":"3","ok":{}}',
    "half a step": b'{"type":"sync","to":1}',
    "a place that is not there": orjson.dumps(step([STATE], [1])),
    "a place before the first": orjson.dumps(step([STATE], [-1])),
    "a state of no branch": orjson.dumps(step([{**STATE, "branch": None}], [0])),
    "no state": orjson.dumps(step([5], [0])),
}


class Hostile:
    """A server of `/v1/sync` that sends garbage to its first connections."""

    def __init__(self, garbage: bytes, *, connections: int = 1) -> None:
        self._garbage = garbage
        self._left = connections

    def __call__(self, socket: ServerConnection) -> None:
        try:
            for request in map(orjson.loads, socket):
                self._answer(socket, request)
        except ConnectionClosed:
            pass

    def _answer(self, socket: ServerConnection, request: dict[str, Any]) -> None:
        kind = request["type"]
        if kind == "watch.add" and self._left:
            self._left -= 1
            socket.send(self._garbage, text=True)
            return
        answer = ANSWERS.get(kind, {"version": 1})
        socket.send(orjson.dumps({"id": request["id"], "ok": answer}).decode())
        if kind == "watch.add" and request["watches"]:
            socket.send(orjson.dumps(step([STATE], [0])).decode())


@contextmanager
def calls_to(hostile: Hostile) -> Iterator[Calls]:
    with serve(hostile, "127.0.0.1", 0, compression=None) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        pool = Pool(
            address_of(f"http://127.0.0.1:{server.socket.getsockname()[1]}"), now=time.monotonic
        )
        calls = Calls(pool, credentials=Token("x"), ids=SystemIds(), seconds=20, now=time.monotonic)
        try:
            yield calls
        finally:
            calls.close()
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_a_line_of_garbage_is_mended(garbage: bytes) -> None:
    with calls_to(Hostile(garbage)) as calls:
        line, watched = Line(calls, DID), Watched({"select": {"urn:*": {}}})
        try:
            line.begin(watched)
            frame = line.wait(watched, 0, time.monotonic() + 20)
            assert frame is not None
            assert [state["value"] for state in frame["upserts"]] == [5]
        finally:
            line.close()


def test_an_error_that_cannot_be_read_is_the_servers_fault() -> None:
    with calls_to(Hostile(b'{"id":3,"error":5}')) as calls:
        line = Line(calls, DID)
        try:
            with pytest.raises(Unavailable):
                line.begin(Watched({"select": {"urn:*": {}}}))
        finally:
            line.close()


def test_a_value_that_cannot_be_read_is_the_servers_fault() -> None:
    value = orjson.dumps(step([STATE], [0])).replace(b'"value":5', b'"value":1e999')
    with calls_to(Hostile(b'{"id":3,"ok":{"version":1}}', connections=0)) as calls:
        line, watched = Line(calls, DID), Watched({"select": {"urn:*": {}}})
        try:
            line.begin(watched)
            message = wire.decode_from_server(value)
            assert isinstance(message, wire.Sync)
            watched.waiting.take_in(1, message.watches["1"], message.states)
            with pytest.raises(Unavailable):
                line.wait(watched, 0, time.monotonic() + 20)
        finally:
            line.close()


@pytest.mark.parametrize(
    "garbage",
    [
        *(GARBAGE[name] for name in ("no json", "a list", "deep", "an odd id", "half a step")),
        b'{"id":3,"error":5}',
        b'{"id":3,"ok":[]}',
        b'{"id":7,"ok":{}}',
    ],
)
def test_a_link_ends_by_garbage_and_says_what_is_to_be_done(garbage: bytes) -> None:
    with calls_to(Hostile(garbage)) as calls:
        link = WireLinker(calls).connect(wire.OpenSession(DID))
        try:
            link.send(wire.AddWatches({}))
            with pytest.raises(Unavailable) as caught:
                link.receive(20)
            assert caught.value.details["then"] == "later"
            with pytest.raises(Unavailable):
                link.send(wire.AddWatches({}))
        finally:
            link.close()


STEPS = {
    **GARBAGE,
    "a state without an id": orjson.dumps(step([{**STATE, "id": 5}], [0])),
    "a value that is none": GARBAGE["no state"].replace(b"5", b'{"id":"urn:a","value":1e999}'),
}


class HostileOnce(Hostile):
    """A server of sessions whose first step is garbage."""

    def _answer(self, socket: ServerConnection, request: dict[str, Any]) -> None:
        if request["type"] != "session.open":
            answer = ANSWERS.get(request["type"], {"version": 1})
            socket.send(orjson.dumps({"id": request["id"], "ok": answer}).decode())
            if request["type"] == "session.close":
                socket.close()
            return
        socket.send(orjson.dumps({"id": request["id"], "ok": OPENED}).decode())
        self._left -= 1
        if self._left >= 0:
            socket.send(self._garbage, text=True)
        socket.send(orjson.dumps(step([STATE], [0])).decode())


@pytest.mark.parametrize("garbage", STEPS.values(), ids=STEPS)
def test_a_session_that_gets_garbage_goes_on_with_another_line(garbage: bytes) -> None:
    """The session ended, and what was not decided was lost, when a step could not be read."""
    with calls_to(HostileOnce(garbage)) as calls, rote.open(":memory:") as store:
        sessions = StoreSessions(WireLinker(calls), randomness=SystemIds(), clock=SystemClock())
        query: dict[str, Any] = {"1": {"select": {"urn:*": {}}}}
        session = sessions.begin(store.space("s"), watch=query, journal=None, timeout=20)
        try:
            assert session.get("urn:a") == 5
        finally:
            session.close()


@pytest.mark.parametrize("ok", [b"5", b'{"space":5}', b"null", b'"x"'])
def test_an_opening_that_cannot_be_read_is_the_servers_fault(ok: bytes) -> None:
    class Odd(Hostile):
        def _answer(self, socket: ServerConnection, request: dict[str, Any]) -> None:
            socket.send(b'{"id":%d,"ok":%b}' % (request["id"], ok), text=True)

    with calls_to(Odd(b"")) as calls, pytest.raises(RoteError) as caught:
        WireLinker(calls).connect(wire.OpenSession(DID))
    assert isinstance(caught.value, Unavailable)

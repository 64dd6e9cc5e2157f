"""Stalled lines: a network that takes no byte any more holds up nobody but what is on its way."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

import rote
from rote.errors import Unavailable
from rote.testing.serving import serving
from tests.unit.sessions.conftest import SECONDS, WATCH

CHUNK_BYTES = 65_536


class Relay:
    """Passes on what clients and a server send, until it is told to stall."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.upstream = ("", 0)
        self.flows = threading.Event()
        self.flows.set()
        self._ends: list[socket.socket] = [self._listener]

    def accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.upstream)
            self._ends += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=[source, sink], daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(CHUNK_BYTES):
                self.flows.wait(3 * SECONDS)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self) -> None:
        self.flows.set()
        for end in self._ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()


@contextmanager
def relaying() -> Iterator[Relay]:
    relay = Relay()
    thread = threading.Thread(target=relay.accept)
    thread.start()
    try:
        yield relay
    finally:
        relay.close()
        thread.join()


@pytest.mark.parametrize("end", ["pause", "close"])
def test_a_session_is_paused_and_closed_while_its_line_takes_nothing(end: str) -> None:
    with ExitStack() as ending:
        relay = ending.enter_context(relaying())
        here = ending.enter_context(rote.open(":memory:"))
        server = ending.enter_context(serving(here, threads=2, allow_hosts=(relay.address,)))
        host, port = server.url.removeprefix("http://").rsplit(":", 1)
        relay.upstream = (host, int(port))
        store = rote.open(f"http://{relay.address}", token=server.token, timeout=SECONDS)
        ending.callback(store.close)
        session = store.space("s").session(watch=WATCH, timeout=SECONDS)
        ending.callback(relay.flows.set)
        relay.flows.clear()
        session.set("urn:a", "x" * 12_000_000)
        ender = threading.Thread(target=getattr(session, end), daemon=True)
        ender.start()
        ender.join(SECONDS)
        assert not ender.is_alive()


def test_closing_a_store_ends_a_session_that_is_not_open_yet() -> None:
    """A session was asked for again and again, for as long as its time was, though nobody would answer."""
    with ExitStack() as ending:
        relay = ending.enter_context(relaying())
        here = ending.enter_context(rote.open(":memory:"))
        server = ending.enter_context(serving(here, allow_hosts=(relay.address,)))
        host, port = server.url.removeprefix("http://").rsplit(":", 1)
        relay.upstream = (host, int(port))
        store = rote.open(f"http://{relay.address}", token=server.token, timeout=SECONDS)
        ending.callback(store.close)
        space = store.space("s")
        ending.callback(relay.flows.set)
        relay.flows.clear()
        raised: list[Exception] = []

        def begin() -> None:
            try:
                space.session(timeout=10 * SECONDS)
            except Unavailable as error:
                raised.append(error)

        before = len(relay._ends)
        beginner = threading.Thread(target=begin, daemon=True)
        beginner.start()
        while len(relay._ends) == before:
            pass
        store.close()
        beginner.join(SECONDS)
        assert len(raised) == 1
        assert not space._port._calls.pool._busy  # type: ignore[attr-defined]

"""The proxy counts whole messages, and cuts at the planned message and nowhere else."""

import contextlib
import socket
from collections.abc import Iterator

import pytest

from rote.testing.faults import Cut, Proxy

SECONDS_MAX = 10
STARTUP = b"\0\0\0\x08\0\x03\0\0"
SSL_REQUEST = bytes.fromhex("0000000804d2162f")


def message(kind: bytes, content: bytes = b"") -> bytes:
    return kind + (4 + len(content)).to_bytes(4, "big") + content


class Line:
    """A client, a proxy and a server that does nothing by itself."""

    def __init__(self, ends: contextlib.ExitStack) -> None:
        self._ends = ends
        self._listener = ends.enter_context(socket.create_server(("127.0.0.1", 0)))
        self._listener.settimeout(SECONDS_MAX)
        self.proxy = ends.enter_context(Proxy(self._listener.getsockname()))

    def dial(self) -> socket.socket:
        client = self._ends.enter_context(socket.create_connection(("127.0.0.1", self.proxy.port)))
        client.settimeout(SECONDS_MAX)
        return client

    def answer(self) -> socket.socket:
        server, _ = self._listener.accept()
        self._ends.enter_context(server)
        server.settimeout(SECONDS_MAX)
        return server

    def connect(self) -> tuple[socket.socket, socket.socket]:
        """Return both ends of a connection that is past its first message."""
        client = self.dial()
        client.sendall(STARTUP)
        server = self.answer()
        assert receive(server, len(STARTUP)) == STARTUP
        return client, server


def receive(source: socket.socket, size: int) -> bytes:
    """Return so many bytes, or fewer when the source ends before."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while len(found) < size and (chunk := source.recv(size - len(found))):
            found += chunk
    return found


@pytest.fixture
def line() -> Iterator[Line]:
    with contextlib.ExitStack() as ends:
        yield Line(ends)


def test_messages_of_both_directions_are_counted_and_pass_unchanged(line: Line) -> None:
    client, server = line.connect()
    line.proxy.plan(None)
    asked = message(b"Q", b"select 1") + message(b"S") + message(b"X", b"x" * 200_000)
    # In pieces that are no messages.
    for start in range(0, len(asked), 70_001):
        client.sendall(asked[start : start + 70_001])
    assert receive(server, len(asked)) == asked
    server.sendall(message(b"Z", b"I"))
    assert receive(client, 6) == message(b"Z", b"I")
    assert line.proxy.count() == 4


@pytest.mark.parametrize("delivered", [False, True])
@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_a_connection_ends_at_the_message_it_was_told(
    line: Line, cut: int, delivered: bool
) -> None:
    client, server = line.connect()
    line.proxy.plan(Cut(cut, delivered=delivered))
    asked = [message(b"P", b"a"), message(b"B", b"bb"), message(b"S")]
    client.sendall(b"".join(asked))
    arriving = b"".join(asked[: cut if delivered else cut - 1])
    assert receive(server, len(arriving)) == arriving
    if cut == 4:
        server.sendall(message(b"1") + message(b"2"))
        assert receive(client, 100) == (message(b"1") if delivered else b"")
    assert receive(server, 1) == b""
    assert receive(client, 1) == b""
    assert line.proxy.has_cut()


def test_a_cut_happens_once_and_the_next_connection_is_whole(line: Line) -> None:
    client, _ = line.connect()
    line.proxy.plan(Cut(1, delivered=False))
    client.sendall(message(b"S"))
    assert receive(client, 1) == b""
    client, server = line.connect()
    client.sendall(message(b"S"))
    assert receive(server, 5) == message(b"S")


def test_nobody_answers_after_a_cut_that_says_so_until_the_next_plan(line: Line) -> None:
    client, _ = line.connect()
    line.proxy.plan(Cut(1, delivered=False, refusing=True))
    client.sendall(message(b"S"))
    assert receive(client, 1) == b""
    refused = line.dial()
    assert receive(refused, 1) == b""
    line.proxy.plan(None)
    client, server = line.connect()
    client.sendall(message(b"S"))
    assert receive(server, 5) == message(b"S")


def test_a_client_that_asks_for_encryption_is_told_no_and_the_server_hears_nothing_of_it(
    line: Line,
) -> None:
    client = line.dial()
    client.sendall(SSL_REQUEST)
    assert receive(client, 1) == b"N"
    assert line.proxy.count() == 0
    client.sendall(STARTUP)
    assert receive(line.answer(), len(STARTUP)) == STARTUP
    assert line.proxy.count() == 1


def test_a_farewell_is_passed_on_and_not_counted(line: Line) -> None:
    client, server = line.connect()
    line.proxy.plan(Cut(2, delivered=True))
    farewell = message(b"X")
    client.sendall(message(b"S") + farewell)
    client.shutdown(socket.SHUT_WR)
    assert receive(server, 100) == message(b"S") + farewell
    assert line.proxy.count() == 1
    assert not line.proxy.has_cut()


def test_a_client_finds_nobody_when_the_server_is_down() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = gone.getsockname()
    with Proxy(address) as proxy, socket.create_connection(("127.0.0.1", proxy.port)) as client:
        client.settimeout(SECONDS_MAX)
        assert receive(client, 1) == b""

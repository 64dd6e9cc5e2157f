"""A network that breaks at a chosen message: a proxy between a client and a PostgreSQL server.

It counts the messages of both directions as they arrive. A `Cut` ends the connection at one of
them: that message is lost, or it is the last one delivered. Connections made after the cut work,
unless the cut says that nobody answers any more. So tests see how a client recovers.

Two messages are not counted: the message with which a client ends, because nobody waits for it and
it comes at any moment; and the question whether to encrypt, which the proxy answers with no.

    message    type, 1 byte (a client's first has none) | length of the rest, 4 bytes | content
    https://www.postgresql.org/docs/current/protocol-message-formats.html
"""

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

CHUNK_BYTES = 65_536
# Seconds that the end of a connection may take.
_END_SECONDS_MAX = 10
_TYPE_BYTES, _LENGTH_BYTES = 1, 4
# SSLRequest and GSSENCRequest, whole. The answer is a single byte, no message.
_ENCRYPTIONS = (bytes.fromhex("0000000804d2162f"), bytes.fromhex("0000000804d21630"))
_NO = b"N"
_FAREWELL = b"X\0\0\0\4"
_READY = b"Z"  # ReadyForQuery; no message of a client begins so


@dataclass(frozen=True, slots=True)
class Cut:
    """The point where the connection ends."""

    message: int  # its number since the plan, from 1 on, both directions counted
    delivered: bool  # whether that message still arrives
    refusing: bool = False  # whether nobody answers from then on, until the next plan


class Proxy:
    """Use it in a `with` block; clients connect to `port` on the loopback."""

    def __init__(self, upstream: str | tuple[str, int]) -> None:
        self._upstream = upstream  # the path of a Unix socket, or host and port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._mutex = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._cut: Cut | None = None
        self._seen = self._exchanges = 0
        self._refusing = False
        self._closed = False
        self._ended = threading.Event()  # cleared while a connection is being cut
        self._ended.set()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def count(self) -> int:
        """Return the number of messages since the last plan."""
        with self._mutex:
            return self._seen

    def exchanges(self) -> int:
        """Return the number of round trips since the last plan."""
        with self._mutex:
            return self._exchanges

    def has_cut(self) -> bool:
        """Whether the cut that was planned has happened."""
        with self._mutex:
            return self._cut is None

    def plan(self, cut: Cut | None) -> None:
        """Count from here on, and cut once where asked. A connection that was cut before has ended then."""
        self._ended.wait(_END_SECONDS_MAX)
        with self._mutex:
            self._cut, self._seen, self._exchanges, self._refusing = cut, 0, 0, False

    def __enter__(self) -> "Proxy":
        self._spawn(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        # Closing alone does not wake a thread that waits for a client.
        _end(self._listener)
        self._threads[0].join()  # from here on there are no more connections
        with self._mutex:
            connections = list(self._connections)
        for connection in connections:
            _end(connection)
        for thread in self._threads:
            thread.join()

    # -- passing on --------------------------------------------------------------------------------

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = self._connect()
            except OSError:
                _end(client)  # the server is down, so the client reaches nobody
                continue
            for end in (client, server):
                if end.family != socket.AF_UNIX:
                    # Messages are passed on one by one; none waits for another.
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._mutex:
                self._connections |= {client, server}
            self._spawn(partial(self._pump, client, server, _client_messages(client)))
            self._spawn(partial(self._pump, server, client, _messages(server, bytearray())))

    def _connect(self) -> socket.socket:
        with self._mutex:
            if self._refusing:
                raise ConnectionRefusedError
        if isinstance(self._upstream, tuple):
            return socket.create_connection(self._upstream)
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self._upstream)
        except OSError:
            server.close()
            raise
        return server

    def _pump(self, source: socket.socket, sink: socket.socket, messages: Iterator[bytes]) -> None:
        ends = False
        try:
            for message in messages:
                ends, arrives = (False, True) if message == _FAREWELL else self._judge(message)
                if arrives:
                    sink.sendall(message)
                if ends:
                    return
        except OSError:
            return  # one of the two is gone, or the other direction was cut
        finally:
            _end(source)
            _end(sink)
            if ends:
                self._ended.set()
            with self._mutex:
                self._connections -= {source, sink}

    def _judge(self, message: bytes) -> tuple[bool, bool]:
        """Return whether the connection ends with this message, and whether the message arrives."""
        with self._mutex:
            self._seen += 1
            self._exchanges += message.startswith(_READY)
            if self._cut is None or self._seen != self._cut.message:
                return False, True
            self._ended.clear()
            cut, self._cut = self._cut, None
            self._refusing = cut.refusing
            return True, cut.delivered

    def _spawn(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, daemon=True)
        self._threads.append(thread)
        thread.start()


def _client_messages(client: socket.socket) -> Iterator[bytes]:
    """Yield the messages of a client, without its questions about encryption."""
    pending = bytearray()
    first = _message(client, pending, head=0)
    while first in _ENCRYPTIONS:
        client.sendall(_NO)
        first = _message(client, pending, head=0)
    if first is not None:
        yield first
        yield from _messages(client, pending)


def _messages(source: socket.socket, pending: bytearray) -> Iterator[bytes]:
    """Yield whole messages as they come."""
    while (message := _message(source, pending, head=_TYPE_BYTES)) is not None:
        yield message


def _message(source: socket.socket, pending: bytearray, *, head: int) -> bytes | None:
    """Return the next message, whose length stands after `head` bytes; None when the source has ended."""
    while True:
        if len(pending) >= head + _LENGTH_BYTES:
            size = head + int.from_bytes(pending[head : head + _LENGTH_BYTES], "big")
            if len(pending) >= size:
                message = bytes(pending[:size])
                del pending[:size]
                return message
        chunk = source.recv(CHUNK_BYTES)
        if not chunk:
            return None
        pending += chunk


def _end(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it has ended already
    connection.close()

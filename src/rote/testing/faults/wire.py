"""A wire that can be cut: stands between a client and a PostgreSQL server and counts messages.

Frontend and backend messages are a letter, a length and a body; only the first one of a connection
has no letter. https://www.postgresql.org/docs/current/protocol-message-formats.html
"""

import socket
import threading
from contextlib import suppress
from struct import unpack

_SILENCE_SECONDS_MAX = 60


class Wire:
    """Listens on a port of 127.0.0.1 and passes everything on to another."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._left: int | None = None  # messages until the cut; None: never
        self._swallows = False
        self._mutex = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cuts = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def cut_at(self, message: int, *, swallow: bool) -> None:
        """Cut everything at the message of that number from now on, in either direction; it still
        arrives unless the wire swallows it."""
        with self._mutex:
            self._left, self._swallows = message, swallow

    def mend(self) -> None:
        with self._mutex:
            self._left = None

    def close(self) -> None:
        self._listener.close()
        self._cut()

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            server = socket.create_connection(("127.0.0.1", self._server_port))
            for end in (client, server):
                end.settimeout(_SILENCE_SECONDS_MAX)
                # Messages are small, and each is passed on by itself.
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._mutex:
                self._pairs.append((client, server))
            for source, target, has_start in ((client, server, True), (server, client, False)):
                thread = threading.Thread(
                    target=self._pass_on, args=(source, target, has_start), daemon=True
                )
                thread.start()

    def _pass_on(self, source: socket.socket, target: socket.socket, has_start: bool) -> None:
        with suppress(OSError):
            while message := _next_message(source, has_letter=not has_start):
                has_start = False
                if self._is_last():
                    if not self._swallows:
                        target.sendall(message)
                    self._cut()
                    return
                target.sendall(message)
        for end in (source, target):
            end.close()

    def _is_last(self) -> bool:
        with self._mutex:
            if self._left is None:
                return False
            self._left -= 1
            if self._left > 0:
                return False
            self._left = None
            self.cuts += 1
            return True

    def _cut(self) -> None:
        with self._mutex:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                # A socket that another thread reads from must be shut down to wake it.
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()


def _next_message(source: socket.socket, *, has_letter: bool) -> bytes:
    """A whole message; empty at the end."""
    letter = _read(source, 1) if has_letter else b""
    size = _read(source, 4)
    if len(size) < 4:
        return b""
    return letter + size + _read(source, unpack(">I", size)[0] - 4)


def _read(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = source.recv(size - len(data))
        if not more:
            return b""
        data += more
    return data

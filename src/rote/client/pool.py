"""Connections to a server: made when they are needed, kept for the next call, looked at before reuse."""

import os
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from rote.client.address import Address
from rote.errors import Unavailable
from rote.values.client_limits import CONNECT_SECONDS_MAX

Now = Callable[[], float]  # seconds by a clock that only goes forward


class Pool:
    """The connections of one store. Any thread may ask; lists and sets change by single steps."""

    def __init__(self, address: Address, *, now: Now, tls: ssl.SSLContext | None = None) -> None:
        self.address = address
        self.now = now
        self._tls = tls
        self._idle: deque[socket.socket] = deque()
        self._busy: set[socket.socket] = set()
        self._process = os.getpid()
        self.is_closed = False

    @property
    def is_ours(self) -> bool:
        """Whether this process has made the connections, and no fork of it."""
        return self._process == os.getpid()

    def check_usable(self) -> None:
        if not self.is_ours:
            raise Unavailable("the store was opened before a fork; open it again in this process")
        if self.is_closed:
            raise Unavailable("the store is closed; open it again")

    def take(self, deadline: float) -> socket.socket:
        """Return a connection for one request; OSError when none can be made in time."""
        self.check_usable()
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self.connect(deadline)
                break
            if _is_quiet(connection):
                break
            connection.close()
        self._busy.add(connection)
        if self.is_closed:  # since we looked
            self.drop(connection)
            self.check_usable()
        return connection

    def give_back(self, connection: socket.socket) -> None:
        """Keep a connection whose answer has come whole."""
        self._busy.discard(connection)
        self._idle.append(connection)
        if self.is_closed:
            self.close()

    def drop(self, connection: socket.socket) -> None:
        self._busy.discard(connection)
        connection.close()

    @contextmanager
    def holding(self, connection: socket.socket) -> Iterator[None]:
        """Let the end of the pool end the waits of a connection that is made for a line."""
        self._busy.add(connection)
        try:
            self.check_usable()
            yield
        finally:
            self._busy.discard(connection)

    def close(self) -> None:
        """Close what is idle, and end the waits of all others."""
        self.is_closed = True
        if not self.is_ours:
            return  # the parent goes on with them
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().close()
        for connection in tuple(self._busy):
            with suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def connect(self, deadline: float) -> socket.socket:
        place = self.address.host, self.address.port
        seconds = min(CONNECT_SECONDS_MAX, deadline - self.now())
        if seconds <= 0:
            raise TimeoutError("the time is over")
        made = socket.create_connection(place, seconds)
        try:
            # A request is one write, so that nothing is won by waiting for more to send.
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is None:
                return made
            return self._tls.wrap_socket(made, server_hostname=self.address.host)
        except BaseException:
            made.close()
            raise


def _is_quiet(connection: socket.socket) -> bool:
    """Whether an idle connection is open; nothing is expected on it, so whatever came ends it."""
    try:
        connection.settimeout(0)
        if isinstance(connection, ssl.SSLSocket):
            connection.recv(1)
        else:
            connection.recv(1, socket.MSG_PEEK)
    except (BlockingIOError, ssl.SSLWantReadError):
        return True
    except (OSError, ValueError):
        return False
    return False

"""Pings on `/v1/sync`: they take no room, whoever sends them and whether or not their answers are read."""

import base64
import socket
import threading
from contextlib import suppress
from typing import Any

from rote.server.sync.socket import GuardedSocket
from tests.served import Served, served
from tests.syncs import SyncLine

PING = b"\x89\xfd" + bytes(4) + bytes(125)  # masked by zeros
KEY = base64.b64encode(bytes(16)).decode()
FLOOD = [PING * 1_000] * 400


def handshake(server: Served) -> socket.socket:
    """Return a connection on which nobody reads."""
    bound = server.wire.socket.getpeername()
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    made.settimeout(30)
    made.connect(bound)
    made.sendall(
        f"GET /v1/sync HTTP/1.1\r\nhost: {server.wire.host}\r\nconnection: upgrade\r\n"
        "upgrade: websocket\r\nsec-websocket-version: 13\r\n"
        f"sec-websocket-key: {KEY}\r\n\r\n".encode()
    )
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += made.recv(1)
    return made


def sockets(server: Served) -> list[Any]:
    found = tuple(server.server.server_state.connections)
    return [each for each in found if isinstance(each, GuardedSocket)]


def test_pings_of_a_session_that_says_nothing_are_not_held() -> None:
    """Each of them counted as a part of a message that had not come whole. So clients that only watched,
    or one that nobody knew, took the room of all others bit by bit."""
    with served() as server, SyncLine(server.server.url, ping_interval=None) as line:
        line.open(server.space.name, server.server.token)
        for number in range(100):
            pong = line.socket.ping(b"%0125d" % number)
        assert pong.wait(30)
        assert server.server.app.buffered.size_bytes == 0


def test_who_sends_pings_and_takes_no_byte_is_cut_and_fills_nothing() -> None:
    """Each answer to a ping looked as if the client had taken bytes, and waited for it for ever."""
    with served(write_seconds=0.3, buffered_bytes=2**40) as server, handshake(server) as made:
        most = 0

        def flood() -> None:
            with suppress(OSError):
                for pings in FLOOD:
                    made.sendall(pings)

        flooding = threading.Thread(target=flood)
        flooding.start()
        while sockets(server):
            for each in sockets(server):
                most = max(most, each.transport.get_write_buffer_size())
            server.wire.ask("GET", "/health")
        flooding.join()
        assert most < 2**20

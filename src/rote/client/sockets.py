"""Sockets: connections to `/v1/sync`, from the address to an open session."""

import logging
import os
import socket
import struct
from contextlib import AbstractContextManager

from msgspec import structs
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as connect_websocket

from rote.client.calls import Calls
from rote.contract import sync as wire
from rote.values.client_limits import CONNECT_SECONDS_MAX, LINE_CLOSE_SECONDS
from rote.values.limits import MESSAGE_BYTES_MAX
from rote.values.sync_limits import SYNC_PING_SECONDS, SYNC_PONG_SECONDS

# The server has not understood this client, which will not speak otherwise the next time.
NEVER_AGAIN = (
    wire.BINARY, wire.NOT_UTF8, wire.TOO_LARGE, wire.UNANSWERABLE, wire.NO_COMMON_PROTOCOL,
)  # fmt: skip
OPENING_IDS = 2  # ids that hello and session.open have
# Callers get what breaks a connection as an error. The websockets library would also print a stack when
# one breaks in both directions at once.
_SILENT = logging.Logger("rote.sockets", logging.CRITICAL + 1)


def connect(calls: Calls) -> AbstractContextManager[ClientConnection]:
    """Return a connection, which the end of its block closes.

    WebSocketException, OSError or EOFError when there is none.
    """
    pool = calls.pool
    made = pool.connect(calls.now() + CONNECT_SECONDS_MAX)
    made.settimeout(None)
    _bound_sends(made, min(calls.seconds, SYNC_PONG_SECONDS))
    try:
        with pool.holding(made):
            return connect_websocket(
                f"ws://{pool.address.named}/v1/sync",
                sock=made,
                compression=None,
                open_timeout=CONNECT_SECONDS_MAX,
                close_timeout=LINE_CLOSE_SECONDS,
                ping_interval=SYNC_PING_SECONDS,
                ping_timeout=SYNC_PONG_SECONDS,
                max_size=MESSAGE_BYTES_MAX,
                proxy=None,
                user_agent_header=None,
                logger=_SILENT,
            )
    except BaseException:
        made.close()
        raise


def _bound_sends(made: socket.socket, seconds: float) -> None:
    """Let a send fail when the other side takes no byte for some seconds.

    Who sends holds what pings and the end of the connection wait for.
    """
    if os.name == "posix":
        whole = int(seconds)
        time = struct.pack("ll", whole, int((seconds - whole) * 1_000_000))
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, time)


def open_session(
    calls: Calls, connection: ClientConnection, opening: wire.OpenSession, bearer: str | None
) -> tuple[wire.Welcome, wire.Opened]:
    """Say hello and open a session; raise what the server says of either."""
    with calls.pool.holding(connection.socket):
        welcome = _exchange(connection, wire.Hello(wire.PROTOCOL), 1)
        auth = None if bearer is None else {"token": bearer}
        answer = _exchange(connection, structs.replace(opening, auth=auth), 2)
    return wire.decode_ok(welcome, wire.Welcome), wire.decode_ok(answer, wire.Opened)


def _exchange(connection: ClientConnection, request: wire.Request, id: int) -> bytes:
    connection.send(wire.encode_request(request, id), text=True)
    message = wire.decode_from_server(connection.recv(timeout=CONNECT_SECONDS_MAX, decode=False))
    if not isinstance(message, wire.Answer) or message.id != id:
        raise wire.unreadable("it answers something else than it was asked")
    if message.error is not None:
        raise wire.failure_of(message)
    return bytes(message.ok)


def code_of(lost: Exception) -> int | None:
    """Return the code with which the server has closed; None when it has not."""
    return lost.rcvd.code if isinstance(lost, ConnectionClosed) and lost.rcvd is not None else None

"""The guard of a WebSocket: bounds in size and time around uvicorn's protocol.

uvicorn answers pings, puts fragments together and refuses what is no WebSocket. It holds any number of
fragments, and does not look whether a client takes what it is sent. The names of the methods are
uvicorn's.
"""

from collections.abc import Callable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from rote.contract.sync import TOO_SLOW, TRY_LATER
from rote.errors import Unavailable
from rote.server.accounts import Buffered
from rote.server.settings import Limits
from rote.values.sync_limits import SYNC_CLOSE_SECONDS, SYNC_FIRST_BYTES_MAX

STOPPING = "rote.stopping"  # the type of the message that tells the application to end


class GuardedSocket(WebSocketsSansIOProtocol):
    """One connection. `guarded_socket` makes the class for the limits of a server."""

    limits: Limits
    buffered: Callable[[], Buffered]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        # Until it is known who they are from, messages are short.
        self.conn.max_message_size = SYNC_FIRST_BYTES_MAX
        self.close_timeout = SYNC_CLOSE_SECONDS
        self._held_bytes = 0  # of a message that has not come whole
        self._stalled: tuple[int, float] | None = None  # bytes that wait to be written, since when
        self._pong = b""  # waits until the client takes bytes

    def take_large_messages(self) -> None:
        self.conn.max_message_size = self.config.ws_max_size

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if self.response.status_code == 101:
            self.scope["extensions"]["rote"] = {"socket": self}

    # -- reading ---------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self.close_sent or self.transport.is_closing():
            super().data_received(data)  # only the other side's close is still of interest
            return
        try:
            self.buffered().hold(len(data))
        except Unavailable:
            self._fail(TRY_LATER, "the server holds too much already")
            return
        self._held_bytes += len(data)
        super().data_received(data)
        # What was no message, like a ping, is not held any more.
        self._release(left=len(self.conn.reader.buffer) + sum(map(len, self.frames)))

    def handle_text(self, event: Frame) -> None:
        super().handle_text(_copied(event))

    def handle_bytes(self, event: Frame) -> None:
        super().handle_bytes(_copied(event))

    def handle_cont(self, event: Frame) -> None:
        # A list of a million fragments would take much more room than their bytes.
        self.frames[0] += event.data
        if event.fin:
            self.send_receive_event_to_app()

    def send_receive_event_to_app(self) -> None:
        self._release()
        super().send_receive_event_to_app()

    def connection_lost(self, exc: Exception | None) -> None:
        self._release()
        super().connection_lost(exc)

    def _release(self, *, left: int = 0) -> None:
        """Release the bytes that were held, but for those that are left."""
        released = max(self._held_bytes - left, 0)
        self._held_bytes -= released
        self.buffered().release(released)

    # -- pongs -----------------------------------------------------------------------------------------

    def handle_ping(self) -> None:
        # The newest pong answers all pings (RFC 6455, 5.5.3): a client that sends pings and takes nothing
        # makes no others wait for it.
        if self.writable.is_set() or self.conn.close_rcvd is not None:
            super().handle_ping()
        elif pongs := self.conn.data_to_send():
            self._pong = pongs[-1]

    def resume_writing(self) -> None:
        super().resume_writing()
        pong, self._pong = self._pong, b""
        if pong and not self.transport.is_closing():
            self.transport.write(pong)

    # -- ending ----------------------------------------------------------------------------------------

    def keepalive_timeout(self) -> None:
        self.pong_timer = None
        if self.read_paused and self.ping_timeout is not None:
            # Its pong may wait among what is not read.
            self.pong_timer = self.loop.call_later(self.ping_timeout, self.keepalive_timeout)
        elif not self.close_sent and not self.transport.is_closing():
            self._fail(TOO_SLOW, "no pong")

    def _fail(self, code: int, reason: str) -> None:
        self.conn.fail(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.transport.close()

    def look(self, now: float) -> None:
        """Cut the connection when its client takes nothing. Called several times a second."""
        waiting = self.transport.get_write_buffer_size()
        if not waiting:
            self._stalled = None
        elif self._stalled is None or self._stalled[0] != waiting:
            self._stalled = (waiting, now)
        elif now - self._stalled[1] > self.limits.write_seconds:
            self.transport.abort()

    def shutdown(self) -> None:
        """Let the application say its closing word."""
        said: Any = {"type": STOPPING}
        self.queue.put_nowait(said)


def guarded_socket(limits: Limits, buffered: Callable[[], Buffered]) -> type[GuardedSocket]:
    """Return the protocol of a server: uvicorn makes its objects itself."""
    members = {"limits": limits, "buffered": staticmethod(buffered)}
    return type("GuardedSocketOfServer", (GuardedSocket,), members)


def _copied(event: Frame) -> Frame:
    """Return a frame whose bytes can grow by those of the next ones."""
    return event if event.fin else Frame(event.opcode, bytearray(event.data), fin=False)

"""The guard of a connection: bounds in size and time around uvicorn's parser of HTTP.

uvicorn refuses malformed requests, but takes heads of any size, waits for them for ever, and answers
in plain text. The names of the methods are uvicorn's and the parser's.
"""

import asyncio
from collections.abc import Callable

from msgspec import Struct
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from rote.errors import InvalidInput, RoteError, Unavailable
from rote.opening.sources import SystemIds
from rote.server.messages import Response
from rote.server.settings import Limits
from rote.server.statuses import EVERY_ANSWER, NOT_CACHED, error_response
from rote.values.server_limits import SERVER_LAST_REQUEST_SECONDS

# Bytes of a header besides its name and value: a colon, a space, the end of the line.
_HEADER_BYTES_MORE = 4


class Refusal(Struct, frozen=True):
    """A request that was refused before the application saw it."""

    request_id: str
    peer: str
    status: int
    code: str


class GuardedProtocol(HttpToolsProtocol):
    """One connection. `guarded` makes the class for the limits of a server."""

    limits: Limits
    refused: Callable[[Refusal], None]  # takes note of a refusal

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._refusal: RoteError | None = None  # once it is set, later data is ignored
        self._late: bytes | None = None  # a refusal that waits for the answers before it
        self._head_bytes = 0  # of the head that is being received
        self._is_in_head = False  # whether some, but not all of a head has come
        self._has_ended = False  # whether a request has ended in the data at hand
        self._since = self.loop.time()  # of the head that comes, or of the last answer
        self._stalled: tuple[int, float] | None = None  # bytes that wait to be written, since when
        self._stopping_since: float | None = None
        if len(self.connections) > self.limits.connections:
            self._refuse(Unavailable("too many connections; try again", code="overloaded"))

    # -- reading ---------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None or self.transport.is_closing():
            return
        self._has_ended = False
        super().data_received(data)
        if self._is_in_head and self._refusal is None:
            # Unless a request has ended in this data, all of it belongs to the head.
            self._head_bytes += 1 if self._has_ended else len(data)
            if self._head_bytes > self.limits.head_bytes:
                self._refuse(_too_long())

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True
        self._since = self.loop.time()
        self._counted = 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self.limits.uri_bytes:
            raise self._noted(InvalidInput("the address is too long", code="uri"))

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_in_head:
            # Nothing that comes behind a body may count as a part of its head.
            raise self._noted(InvalidInput("malformed HTTP: a body has trailers"))
        super().on_header(name, value)
        self._counted += len(name) + len(value) + _HEADER_BYTES_MORE
        if len(self.headers) > self.limits.headers:
            raise self._noted(InvalidInput("the request has too many headers", code="headers"))
        if self._counted > self.limits.head_bytes:
            raise self._noted(_too_long())

    def on_headers_complete(self) -> None:
        fault = _fault(self.parser.get_http_version(), self.url, self.headers)
        if self.parser.should_upgrade() and _has_body(self.headers):
            fault = "a request with a body asks for another protocol"
        is_leaving = self.parser.should_upgrade() and self._should_upgrade()
        if is_leaving and (not self._is_answered or self.pipeline):
            # Who would tell the requests before that the client has gone?
            fault = "wait for the answers before another protocol begins"
        if fault is not None:
            raise self._noted(InvalidInput(f"malformed HTTP: {fault}"))
        self._is_in_head = False
        self._head_bytes = 0
        super().on_headers_complete()
        if is_leaving:
            return
        if self._stopping_since is not None:
            self.cycle.keep_alive = False
        # The application asks it whether the body has come.
        self.scope["extensions"] = {"rote": {"cycle": self.cycle}}

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._has_ended = True

    def _noted(self, error: RoteError) -> RoteError:
        self._refusal = error
        return error

    def _should_upgrade(self) -> bool:
        return self.parser.get_method() == b"GET" and super()._should_upgrade()

    def _unsupported_upgrade_warning(self) -> None:
        # What follows is in another protocol.
        self.cycle.keep_alive = False

    # -- refusing --------------------------------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._refusal or InvalidInput("malformed HTTP: it cannot be parsed"))

    def _refuse(self, error: RoteError) -> None:
        """Answer that the request is refused, after the answers to those before it, and close."""
        self._refusal = error
        response, request_id = error_response(error), SystemIds().random_bytes(8).hex()
        peer = self.client[0] if self.client else ""
        self.refused(Refusal(request_id, peer, response.status, error.code))
        answer = _bytes_of(response, request_id)
        cycle = self.cycle
        if self._is_answered:
            self._end(answer)
        elif cycle.more_body and not cycle.response_started and not self.pipeline:
            cycle.disconnected = True
            cycle.message_event.set()
            self._end(answer)
        elif cycle.more_body and not self.pipeline:
            cycle.keep_alive = False
        else:
            self._late = answer

    def _end(self, answer: bytes) -> None:
        self.transport.write(answer)
        self.transport.close()

    def on_response_complete(self) -> None:
        self._since = self.loop.time()
        super().on_response_complete()
        if self._late is not None and self.cycle.response_complete and not self.pipeline:
            self._end(self._late)

    # -- time ------------------------------------------------------------------------------------------

    def look(self, now: float) -> None:
        """End the connection when its time is over. Called several times a second."""
        if self._is_stalled(now):
            self.transport.abort()
            return
        if self._refusal is not None or not self._is_answered:
            return
        seconds, limits = now - self._since, self.limits
        if self._is_in_head:
            if seconds > limits.head_seconds:
                self._refuse(Unavailable("the head of the request came too slowly", code="timeout"))
        elif self._stopping_since is not None:
            if now - self._stopping_since > SERVER_LAST_REQUEST_SECONDS:
                self.transport.close()
        elif seconds > (limits.head_seconds if self._last is None else limits.idle_seconds):
            self.transport.close()

    @property
    def _is_answered(self) -> bool:
        """Whether every request that has come was answered."""
        return self._last is None or self._last.response_complete

    @property
    def _last(self) -> RequestResponseCycle | None:
        """The newest request; uvicorn declares that there always is one."""
        return self.cycle

    def _is_stalled(self, now: float) -> bool:
        """Whether the client has taken no byte of what waits for it for too long."""
        waiting = self.transport.get_write_buffer_size()
        if not waiting:
            self._stalled = None
        elif self._stalled is None or self._stalled[0] != waiting:
            self._stalled = (waiting, now)
        return self._stalled is not None and now - self._stalled[1] > self.limits.write_seconds

    def shutdown(self) -> None:
        """Let the request that has begun be answered, or one that is on its way; then close."""
        self._stopping_since = self.loop.time()
        if self._last is not None:
            self._last.keep_alive = False


def guarded(limits: Limits, refused: Callable[[Refusal], None]) -> type[GuardedProtocol]:
    """Return the protocol of a server: uvicorn makes its objects itself."""
    return type("Guarded", (GuardedProtocol,), {"limits": limits, "refused": staticmethod(refused)})


def _too_long() -> InvalidInput:
    return InvalidInput("the head of the request is too long", code="headers")


def _fault(version: str, url: bytes, headers: list[tuple[bytes, bytes]]) -> str | None:
    """Return what is wrong with a head that the parser has taken."""
    names = [name for name, _ in headers]
    if version not in ("1.0", "1.1"):
        return "the version is not 1.1"
    if not url.startswith(b"/") or b"#" in url:
        return "the target is not a path"
    if names.count(b"host") != 1:
        return "send the header host once"
    if names.count(b"content-length") + names.count(b"transfer-encoding") > 1:
        return "send one length"
    for name, value in headers:
        if name == b"transfer-encoding" and value.lower() != b"chunked":
            return "the transfer coding is not chunked"
    return None


def _has_body(headers: list[tuple[bytes, bytes]]) -> bool:
    lengths = (b"content-length", b"transfer-encoding")
    return any(name in lengths and value != b"0" for name, value in headers)


def _bytes_of(response: Response, request_id: str) -> bytes:
    assert isinstance(response.body, bytes)
    headers = (
        *response.headers,
        *EVERY_ANSWER,
        NOT_CACHED,
        (b"rote-request", request_id.encode()),
        (b"content-length", b"%d" % len(response.body)),
        (b"connection", b"close"),
    )
    lines = [b"%b: %b\r\n" % pair for pair in headers]
    return b"".join([STATUS_LINE[response.status], *lines, b"\r\n", response.body])

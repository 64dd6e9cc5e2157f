"""Answers of HTTP, as they come from a socket.

httptools parses them where it is installed, and the standard library does where it is not.
"""

import http.client
import socket
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from msgspec import Struct

from rote.errors import InvalidInput, RoteError, Unavailable
from rote.values import decode
from rote.values.client_limits import HEAD_BYTES_MAX, RECEIVED_BYTES
from rote.values.limits import MESSAGE_BYTES_MAX

try:
    import httptools
except ImportError:  # no wheel for this machine
    httptools = None  # type: ignore[assignment]

T = TypeVar("T")
Take = Callable[[bytes], None]  # takes the next bytes of a body
Before = Callable[[], None]  # called before each wait for the socket; says how long it may be


class Broken(Exception):
    """The answer ended before its end, or is none of HTTP."""


class Silent(Broken):
    """The server has closed the connection without a byte."""

    def __init__(self) -> None:
        super().__init__("the server closed the connection without an answer")


class Reply(Struct):
    """An answer."""

    status: int
    headers: dict[bytes, bytes]  # names in lower case
    body: bytes  # empty where another took it
    is_kept: bool  # whether the connection takes another request
    details: Mapping[str, Any] = {}  # of the error when it cannot be read

    @property
    def members(self) -> dict[str, Any]:
        """The JSON object in its body."""
        try:
            return members_of(self.body)
        except RoteError as error:
            raise self.unreadable(error) from None

    def member(self, name: str, kind: type[T]) -> T:
        """Return a member of the JSON object in its body."""
        found = self.members.get(name)
        if type(found) is not kind:
            raise self.unreadable(f"it has no {name}")
        return found

    def unreadable(self, why: object) -> Unavailable:
        return Unavailable(f"the server's answer cannot be read: {why}", **self.details)

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300

    def number(self, name: bytes) -> int | None:
        """Return the whole number that a header says; None without one."""
        text = self.headers.get(name, b"")
        return int(text) if text.isdigit() and len(text) < 20 else None


def members_of(body: bytes) -> dict[str, Any]:
    members = decode(body, size_bytes_max=MESSAGE_BYTES_MAX)
    if type(members) is not dict:
        raise InvalidInput("it is no JSON object")
    return members


def read_reply(connection: socket.socket, before: Before, take: Take | None = None) -> Reply:
    """Return the next answer on a connection; `take` gets the body of a good one as it comes."""
    if httptools is None:
        return _read_by_library(connection, before, take)
    return _Parsed(take).read(connection, before)


class _Parsed:
    """One answer; httptools calls its methods."""

    def __init__(self, take: Take | None) -> None:
        self._parser: Any = httptools.HttpResponseParser(self)
        self._take = take
        self._parts: list[bytes] = []
        self._size = 0
        self._headers: dict[bytes, bytes] = {}
        self._head_bytes = 0  # until it is whole
        self._is_done = self._is_kept = self._has_head = False

    def read(self, connection: socket.socket, before: Before) -> Reply:
        feed, receive = self._parser.feed_data, connection.recv
        while not self._is_done:
            before()
            data = receive(RECEIVED_BYTES)
            if not data:
                if not self._has_head and not self._head_bytes:
                    raise Silent
                raise Broken("the server closed the connection before the end of its answer")
            try:
                feed(data)
            except httptools.HttpParserUpgrade:
                raise Broken("the server goes on in another protocol") from None
            except httptools.HttpParserError as error:
                cause = error.__context__
                if isinstance(error, httptools.HttpParserCallbackError) and cause is not None:
                    raise cause from None
                raise Broken(f"what came is no answer of HTTP: {error}") from None
            if not self._has_head:
                self._head_bytes += len(data)
                if self._head_bytes > HEAD_BYTES_MAX:
                    raise Broken(f"the head of an answer has more than {HEAD_BYTES_MAX:,} bytes")
        return Reply(
            self._parser.get_status_code(),
            self._headers,
            self._parts[0] if len(self._parts) == 1 else b"".join(self._parts),
            self._is_kept,
        )

    # -- called by the parser --------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._is_done:
            raise Broken("more than one answer came")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self._has_head = True

    def on_body(self, data: bytes) -> None:
        if self._take is not None and self._parser.get_status_code() < 300:
            self._take(data)
            return
        self._size += len(data)
        _check_size(self._size)
        self._parts.append(data)

    def on_message_complete(self) -> None:
        if _is_announcement(self._parser.get_status_code()):
            self._headers, self._has_head = {}, False
            return
        self._is_done, self._is_kept = True, self._parser.should_keep_alive()


def _is_announcement(status: int) -> bool:
    """Whether another answer follows (RFC 9110, section 15.2)."""
    return 100 <= status < 200 and status != http.client.SWITCHING_PROTOCOLS


def _check_size(size: int) -> None:
    if size > MESSAGE_BYTES_MAX:
        raise Broken(f"an answer has more than {MESSAGE_BYTES_MAX:,} bytes")


def _read_by_library(connection: socket.socket, before: Before, take: Take | None) -> Reply:
    response = http.client.HTTPResponse(connection)
    try:
        before()
        response.begin()
        while _is_announcement(response.status):
            before()
            response.headers = None  # type: ignore[assignment]  # else it does not read on
            response.begin()
        if response.status == http.client.SWITCHING_PROTOCOLS:
            raise Broken("the server goes on in another protocol")
        if response.length is None and not response.chunked:
            # Or its head was cut: the library takes that for the end of the head.
            raise Broken("an answer does not say where it ends")
        headers = {
            name.lower().encode("latin-1"): value.encode("latin-1")
            for name, value in response.getheaders()
        }
        parts: list[bytes] = []
        size = 0
        while True:
            before()
            data = response.read1(RECEIVED_BYTES)
            if not data:
                break
            if take is not None and response.status < 300:
                take(data)
                continue
            size += len(data)
            _check_size(size)
            parts.append(data)
        if response.length:
            raise Broken("the server closed the connection before the end of its answer")
        return Reply(response.status, headers, b"".join(parts), not response.will_close)
    except http.client.RemoteDisconnected:
        raise Silent from None
    except http.client.HTTPException as error:
        raise Broken(f"what came is no answer of HTTP: {error}") from None
    finally:
        response.close()

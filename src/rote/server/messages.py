"""Requests and responses, as routes and authentication see them: plain data, no sockets."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Protocol

from msgspec import Struct

from rote.access.principals import Principal
from rote.errors import InvalidInput

Headers = tuple[tuple[bytes, bytes], ...]


class Head(Struct, frozen=True):
    """The head of a request."""

    method: str
    path: bytes  # as it stands in the request line
    query: bytes  # likewise, without the question mark
    headers: Headers  # names in lower case, in the order they came
    peer: str | None = None  # the address it comes from

    def all(self, name: bytes) -> list[bytes]:
        """Return every value of a header."""
        return [value for each, value in self.headers if each == name]

    def one(self, name: bytes) -> bytes | None:
        """Return the value of a header, None without it; InvalidInput when it is sent twice."""
        values = self.all(name)
        if len(values) > 1:
            raise InvalidInput(f"send the header {name.decode('latin-1')} once")
        return values[0] if values else None


class Pause(Struct, frozen=True):
    """A piece of a streamed body that is not there yet: wait for it, without a thread.

    The stream goes on when `until` is done or the seconds are over, whichever comes first.
    """

    seconds: float
    until: "Future[Any] | None" = None


Pieces = Iterator[bytes | Pause]


class Response(Struct, frozen=True):
    """An answer to a request. Pieces of a streamed body are made one at a time, on the pool."""

    status: int
    headers: Headers = ()
    body: bytes | Pieces = b""


class Upload(Protocol):
    """A body that is taken in pieces. Every call is made on the pool, one after the other."""

    def take(self, piece: bytes) -> None: ...

    def finish(self) -> Response:
        """Return the answer, once the whole body has come."""
        ...

    def drop(self) -> None:
        """Leave nothing behind: the body was cut, or refused."""
        ...


class Http(Struct, frozen=True):
    """A request that was let in, with what a route needs to answer it."""

    head: Head
    principal: Principal
    service: Any  # the Service of server/answering.py
    names: Mapping[str, str]  # parts of the path, decoded
    body: bytes = b""

"""Requests and responses, as routes and authentication see them: plain data, no sockets."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Protocol

from msgspec import Struct

from rote.access.principals import Principal
from rote.contract import Tell
from rote.errors import InvalidInput

Headers = tuple[tuple[bytes, bytes], ...]
# Asks on routes that are open to everybody.
NOBODY = Principal("nobody", None)


class Head(Struct, frozen=True, dict=True):
    """The head of a request."""

    method: str
    path: bytes  # as it stands in the request line
    query: bytes  # likewise, without the question mark
    headers: Headers  # names in lower case, in the order they came
    peer: str | None = None  # the address it comes from

    @cached_property
    def _values(self) -> dict[bytes, list[bytes]]:
        """The values of each header: a request is asked for a dozen of them."""
        values: dict[bytes, list[bytes]] = {}
        for name, value in self.headers:
            values.setdefault(name, []).append(value)
        return values

    def all(self, name: bytes) -> Sequence[bytes]:
        """Return every value of a header."""
        return self._values.get(name, ())

    def one(self, name: bytes) -> bytes | None:
        """Return the value of a header, None without it; InvalidInput when it is sent twice."""
        values = self.all(name)
        if len(values) > 1:
            raise InvalidInput(f"send the header {name.decode('latin-1')} once")
        return values[0] if values else None


# A body that is sent in pieces: made on the pool, one at a time, or by the event loop without a thread.
Pieces = Iterator[bytes] | AsyncIterator[bytes]


class Once(Struct, frozen=True):
    """The key and the attempt of a write, where its arguments do not name them."""

    key: str | None = None
    attempt: str | None = None


class Seen:
    """Facts about the space of a request, once its principal was let in; the answer tells them."""

    space: str | None = None  # the did
    version: int | None = None  # the answer was made at this head, or later
    erased: int = 0  # the version of the newest erasure; 0 without one
    # What became of the commit that was asked for; None while there is none.
    outcome: Literal["committed", "replayed"] | None = None


class Response(Struct, frozen=True):
    """An answer to a request."""

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
    seen: Seen
    body: bytes = b""
    tell: Tell | None = None  # takes the progress of long work, where the client asks for it

    @property
    def space(self) -> str:
        """The name or did in the path; empty where there is none."""
        return self.names.get("space", "")

    def accepts(self, media_type: bytes) -> bool:
        """Whether the client asks for an answer of this type."""
        return any(media_type in value for value in self.head.all(b"accept"))

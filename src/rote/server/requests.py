"""Heads of requests: what is read of them, and what is refused by them alone."""

import re
from typing import Any

from rote.access.tokens import find_secret
from rote.contract import IdSource
from rote.errors import InvalidInput, LimitExceeded
from rote.server.messages import Head, Headers, Once
from rote.server.origins import is_loopback
from rote.server.routes import Found
from rote.server.settings import Limits
from rote.values.server_limits import IDS_DRAWN_BYTES

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_BODILESS = ("GET", "HEAD", "DELETE")


class DrawnIds:
    """An IdSource for one thread that draws for many ids at once: each draw lets other threads in."""

    def __init__(self, ids: IdSource) -> None:
        self._ids = ids
        self._drawn = b""

    def random_bytes(self, size: int, /) -> bytes:
        if len(self._drawn) < size:
            self._drawn = self._ids.random_bytes(max(size, IDS_DRAWN_BYTES))
        taken, self._drawn = self._drawn[:size], self._drawn[size:]
        return taken


def head_of(scope: dict[str, Any], *, behind_proxy: bool) -> Head:
    """Return the head of a request from what uvicorn says of it."""
    headers: Headers = tuple(scope["headers"])
    client = scope["client"]
    peer: str | None = None if client is None else client[0]
    if behind_proxy and peer is not None and is_loopback(peer):
        told = [value for name, value in headers if name == b"x-forwarded-for"]
        if told:
            peer = told[-1].rpartition(b",")[2].strip().decode("latin-1")[:64]
    return Head(
        method=scope["method"],
        path=scope["raw_path"],
        query=scope["query_string"],
        headers=headers,
        peer=peer,
    )


def request_id(head: Head, ids: IdSource) -> bytes:
    """Return the client's name for a request, if it has a good one, or a new one."""
    given = head.all(b"x-request-id")
    # A token has the form of a good name, too, and this one is logged.
    if len(given) == 1 and _REQUEST_ID.fullmatch(given[0]) and not find_secret(given[0].decode()):
        return given[0]
    return ids.random_bytes(8).hex().encode()


def check_body_form(head: Head, found: Found, limits: Limits) -> int | None:
    """Check all that a head says of its body; return the size that it announces."""
    if any(value.strip().lower() != b"identity" for value in head.all(b"content-encoding")):
        raise InvalidInput("send the body as it is, without a coding", code="media_type")
    if any(value.lower() != b"100-continue" for value in head.all(b"expect")):
        raise InvalidInput("only 100-continue can be expected", code="expectation")
    announced = head.one(b"content-length")
    size = None if announced is None else int(announced)
    limit: int = getattr(limits, found.row.bound)
    if size is not None and size > limit:
        raise LimitExceeded("the body in bytes", size=size, limit=limit)
    if size == 0 or (size is None and not head.all(b"transfer-encoding")):
        return size
    if head.method in _BODILESS:
        raise InvalidInput("a request of this method has no body")
    types = found.route.types
    kind = (head.one(b"content-type") or b"").partition(b";")[0].strip().lower()
    if types and kind not in types:
        shown = " or ".join(each.decode() for each in types)
        raise InvalidInput(
            f"send the body with the header Content-Type: {shown}", code="media_type"
        )
    return size


def once_in(head: Head) -> Once:
    """Return what a head says to make a write happen once."""
    return Once(_text_of(head, b"idempotency-key"), _text_of(head, b"rote-attempt"))


def _text_of(head: Head, name: bytes) -> str | None:
    value = head.one(name)
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"the header {name.decode()} is not UTF-8") from None

"""Accounts: how much each principal, and all requests together, have under way.

A credential that was good is remembered with its principal, so that requests which still wait for a
thread are counted, too. That says nothing about whether it is good now.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import TypeVar

from rote.access.principals import Principal
from rote.errors import Unavailable
from rote.server.messages import Head
from rote.server.settings import Limits
from rote.values.server_limits import SERVER_PRINCIPALS_KEPT

_K = TypeVar("_K")
_V = TypeVar("_V")


class Accounts:
    """Counts requests by principal. Any thread may ask."""

    def __init__(self, limits: Limits, *, now: Callable[[], float]) -> None:
        self._limits = limits
        self._now = now
        self._mutex = threading.Lock()
        self._in_flight: dict[str, int] = {}
        # Requests that a principal may begin at once, and when that was computed.
        self._rooms: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._known: OrderedDict[bytes, Principal] = OrderedDict()

    def known(self, head: Head) -> Principal | None:
        """Return the principal whose credential a head carries, if it was good lately."""
        given = head.all(b"authorization")
        return self._known.get(_digest(given[0])) if given else None

    def remember(self, head: Head, principal: Principal) -> None:
        given = head.all(b"authorization")
        if given:
            with self._mutex:
                _put(self._known, _digest(given[0]), principal)

    def begin(self, principal: Principal) -> None:
        """Count a request; Unavailable with the code `too_many_requests` when there are too many."""
        if principal.is_operator:
            return
        with self._mutex:
            in_flight = self._in_flight.get(principal.name, 0)
            if in_flight >= self._limits.principal_in_flight:
                raise _too_many("you have too many requests under way; wait for some of them")
            self._take_room(principal.name)
            self._in_flight[principal.name] = in_flight + 1

    def end(self, principal: Principal) -> None:
        if principal.is_operator:
            return
        with self._mutex:
            left = self._in_flight.pop(principal.name) - 1
            if left:
                self._in_flight[principal.name] = left

    def _take_room(self, name: str) -> None:
        rate, now = self._limits.principal_rate, self._now()
        room, since = self._rooms.get(name, (2.0 * rate, now))
        room = min(room + (now - since) * rate, 2.0 * rate)
        if room < 1:
            raise _too_many(f"you send more than {rate:,} requests a second; send fewer")
        _put(self._rooms, name, (room - 1, now))


class Buffered:
    """Bytes of bodies and answers that are held in memory. Only the event loop asks."""

    def __init__(self, size_bytes_max: int) -> None:
        self._size_bytes_max = size_bytes_max
        self.size_bytes = 0

    def hold(self, size_bytes: int) -> None:
        """Count bytes of a body before they are read; Unavailable when they are too many."""
        if self.size_bytes + size_bytes > self._size_bytes_max:
            raise Unavailable("the server holds too much already; try again", code="overloaded")
        self.size_bytes += size_bytes

    def keep(self, size_bytes: int) -> None:
        """Count bytes of an answer, which is made already."""
        self.size_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        self.size_bytes -= size_bytes


def _digest(credential: bytes) -> bytes:
    return sha256(credential).digest()


def _put(kept: OrderedDict[_K, _V], name: _K, value: _V) -> None:
    kept[name] = value
    kept.move_to_end(name)
    if len(kept) > SERVER_PRINCIPALS_KEPT:
        kept.popitem(last=False)


def _too_many(message: str) -> Unavailable:
    return Unavailable(message, code="too_many_requests")

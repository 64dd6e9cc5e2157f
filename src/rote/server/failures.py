"""Failed authentications by address: after many of them within a while, further ones are put off."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import ip_address

from rote.errors import Unavailable
from rote.values.server_limits import FAILURE_ADDRESSES_MAX, FAILURE_SECONDS


class Failures:
    """Counts failures; any thread may tell of one. Addresses of this machine are not counted."""

    def __init__(self, count_max: int, *, now: Callable[[], float]) -> None:
        self._count_max = count_max
        self._now = now
        self._mutex = threading.Lock()
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()  # since when, how many

    def count(self, peer: str | None) -> None:
        """Count a failure; Unavailable with the code `too_many_requests` when there were too many."""
        if peer is None or _is_loopback(peer):
            return
        with self._mutex:
            now = self._now()
            since, count = self._counts.get(peer, (now, 0))
            if now - since >= FAILURE_SECONDS:
                since, count = now, 0
            self._counts[peer] = (since, count + 1)
            self._counts.move_to_end(peer)
            if len(self._counts) > FAILURE_ADDRESSES_MAX:
                self._counts.popitem(last=False)
        if count >= self._count_max:
            raise Unavailable(
                "too many failed authentications from your address; wait", code="too_many_requests"
            )


def _is_loopback(peer: str) -> bool:
    try:
        return ip_address(peer.partition("%")[0]).is_loopback
    except ValueError:
        return False

"""Answers that a client keeps: reads of pinned views, and current values to ask whether they are unchanged.

Every answer of a server says the version of the newest erasure of its space. A newer one empties all that
is kept of the space, and nothing counts for longer than a minute after the last answer.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from msgspec import Struct

from rote.client.pool import Now
from rote.contract import OpenStore
from rote.values.client_limits import KEPT_BYTES_MAX, KEPT_ENTRY_BYTES, KEPT_SECONDS_MAX


class _Space(Struct):
    """Facts about a space from the last answers."""

    erased: int  # the version of its newest erasure
    answered: float  # when the last answer came
    names: dict[Hashable, None]  # of what is kept of it


class Kept:
    """Answers that a store keeps, up to a number of bytes. Any thread may ask."""

    def __init__(self, open_store: OpenStore, *, now: Now) -> None:
        self._open_store = open_store
        self._now = now
        self._lock = threading.Lock()
        self._spaces: dict[str, _Space] = {}
        self._things: OrderedDict[Hashable, tuple[str, int, Any]] = OrderedDict()
        self._size_bytes = 0

    def note(self, space: str, erased: int | None) -> bool:
        """Take note of an answer; whether it may be kept: no newer erasure is known."""
        if erased is None:
            return False
        with self._lock:
            known = self._spaces.get(space)
            if known is None:
                known = self._spaces[space] = _Space(erased, 0.0, {})
            is_newer = erased > known.erased
            if is_newer:
                self._empty(known)
                known.erased = erased
            known.answered = self._now()
            is_newest = erased == known.erased
        if is_newer:
            self._open_store.forget(space)
        return is_newest

    def get(self, space: str, name: Hashable) -> Any:
        """Return what is kept under a name; None when it is not, or for too long."""
        with self._lock:
            known = self._spaces.get(space)
            if known is None or self._now() - known.answered > KEPT_SECONDS_MAX:
                return None
            found = self._things.get(name)
            if found is None:
                return None
            self._things.move_to_end(name)
            return found[2]

    def keep(self, space: str, name: Hashable, thing: Any, size_bytes: int, *, erased: int) -> None:
        """Keep what an answer held, unless something was erased since that answer."""
        size_bytes += KEPT_ENTRY_BYTES
        with self._lock:
            known = self._spaces.get(space)
            if known is None or known.erased != erased or size_bytes > KEPT_BYTES_MAX:
                return
            self._drop(name)
            self._things[name] = space, size_bytes, thing
            known.names[name] = None
            self._size_bytes += size_bytes
            while self._size_bytes > KEPT_BYTES_MAX:
                self._drop(next(iter(self._things)))

    def forget(self, space: str) -> None:
        """Drop all that is kept of a space: it, or its past, may be gone."""
        with self._lock:
            known = self._spaces.get(space)
            if known is not None:
                self._empty(known)

    def close(self) -> None:
        with self._lock:
            self._things.clear()
            self._spaces.clear()
            self._size_bytes = 0

    def _empty(self, known: _Space) -> None:
        for name in tuple(known.names):
            self._drop(name)

    def _drop(self, name: Hashable) -> None:
        found = self._things.pop(name, None)
        if found is not None:
            space, size_bytes, _ = found
            self._spaces[space].names.pop(name, None)
            self._size_bytes -= size_bytes

"""The events of a session: what became of its commits and of its line, in order."""

import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any

from rote.errors import RoteError
from rote.sessions.deadlines import deadline_of
from rote.values.session_limits import SESSION_EVENTS_MAX

Event = dict[str, Any]


class Events:
    """Events that nobody has taken yet; the oldest go when there are too many."""

    def __init__(self, changed: threading.Condition) -> None:
        """changed  held by who adds; notified by it afterwards"""
        self._changed = changed
        self._kept: deque[Event] = deque()
        self._is_over = False
        self.dropped = 0  # events that went before anybody took them

    def add(
        self,
        type: str,
        *,
        local: int | None = None,
        version: int | None = None,
        error: BaseException | None = None,
    ) -> None:
        if len(self._kept) >= SESSION_EVENTS_MAX:
            self._kept.popleft()
            self.dropped += 1
        told = error.to_dict() if isinstance(error, RoteError) else None
        self._kept.append({"type": type, "local": local, "version": version, "error": told})

    def close(self) -> None:
        """No event comes after those that are kept."""
        self._is_over = True

    @property
    def is_over(self) -> bool:
        """Whether no event comes any more, and none is kept."""
        return self._is_over and not self._kept

    @property
    def is_ready(self) -> bool:
        """Whether `take` waits for nothing."""
        return self._is_over or len(self._kept) > 0

    def take_now(self) -> Event | None:
        """Return the next event that is kept; no lock is taken."""
        with suppress(IndexError):
            return self._kept.popleft()
        return None

    def take(self, timeout: float | None) -> Event | None:
        """Return the next event; None when none came within `timeout` seconds, or none comes any more."""
        deadline = deadline_of(timeout)
        with self._changed:
            while not self._kept:
                left = None if deadline is None else deadline - time.monotonic()
                if self._is_over or (left is not None and left <= 0):
                    return None
                self._changed.wait(left)
            return self._kept.popleft()

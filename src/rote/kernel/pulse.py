"""How watchers learn of commits: one of them looks at the head for all, a few times a second.

Commits of this process and of others are seen in the same way, so a writer does nothing for those
who watch, and pays nothing for them. PostgreSQL could notify, but a NOTIFY in a commit takes a lock
of the whole server and was measured to cost eight writers up to 0.45 of their rate.
"""

import threading
import time
from collections.abc import Callable

from rote.values.limits import PAGE_MAX, WATCH_CHANGES_KEPT, WATCH_LOOK_SECONDS

# A branch, how often the log was lost before, and the versions from which to which.
Step = tuple[str, int, int, int]


class Pulse:
    """Those who wait for a space to move."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._is_led = False  # somebody looks for all
        self.newest = 0  # that was seen last
        self._changes: dict[Step, frozenset[str]] = {}

    def wait(self, seen: int, seconds: float | None, look: Callable[[], int]) -> int:
        """Until the version is above `seen`, or the time is over; the version then."""
        deadline = None if seconds is None else time.monotonic() + seconds
        with self._condition:
            while self._is_led and self.newest <= seen:
                left = _left(deadline)
                if left is not None and left <= 0:
                    return self.newest
                self._condition.wait(left)
            if self.newest > seen:
                return self.newest
            self._is_led = True
        try:
            return self._lead(seen, deadline, look)
        finally:
            with self._condition:
                self._is_led = False
                self._condition.notify_all()

    def changes(self, key: Step, read: Callable[[], frozenset[str]]) -> frozenset[str]:
        """What changed between two versions. Watchers go the same steps, so one reads for all."""
        found = self._changes.get(key)
        if found is None:
            found = read()
            with self._condition:
                if len(self._changes) >= WATCH_CHANGES_KEPT:
                    self._changes.clear()
                if len(found) <= PAGE_MAX:
                    self._changes[key] = found
        return found

    def _lead(self, seen: int, deadline: float | None, look: Callable[[], int]) -> int:
        while True:
            newest = look()
            with self._condition:
                if newest != self.newest:
                    self.newest = newest
                    self._condition.notify_all()
            left = _left(deadline)
            if newest > seen or (left is not None and left <= 0):
                return newest
            time.sleep(WATCH_LOOK_SECONDS if left is None else min(left, WATCH_LOOK_SECONDS))


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else deadline - time.monotonic()

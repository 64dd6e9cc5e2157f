"""Wake-ups: how watchers learn of commits. One of them looks at the head for all, a few times a second.

Commits of this process and of others are seen in the same way, so a writer does nothing for those
who watch, and pays nothing for them. PostgreSQL could notify, but a NOTIFY in a commit takes a lock
of the whole server and was measured to cost eight writers up to 0.45 of their rate.

A watcher can be interrupted anywhere, and then gives nothing back. So to lead is to have looked not
long ago, and who waits looks up now and then. The lock is a plain one, see engines/postgres/pool.py.
"""

import threading
import time
from collections.abc import Callable

from rote.kernel.state.open_space import OpenSpace
from rote.values.limits import (
    PAGE_MAX,
    WAKE_SECONDS_MAX,
    WATCH_CHANGES_KEPT,
    WATCH_LOOK_SECONDS,
)

# A branch, how often the log was lost before, and the versions from which to which.
Interval = tuple[str, int, int, int]


class Wakeups:
    """The watchers that wait for a space to move."""

    def __init__(self, _: OpenSpace | None = None) -> None:
        self._mutex = threading.Lock()
        self._leader: threading.Lock | None = None  # the bell of the one who looks for all
        self._led_until = 0.0  # unless it looks again
        self._bells: set[threading.Lock] = set()  # each held until its watcher is woken
        self.newest = 0  # that was seen last
        self._changes: dict[Interval, frozenset[str]] = {}

    def wait(self, seen: int, seconds: float | None, look: Callable[[], int]) -> int:
        """Until the version is above `seen`, or the time is over; the version then."""
        deadline = None if seconds is None else time.monotonic() + seconds
        bell = threading.Lock()
        bell.acquire()
        try:
            while self.newest <= seen:
                leads = self._leads(bell)
                if leads:
                    self._tell(look())
                left = None if deadline is None else deadline - time.monotonic()
                if self.newest > seen or (left is not None and left <= 0):
                    break
                pause = WATCH_LOOK_SECONDS if leads else WAKE_SECONDS_MAX
                bell.acquire(timeout=pause if left is None else min(left, pause))
            return self.newest
        finally:
            self._leave(bell)

    def changes(self, key: Interval, read: Callable[[], frozenset[str]]) -> frozenset[str]:
        """What changed between two versions. Watchers go the same steps, so one reads for all."""
        found = self._changes.get(key)
        if found is None:
            found = read()
            with self._mutex:
                if len(self._changes) >= WATCH_CHANGES_KEPT:
                    self._changes.clear()
                if len(found) <= PAGE_MAX:
                    self._changes[key] = found
        return found

    def _leads(self, bell: threading.Lock) -> bool:
        """Whether a watcher is the one who looks; the others are woken when there is news."""
        now = time.monotonic()
        with self._mutex:
            if self._leader is not bell and now < self._led_until:
                self._bells.add(bell)
                return False
            self._leader, self._led_until = bell, now + WAKE_SECONDS_MAX
            return True

    def _tell(self, newest: int) -> None:
        with self._mutex:
            if newest != self.newest:
                self.newest = newest
                self._ring()

    def _leave(self, bell: threading.Lock) -> None:
        with self._mutex:
            self._bells.discard(bell)
            if self._leader is bell:
                self._leader, self._led_until = None, 0.0
                self._ring()

    def _ring(self) -> None:
        while self._bells:
            bell = self._bells.pop()
            if bell.locked():
                bell.release()

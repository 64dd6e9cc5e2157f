"""Wake-ups: one watcher looks at the head a few times a second, and wakes the others on a new commit.

Commits of this process and of others are found in the same way, so watchers cost a writer nothing.
PostgreSQL could notify, but a NOTIFY in a commit takes a lock of the whole server. Measured: it cost
eight writers up to 0.45 of their rate.

A watcher can be interrupted anywhere, and then does not hand the lead over. So the lead ends by
itself when its watcher has not looked for a while, and waiting watchers check now and then. The lock
is a plain one, see engines/postgres/pool.py.
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

# A branch, the number of losses of the log before, and the first and last version.
Interval = tuple[str, int, int, int]


class Wakeups:
    """The watchers that wait for a space to move."""

    def __init__(self, _: OpenSpace | None = None) -> None:
        self._mutex = threading.Lock()
        self._leader: threading.Lock | None = None  # the bell of the watcher that looks for all
        self._led_until = 0.0  # when its lead ends, unless it looks again
        self._bells: set[threading.Lock] = set()  # each held until its watcher is woken
        self.newest = 0  # the newest version that was seen
        self._changes: dict[Interval, frozenset[str]] = {}

    def wait(self, seen: int, seconds: float | None, look: Callable[[], int]) -> int:
        """Wait until the newest version is above `seen`, or the time is over; return the version."""
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
        """Return the ids that changed between two versions.

        Watchers advance by the same steps, so one of them reads for all.
        """
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
        """Whether this watcher is the one that looks; if not, note its bell, to be woken."""
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

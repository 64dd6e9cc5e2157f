"""How watchers learn of commits: one of them looks at the head for all, a few times a second. And
how they make way for writers: they work in turns, and the next one begins as long after a turn as
that took. Two hundred at once keep a core busy, and cost a writer of another process about 0.3 of
its rate; turns without a rest were measured to help little.

Commits of this process and of others are seen in the same way, so a writer does nothing for those
who watch, and pays nothing for them. PostgreSQL could notify, but a NOTIFY in a commit takes a lock
of the whole server and was measured to cost eight writers up to 0.45 of their rate.

A watcher can be interrupted anywhere, and then gives nothing back. So to lead is to have looked not
long ago, a turn is over when its time is, and who waits looks up now and then. The lock is a plain
one, see engines/postgres/pool.py.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rote.values.limits import (
    PAGE_MAX,
    WAKE_SECONDS_MAX,
    WATCH_CHANGES_KEPT,
    WATCH_LOOK_SECONDS,
    WATCH_TURN_SECONDS_MAX,
)

# A branch, how often the log was lost before, and the versions from which to which.
Interval = tuple[str, int, int, int]


class Pulse:
    """Those who wait for a space to move, so many of whom work at once."""

    def __init__(self, *, turns_max: int = 1) -> None:
        self._mutex = threading.Lock()
        self._leader: threading.Lock | None = None  # the bell of the one who looks for all
        self._led_until = 0.0  # unless it looks again
        self._bells: set[threading.Lock] = set()  # each held until its watcher is woken
        self.newest = 0  # that was seen last
        self._changes: dict[Interval, frozenset[str]] = {}
        self._turns_max = turns_max
        self._turns: dict[threading.Lock, float] = {}  # when each is over, at the latest
        self._line: dict[threading.Lock, None] = {}  # those who wait for a turn, in order

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

    @contextmanager
    def turn(self, deadline: float | None) -> Iterator[None]:
        """Around a watcher's work: waits until it is its turn, or its time is over."""
        bell = threading.Lock()
        bell.acquire()
        try:
            while (pause := self._pause_before(bell)) > 0:
                left = pause if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    break
                bell.acquire(timeout=min(left, pause))
            yield
        finally:
            self._pass_on(bell)

    def _pause_before(self, bell: threading.Lock) -> float:
        """How long a watcher waits until it looks again whether it can begin; 0 when it can."""
        now = time.monotonic()
        with self._mutex:
            if bell not in self._turns:
                self._line[bell] = None
                self._turns = {each: end for each, end in self._turns.items() if end > now}
                while self._line and len(self._turns) < self._turns_max:
                    self._give(next(iter(self._line)), now)
            if bell not in self._turns:
                return min(self._turns.values()) - now
            return max(0.0, self._turns[bell] - WATCH_TURN_SECONDS_MAX - now)

    def _pass_on(self, bell: threading.Lock) -> None:
        """The turn goes to the next in line, who begins after a rest; or the rest is kept for
        whoever comes. Where it was over before, others have not waited for it."""
        now = time.monotonic()
        with self._mutex:
            self._line.pop(bell, None)
            end = self._turns.pop(bell, now)
            if end <= now:
                return
            begun = end - WATCH_TURN_SECONDS_MAX
            rested = min(end, now + max(0.0, now - begun))
            heir = next(iter(self._line), None)
            if heir is None:
                self._turns[bell] = rested
            else:
                self._give(heir, rested)

    def _give(self, bell: threading.Lock, begin: float) -> None:
        """A turn to someone in line, who is woken for it."""
        del self._line[bell]
        self._turns[bell] = begin + WATCH_TURN_SECONDS_MAX
        if bell.locked():
            bell.release()

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

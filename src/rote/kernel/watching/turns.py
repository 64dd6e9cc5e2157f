"""Turns: how watchers make way for writers. They work one after the other, and the next one begins as
long after a turn as that took. Two hundred at once keep a core busy, and cost a writer of another
process about 0.3 of its rate; turns without a rest were measured to help little.

A watcher can be interrupted anywhere, and then gives nothing back. So a turn is over when its time is,
and who waits looks up now and then. The lock is a plain one, see engines/postgres/pool.py.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rote.kernel.state.open_space import OpenSpace
from rote.values.limits import WATCH_TURN_SECONDS_MAX, WATCH_TURNS_REMOTE


class Turns:
    """The watchers of a space that have work to do; a bounded number of them works at once."""

    def __init__(self, space: OpenSpace | None = None) -> None:
        is_remote = space is not None and space.engine.is_remote
        self._turns_max = WATCH_TURNS_REMOTE if is_remote else 1
        self._mutex = threading.Lock()
        self._turns: dict[threading.Lock, float] = {}  # when each is over, at the latest
        self._queue: dict[threading.Lock, None] = {}  # those who wait for a turn, in order

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
                self._queue[bell] = None
                self._turns = {each: end for each, end in self._turns.items() if end > now}
                while self._queue and len(self._turns) < self._turns_max:
                    self._give(next(iter(self._queue)), now)
            if bell not in self._turns:
                return min(self._turns.values()) - now
            return max(0.0, self._turns[bell] - WATCH_TURN_SECONDS_MAX - now)

    def _pass_on(self, bell: threading.Lock) -> None:
        """The turn goes to the next in the queue, who begins after a rest; or the rest is kept for
        whoever comes. Where it was over before, others have not waited for it."""
        now = time.monotonic()
        with self._mutex:
            self._queue.pop(bell, None)
            end = self._turns.pop(bell, now)
            if end <= now:
                return
            begun = end - WATCH_TURN_SECONDS_MAX
            rested = min(end, now + max(0.0, now - begun))
            heir = next(iter(self._queue), None)
            if heir is None:
                self._turns[bell] = rested
            else:
                self._give(heir, rested)

    def _give(self, bell: threading.Lock, begin: float) -> None:
        """A turn to someone in the queue, who is woken for it."""
        del self._queue[bell]
        self._turns[bell] = begin + WATCH_TURN_SECONDS_MAX
        if bell.locked():
            bell.release()

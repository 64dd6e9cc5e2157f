"""Turns: watchers work one after the other, with rests, so that writers get time.

After each turn there is a rest as long as the turn took. Measured: two hundred watchers at once keep
a core busy and cost a writer of another process about 0.3 of its rate; turns without a rest helped
little.

A watcher can be interrupted anywhere, and then does not give its turn back. So every turn has a last
moment, and waiting watchers check now and then. The lock is a plain one, see engines/postgres/pool.py.
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
        self._turns: dict[threading.Lock, float] = {}  # the last moment of each turn
        self._queue: dict[threading.Lock, None] = {}  # the bells of waiting watchers, in order

    @contextmanager
    def turn(self, deadline: float | None) -> Iterator[None]:
        """Run a watcher's work in its turn; wait for the turn, but not beyond the deadline."""
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
        """Return the seconds until a watcher checks again whether it can begin; 0 when it can."""
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
        """End a turn: give it to the next in the queue, to begin after the rest.

        When the queue is empty, keep the turn until the rest is over, so that a new watcher waits for
        it too. A turn that has passed its last moment was given to others already.
        """
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
        """Give a turn to a watcher in the queue, and wake it."""
        del self._queue[bell]
        self._turns[bell] = begin + WATCH_TURN_SECONDS_MAX
        if bell.locked():
            bell.release()

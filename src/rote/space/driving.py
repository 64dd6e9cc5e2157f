"""Driving what takes several steps: attempts, frames of a watch, progress of work."""

import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from rote.contract import Tell, Watching
from rote.errors import Conflict, InvalidInput
from rote.values.limits import TURN_SECONDS_MAX

T = TypeVar("T")
Progress = Callable[[int, int], None]  # (done, total)


def retry(function: Callable[[], T], *, attempts: int, turns: "threading.RLock") -> T:
    """Call a function that reads and commits, again as long as it raises Conflict."""
    if type(attempts) is not int or attempts < 1:
        raise InvalidInput("attempts must be an integer from 1 on")
    if not callable(function):
        raise InvalidInput("retry needs a function that reads and commits")
    if attempts == 1:
        return function()
    try:
        return function()
    except Conflict:
        # Threads that had a conflict take turns, so that they do not conflict for ever. They
        # wait for a turn only a while, because the function may wait for another thread.
        in_turn = turns.acquire(timeout=TURN_SECONDS_MAX)
        try:
            for _ in range(attempts - 2):
                try:
                    return function()
                except Conflict:
                    continue
            return function()
        finally:
            if in_turn:
                turns.release()


class Frames(Iterator[dict[str, Any]]):
    """The frames of a watch; they end after `timeout` seconds without one."""

    def __init__(self, watching: Watching, timeout: float | None) -> None:
        self.watching = watching
        self.timeout = timeout
        self._is_over = False

    def __next__(self) -> dict[str, Any]:
        if self._is_over:
            raise StopIteration
        try:
            frame = self.watching.next(self.timeout)
        except BaseException:
            self.close()
            raise
        if frame is None:
            self.close()
            raise StopIteration
        return frame

    def close(self) -> None:
        """End the watch; also done when nobody holds it any more."""
        self._is_over = True
        self.watching.close()

    def __del__(self) -> None:
        self.close()


def counting(progress: Progress | None) -> Tell | None:
    """Return a Tell that reports to a function of (done, total)."""
    return None if progress is None else lambda _, done, total: progress(done, total)

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


def frames(watching: Watching, timeout: float | None) -> Iterator[dict[str, Any]]:
    try:
        while (frame := watching.next(timeout)) is not None:
            yield frame
    finally:
        watching.close()


def counting(progress: Progress | None) -> Tell | None:
    """Return a Tell that reports to a function of (done, total)."""
    return None if progress is None else lambda _, done, total: progress(done, total)

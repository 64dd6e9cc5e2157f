"""Watches of a store behind a server: those of a space share a line."""

import threading
from collections.abc import Callable
from typing import Any, NoReturn

from rote.client.calls import Calls
from rote.client.line import Line, Watched
from rote.contract import Head
from rote.contract.commands import Watch
from rote.contract.sync import Mark
from rote.errors import Denied, InvalidInput, VersionNotFound
from rote.values.limits import INTEGER_MAX, WATCH_PAUSE_SECONDS

HeadAt = Callable[[int], Head]  # returns the head at a version


class RemoteWatches:
    """The lines of a store. Any thread may ask."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._mutex = threading.Lock()
        self._lines: dict[str, list[Line]] = {}  # by space

    def begin(self, space: str, command: Watch, head: HeadAt) -> "RemoteWatching":
        """Begin a watch.

        head  returns the head at a version
        """
        if command.view.version is not None:
            raise InvalidInput("a pinned view never changes; watch the space it came from")
        if command.path is not None:
            raise Denied("the server says what a caller may see", code="not_remote")
        query: Any = command.query
        if isinstance(query, dict):
            query = {"branch": command.view.branch, **query}
        since = command.since
        seen = None if since is None else _seen(since, head)
        while True:
            watched = Watched(query, since)
            line = self._line(space, seen)
            name = line.begin(watched)
            if name is not None:
                return RemoteWatching(self._calls, line, name, watched)

    def _line(self, space: str, seen: Mark | None) -> Line:
        """Return a line with room for one more; a watch that has seen something has its own."""
        with self._mutex:
            lines = [line for line in self._lines.get(space, ()) if not line.is_over]
            self._lines[space] = lines
            free = [line for line in lines if line.has_room] if seen is None else []
            if not free:
                free = [Line(self._calls, space, seen=seen)]
                lines.append(free[0])
            return free[0]

    def close(self) -> None:
        if not self._calls.pool.is_ours:
            return  # the parent goes on with the lines, and may hold their locks
        with self._mutex:
            lines = [line for each in self._lines.values() for line in each]
            self._lines = {}
        for line in lines:
            line.close()


def _seen(since: Any, head: HeadAt) -> Mark:
    """Return what the reader of a watch says that it holds."""
    if type(since) is not int or not 0 <= since <= INTEGER_MAX:
        raise InvalidInput("since: it is a version, or None for everything", key="since")
    try:
        found = head(since)
    except VersionNotFound as error:
        error.args = (f"since: {error}",)
        error.details["key"] = "since"
        raise
    return Mark(found.version, found.hash)


class RemoteWatching:
    """Implements contract.Watching and Ringing."""

    def __init__(self, calls: Calls, line: Line, name: str, watched: Watched) -> None:
        self._calls = calls
        self._line = line
        self._name = name
        self._watched = watched
        self._rested = 0.0  # when it may look again: all that is written meanwhile is one frame
        self._is_closed = False

    def next(self, timeout: float | None = None) -> dict[str, Any] | None:
        # `not timeout >= 0` instead of `timeout < 0`, to refuse NaN too.
        if timeout is not None and (type(timeout) not in (int, float) or not timeout >= 0):
            raise InvalidInput("timeout: it is a number of seconds from 0 on", key="timeout")
        if self._is_closed:
            return None
        # Before any lock: in a forked process nobody would release it.
        self._calls.pool.check_usable()
        is_for_ever = timeout is None or timeout > threading.TIMEOUT_MAX
        deadline = None if is_for_ever else self._calls.now() + (timeout or 0.0)
        self._calls.pause(max(self._rested - self._calls.now(), 0))
        frame = self._line.wait(self._watched, self._line.reach(deadline), deadline)
        if frame is None and timeout:
            # What was written just before the time was over counts.
            frame = self._line.wait(self._watched, self._line.reach(deadline), deadline)
        self._rested = self._calls.now() + WATCH_PAUSE_SECONDS
        return frame

    @property
    def is_over(self) -> bool:
        return self._is_closed

    def listen(self, ring: Callable[[], None] | None) -> None:
        self._watched.ring = ring

    def take(self) -> dict[str, Any] | None:
        if self._is_closed:
            return None
        self._calls.pool.check_usable()
        return self._line.take(self._watched)

    def advance(self, version: int) -> NoReturn:
        raise Denied("versions are chosen by the server", code="not_remote")

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._line.leave(self._name)

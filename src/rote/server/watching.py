"""Watches of a server: a thousand of them wait without a thread.

One thread looks at the heads of the spaces that are watched, and wakes their watches, only a few at a
time, and the thread that computes frames rests after each: otherwise a commit would wait behind a
thousand frames. A watch is asked for its next frame only
when its client has taken the last one, so a slow reader costs nothing but its place.

    begin ──> ask for a frame ──> send it ──> rest ──┐
                │  ^                                 │
                │  └─────────────────────────────────┘
                └ none: wait until the space has moved, or say after a while that it lives
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from msgspec import Struct

from rote.aio.lookout import Lookout, Waiter
from rote.contract import Port, View
from rote.contract.commands import Watch
from rote.contract.wire import decode_members, struct_of
from rote.errors import InvalidInput, Unavailable
from rote.server.messages import Http, Response
from rote.server.parameters import BRANCH, Parameter, parameters
from rote.server.statuses import NDJSON
from rote.server.streams import EVENTS, WatchStream
from rote.server.visits import takes_lines, visit
from rote.values.limits import WATCH_PAUSE_SECONDS
from rote.values.server_limits import (
    SERVER_WATCHES_AT_ONCE,
    WATCH_BEAT_SECONDS,
    WATCH_REST_SECONDS_MAX,
    WATCH_RESTS,
)

R = TypeVar("R")
QUERY = Parameter("query", "json", "A query, as JSON.", required=True)
SINCE = Parameter("since", "integer", "The version that was seen; the first frame leads from it.")
WATCH = (QUERY, BRANCH, SINCE)


class WatchAsked(Struct, frozen=True):
    """The arguments of a watch."""

    query: Any
    branch: str = "main"
    since: int | None = None


class Watches:
    """All watches of a server process."""

    def __init__(self, port: Port, *, watches_max: int, principal_watches_max: int) -> None:
        self._watches_max = watches_max
        self._principal_watches_max = principal_watches_max
        self._lookout = Lookout(at_once=SERVER_WATCHES_AT_ONCE)
        self._port = port
        self._threads = ThreadPoolExecutor(SERVER_WATCHES_AT_ONCE, thread_name_prefix="rote-watch")
        self._mutex = threading.Lock()
        self._counts: Counter[str] = Counter()  # of streams, by principal
        self._of_sessions = 0
        self.frames = 0  # that were sent

    @property
    def count(self) -> int:
        return self._counts.total() + self._of_sessions

    def count_frames(self, count: int = 1) -> None:
        self.frames += count

    def begin(
        self, principal: str, space: str, stream: WatchStream,
        beat_seconds: float = WATCH_BEAT_SECONDS,
    ) -> "ServedWatch":  # fmt: skip
        """Return a watch as a body; Unavailable when there are too many, or what its begin raises."""
        with self._mutex:
            self._check_room(1)
            if self._counts[principal] >= self._principal_watches_max:
                raise Unavailable(
                    "you have as many watches as one may have; end one", code="too_many_requests"
                )
            self._counts[principal] += 1

        def leave() -> None:
            with self._mutex:
                self._counts[principal] -= 1
                self._counts += Counter()  # drops names without a watch

        try:
            stream.begin()  # before the status is sent
        except BaseException:
            leave()
            raise
        waiter = self._lookout.add(self._port, space)
        return ServedWatch(stream, waiter, self.run, beat_seconds, leave)

    def _check_room(self, count: int) -> None:
        if self.count + count > self._watches_max:
            raise Unavailable("the server holds no more watches; try later", code="overloaded")

    def count_of_session(self, by: int) -> None:
        """Count watches of a session; Unavailable when there are too many."""
        with self._mutex:
            if by > 0:
                self._check_room(by)
            self._of_sessions += by

    def waiter(self, space: str) -> Waiter:
        """Return what wakes a session when its space moves."""
        return self._lookout.add(self._port, space)

    async def run(self, function: Callable[[], R]) -> R:
        """Return what a function returns, in the turn of all watches."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._turn, function)

    def _turn(self, function: Callable[[], R]) -> R:
        begun = time.monotonic()
        try:
            return function()
        finally:
            if self.count > 1:
                rest = (time.monotonic() - begun) * WATCH_RESTS
                time.sleep(min(rest, WATCH_REST_SECONDS_MAX))

    def stop(self) -> None:
        """Let every watch say its closing word and end; any thread may call it."""
        self._lookout.close()

    def close(self) -> None:
        """End for good; the loop does not run any more."""
        self._lookout.close()
        self._threads.shutdown(wait=False, cancel_futures=True)


class ServedWatch:
    """The pieces of a watch: frames, and beats when there are none. The event loop asks for them."""

    def __init__(
        self,
        stream: WatchStream,
        waiter: Waiter,
        run: Callable[[Callable[[], bytes | None]], Awaitable[bytes | None]],
        beat_seconds: float,
        leave: Callable[[], None],
    ) -> None:
        self._stream = stream
        self._waiter = waiter
        self._run = run
        self._beat_seconds = beat_seconds
        self._leave = leave
        self._is_resting = self._is_closed = False

    def __aiter__(self) -> "ServedWatch":
        return self

    async def __anext__(self) -> bytes:
        if self._is_resting:
            # All that is written in the meantime is one frame.
            self._is_resting = False
            await asyncio.sleep(WATCH_PAUSE_SECONDS)
        loop = asyncio.get_running_loop()
        beat_at = loop.time() + self._beat_seconds
        while not self._stream.has_ended:
            if self._waiter.is_over:
                return self._stream.closing()
            moved = self._waiter.listen(loop)
            piece = None
            try:
                piece = await self._run(self._stream.poll)
            finally:
                if piece is not None:
                    self._waiter.forget()  # before others are woken: its client has to take this one
                self._waiter.done()
            if piece is not None:
                self._is_resting = True
                return piece
            try:
                async with asyncio.timeout_at(beat_at):
                    await moved.wait()
            except TimeoutError:
                return self._stream.beat()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        """End the watch; called when the client has gone, too."""
        if not self._is_closed:
            self._is_closed = True
            self._waiter.leave()
            self._stream.close()
            self._leave()


def watch_route(http: Http) -> Response:
    """Follow a query: GET with parameters, or POST with an object of them."""
    head = http.head
    if head.method == "POST":
        parameters(head)
        asked = struct_of(WatchAsked, decode_members(WatchAsked, http.body))
    else:
        asked = WatchAsked(**parameters(head, *WATCH))
    since, last = asked.since, head.one(b"last-event-id")
    if last is not None:
        if not last.isdigit() or len(last) > 19:
            raise InvalidInput("the header last-event-id is the id of an event: a version")
        since = int(last)  # a browser that comes back sends the address of its first request
    visited = visit(http, "watch")
    watching = visited.port.watch(visited.space, Watch(asked.query, View(asked.branch), since))
    is_events = not takes_lines(http)
    service = http.service
    stream = WatchStream(watching, is_events=is_events, sent=service.watches.count_frames)
    body = service.watches.begin(http.principal.name, visited.space, stream)
    kind = EVENTS if is_events else NDJSON
    return Response(200, ((b"content-type", kind),), body)

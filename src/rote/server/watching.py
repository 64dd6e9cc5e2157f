"""Watches of a server: a thousand of them wait without a thread.

One thread looks at the heads of the spaces that are watched, and wakes their watches, only a few at a
time: otherwise a commit would wait behind a thousand frames. A watch is asked for its next frame only
when its client has taken the last one, so a slow reader costs nothing but its place.

    begin ──> ask for a frame ──> send it ──> rest ──┐
                │  ^                                 │
                │  └─────────────────────────────────┘
                └ none: wait until the space has moved, or say after a while that it lives
"""

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from msgspec import Struct

from rote.contract import Port, View
from rote.contract.commands import GetHead, Watch
from rote.contract.wire import decode_members, struct_of
from rote.errors import InvalidInput, RoteError, Unavailable
from rote.server.messages import Http, Response
from rote.server.parameters import BRANCH, Parameter, parameters
from rote.server.statuses import NDJSON
from rote.server.streams import EVENTS, WatchStream
from rote.server.visits import takes_lines, visit
from rote.values.limits import WATCH_PAUSE_SECONDS
from rote.values.server_limits import (
    SERVER_LOOK_SECONDS,
    SERVER_WATCHES_AT_ONCE,
    WATCH_BEAT_SECONDS,
)

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
        self._lookout = Lookout(port)
        self._threads = ThreadPoolExecutor(SERVER_WATCHES_AT_ONCE, thread_name_prefix="rote-watch")
        self._mutex = threading.Lock()
        self._counts: Counter[str] = Counter()  # by principal
        self.frames = 0  # that were sent

    @property
    def count(self) -> int:
        return self._counts.total()

    def count_frame(self) -> None:
        self.frames += 1

    def begin(
        self, principal: str, space: str, stream: WatchStream,
        beat_seconds: float = WATCH_BEAT_SECONDS,
    ) -> "ServedWatch":  # fmt: skip
        """Return a watch as a body; Unavailable when there are too many, or what its begin raises."""
        with self._mutex:
            if self.count >= self._watches_max:
                raise Unavailable("the server holds no more watches; try later", code="overloaded")
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
        waiter = self._lookout.add(space)
        return ServedWatch(stream, waiter, self._threads, beat_seconds, leave)

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
        waiter: "Waiter",
        threads: ThreadPoolExecutor,
        beat_seconds: float,
        leave: Callable[[], None],
    ) -> None:
        self._stream = stream
        self._waiter = waiter
        self._threads = threads
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
            try:
                piece = await loop.run_in_executor(self._threads, self._stream.poll)
            finally:
                self._waiter.done()
            if piece is not None:
                self._waiter.forget()
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


class Waiter:
    """One watch that waits for its space to move."""

    def __init__(self, lookout: "Lookout", space: str) -> None:
        self.space = space
        self.is_over = False  # the server stops
        self._lookout = lookout
        self._bell: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def listen(self, loop: asyncio.AbstractEventLoop) -> asyncio.Event:
        """Return what is set as soon as the space moves, from now on."""
        moved = asyncio.Event()
        self._bell = loop, moved
        if self.is_over:
            moved.set()
        return moved

    @property
    def is_listening(self) -> bool:
        return self._bell is not None

    def forget(self) -> None:
        """Say that nobody needs to wake it: its client has to take a frame first."""
        self._bell = None

    def ring(self) -> None:
        bell, self._bell = self._bell, None
        if bell is not None:
            loop, moved = bell
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(moved.set)

    def done(self) -> None:
        """Say that the work after being woken is done."""
        self._lookout.done(self)

    def leave(self) -> None:
        self._lookout.remove(self)


class Lookout:
    """Looks at the heads of watched spaces, for all their watches."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._mutex = threading.Lock()
        self._waiters: dict[str, set[Waiter]] = {}  # by space
        self._heads: dict[str, object] = {}
        self._queue: deque[Waiter] = deque()  # watches that are to be woken
        self._woken: set[Waiter] = set()  # those that work
        self._has_work = threading.Event()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def add(self, space: str) -> Waiter:
        waiter = Waiter(self, space)
        with self._mutex:
            waiter.is_over = self._is_closed
            self._waiters.setdefault(space, set()).add(waiter)
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._look, name="rote-lookout", daemon=True)
                self._thread.start()
            self._has_work.set()
        return waiter

    def remove(self, waiter: Waiter) -> None:
        with self._mutex:
            waiters = self._waiters.get(waiter.space, set())
            waiters.discard(waiter)
            if not waiters:
                self._waiters.pop(waiter.space, None)
                self._heads.pop(waiter.space, None)
            if not self._waiters and not self._is_closed:
                self._has_work.clear()
        self.done(waiter)

    def done(self, waiter: Waiter) -> None:
        """Wake the next, in the place of one that has done its work."""
        with self._mutex:
            self._woken.discard(waiter)
        self._wake()

    def close(self) -> None:
        with self._mutex:
            self._is_closed = True
            self._has_work.set()
            waiters = [waiter for waiters in self._waiters.values() for waiter in waiters]
        for waiter in waiters:
            waiter.is_over = True
            waiter.ring()

    def _look(self) -> None:
        pause = threading.Event()
        while not self._is_closed:
            self._has_work.wait()
            with self._mutex:
                spaces = list(self._waiters)
            for space in spaces:
                self._look_at(space)
            self._wake()
            pause.wait(SERVER_LOOK_SECONDS)

    def _look_at(self, space: str) -> None:
        head: object
        try:
            head = self._port.answer(space, GetHead()).version
        except RoteError as error:
            head = error.code  # the watches ask for themselves, and tell what is wrong
        with self._mutex:
            if space in self._waiters and self._heads.get(space) != head:
                self._heads[space] = head
                self._queue.extend(self._waiters[space] - set(self._queue))

    def _wake(self) -> None:
        while True:
            with self._mutex:
                if not self._queue or len(self._woken) >= SERVER_WATCHES_AT_ONCE:
                    return
                waiter = self._queue.popleft()
                if not waiter.is_listening or waiter not in self._waiters.get(waiter.space, ()):
                    continue  # it looks by itself before it waits again, or has gone
                self._woken.add(waiter)
            waiter.ring()


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
    stream = WatchStream(watching, is_events=is_events, sent=service.watches.count_frame)
    body = service.watches.begin(http.principal.name, visited.space, stream)
    kind = EVENTS if is_events else NDJSON
    return Response(200, ((b"content-type", kind),), body)

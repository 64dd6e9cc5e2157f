"""Watches of a server: a thousand of them wait without a thread.

One thread looks at the heads of the spaces that are watched and wakes their watches; a few threads
compute frames. A watch is asked for its next frame only when its client has taken the last one, so a
slow reader costs nothing but its place.

    begin ──> ask for a frame ──> send it ──> pause ─┐
                │  ^                                 │
                │  └─────────────────────────────────┘
                └ none: wait for the space to move, or say after a while that it lives
"""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor

from rote.contract import Port
from rote.contract.commands import GetHead
from rote.errors import RoteError, Unavailable
from rote.server.streams import WatchStream
from rote.values.limits import (
    SERVER_LOOK_SECONDS,
    SERVER_WATCH_THREADS,
    WATCH_BEAT_SECONDS,
    WATCH_PAUSE_SECONDS,
)


class Watches:
    """All watches of a server process."""

    def __init__(
        self, port: Port, *, watches_max: int, principal_watches_max: int,
        beat_seconds: float = WATCH_BEAT_SECONDS,
    ) -> None:  # fmt: skip
        self._watches_max = watches_max
        self._principal_watches_max = principal_watches_max
        self._beat_seconds = beat_seconds
        self._lookout = Lookout(port)
        self._threads = ThreadPoolExecutor(SERVER_WATCH_THREADS, thread_name_prefix="rote-watch")
        self._counts: Counter[str] = Counter()  # by principal; the loop's own
        self._waiting: set[asyncio.Event] = set()
        self._is_stopping = False

    @property
    def count(self) -> int:
        return self._counts.total()

    def admit(self, principal: str) -> Callable[[], None]:
        """Count a watch; return the function that ends it. Unavailable when there are too many."""
        if self.count >= self._watches_max:
            raise Unavailable("this server has all the watches that it can hold", code="overloaded")
        if self._counts[principal] >= self._principal_watches_max:
            raise Unavailable(
                "you have as many watches as one may have; end one first", code="too_many_requests"
            )
        self._counts[principal] += 1
        is_counted = True

        def leave() -> None:
            nonlocal is_counted
            if is_counted:
                is_counted = False
                self._counts[principal] -= 1

        return leave

    async def pieces(self, space: str, stream: WatchStream) -> AsyncIterator[bytes]:
        """Yield the frames of a watch, and a beat when none came for a while."""
        loop = asyncio.get_running_loop()
        moved = asyncio.Event()
        self._waiting.add(moved)

        def wake() -> None:
            loop.call_soon_threadsafe(moved.set)

        self._lookout.add(space, wake)
        try:
            while not self._is_stopping:
                moved.clear()
                piece = await loop.run_in_executor(self._threads, stream.poll)
                if piece is not None:
                    yield piece
                    if stream.has_ended:
                        return
                    await asyncio.sleep(WATCH_PAUSE_SECONDS)
                    continue
                try:
                    async with asyncio.timeout(self._beat_seconds):
                        await moved.wait()
                except TimeoutError:
                    yield stream.beat()
            yield stream.closing()
        finally:
            self._waiting.discard(moved)
            self._lookout.remove(space, wake)
            stream.close()

    def stop(self) -> None:
        """Let every watch say its closing word and end; called on the loop."""
        self._is_stopping = True
        for moved in self._waiting:
            moved.set()

    def close(self) -> None:
        self._lookout.close()
        self._threads.shutdown(wait=False, cancel_futures=True)


class Lookout:
    """Looks at the heads of watched spaces, for all their watches."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._mutex = threading.Lock()
        self._watched: dict[str, set[Callable[[], None]]] = {}
        self._heads: dict[str, object] = {}
        self._has_work = threading.Event()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def add(self, space: str, wake: Callable[[], None]) -> None:
        """Call `wake` whenever a space has moved; also when that cannot be told."""
        with self._mutex:
            self._watched.setdefault(space, set()).add(wake)
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="rote-lookout", daemon=True)
                self._thread.start()
            self._has_work.set()

    def remove(self, space: str, wake: Callable[[], None]) -> None:
        with self._mutex:
            wakes = self._watched.get(space, set())
            wakes.discard(wake)
            if not wakes:
                self._watched.pop(space, None)
                self._heads.pop(space, None)
            if not self._watched:
                self._has_work.clear()

    def close(self) -> None:
        self._is_closed = True
        self._has_work.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def _look(self) -> None:
        pause = threading.Event()
        while not self._is_closed:
            self._has_work.wait()
            with self._mutex:
                spaces = list(self._watched)
            for space in spaces:
                self._look_at(space)
            pause.wait(SERVER_LOOK_SECONDS)

    def _look_at(self, space: str) -> None:
        head: object
        try:
            head = self._port.answer(space, GetHead()).version
        except RoteError as error:
            head = error.code  # the watches ask themselves, and tell what is wrong
        with self._mutex:
            if space not in self._watched or self._heads.get(space) == head:
                return
            self._heads[space] = head
            wakes = list(self._watched[space])
        for wake in wakes:
            wake()

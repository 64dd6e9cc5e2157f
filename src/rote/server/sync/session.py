"""A session on its connection: its watches, and the steps in which they go on.

the space moves ──┐
an ack makes room ─┼─> compute a step on a thread ──> send its parts ──> rest
a watch is added ──┘     none while two are unacknowledged: what happens meanwhile is one step
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from rote.aio.lookout import Waiter
from rote.contract.sync import AddWatches, Mark, OpenSession, Reached, RemoveWatches, SetWatches
from rote.errors import InvalidInput, LimitExceeded
from rote.server.admission import AdmittedPort
from rote.server.authentication import Opener
from rote.server.sync.steps import LiveWatches, Step
from rote.server.watching import Watches
from rote.values.limits import WATCH_PAUSE_SECONDS
from rote.values.sync_limits import SYNC_EMPTY_SECONDS, SYNC_WATCHES_MAX, SYNC_WINDOW

Send = Callable[[bytes], Awaitable[None]]


class Session:
    """An open session. All but its look at the store happens on the event loop."""

    def __init__(
        self, opener: Opener, port: AdmittedPort, *, asked: str, watches: Watches, send: Send
    ) -> None:
        """
        asked  the name or did by which it was opened
        send   sends a message, and returns when the client has taken most of it
        """
        self.opener = opener
        self.port = port
        self.asked = asked
        self.decided = 0
        self._watches = watches
        self._send = send
        self._live = LiveWatches(port, port.space)
        self._names: set[str] = set()
        self._stepping = asyncio.Lock()
        self._unacked: deque[int] = deque()
        self._to = 0  # of the newest step that was sent
        self._room = asyncio.Event()
        self._room.set()
        self._moved = asyncio.Event()
        self._waiter: Waiter | None = None
        self._quiet: Step | None = None  # a newer version, of which there is nothing else to say
        self._said = float("-inf")  # when a step was sent

    @property
    def unacknowledged(self) -> int:
        """The number of steps that were sent, and not acknowledged."""
        return len(self._unacked)

    @property
    def space(self) -> str:
        """The did."""
        return self.port.space

    # -- requests --------------------------------------------------------------------------------------

    async def open(self, request: OpenSession) -> int:
        """Begin with the watches of the request; return the head."""
        head = await self._begin(request.watches, request.seen)
        self._live.reached = self._to = head
        return head

    async def watch(self, request: SetWatches | AddWatches | RemoveWatches) -> Reached:
        """Change the watches. What is refused changes nothing."""
        async with self._stepping:
            await self._say()  # what the others have to say, as far as there is room
            match request:
                case SetWatches():
                    await self._begin(request.watches, request.since)
                case AddWatches():
                    await self._add(request.watches)
                case RemoveWatches():
                    self._live.remove(request.names)
                    self._count(self._names - set(request.names))
            self._moved.set()
            return Reached(self._live.reached)

    async def _begin(self, queries: Mapping[str, Any], mark: Mark | None) -> int:
        """Replace all watches; return the head."""
        live = self._live

        def begin() -> tuple[Any, int]:
            since = live.check_mark(mark)
            return live.begin(queries, since), live.head()

        before = set(self._names)
        self._count(set(queries))
        try:
            begun, head = await self._watches.run(begin)
        except BaseException:
            self._count(before)
            raise
        live.replace(begun)
        return head

    async def _add(self, queries: Mapping[str, Any]) -> None:
        new = self._live.added(queries)
        before = set(self._names)
        if len(before) + len(new) > SYNC_WATCHES_MAX:
            raise LimitExceeded(
                "the watches of a session",
                size=len(before) + len(new),
                limit=SYNC_WATCHES_MAX,
                advice="remove some, or open another session",
            )
        self._count(before | set(new))
        try:
            begun = await self._watches.run(lambda: self._live.begin(new))
        except BaseException:
            self._count(before)
            raise
        self._live.add(begun)

    def _count(self, names: set[str]) -> None:
        self._watches.count_of_session(len(names) - len(self._names))
        self._names = names

    def acknowledge(self, to: int | None) -> None:
        """Note that the client has taken all steps up to a version."""
        if to is None:
            return
        if to > self._to:
            raise InvalidInput(f"to: no step to {to} was sent", argument="to")
        while self._unacked and self._unacked[0] <= to:
            self._unacked.popleft()
        if len(self._unacked) < SYNC_WINDOW:
            self._room.set()

    # -- steps -----------------------------------------------------------------------------------------

    async def step_on(self) -> None:
        """Send steps until the session ends."""
        loop = asyncio.get_running_loop()
        waiter = self._waiter = self._watches.waiter(self.space)
        while not waiter.is_over:
            await self._room.wait()
            self._moved = waiter.listen(loop)
            is_said = False
            try:
                async with self._stepping:
                    is_said = await self._say()
            finally:
                if is_said:
                    waiter.forget()  # before others are woken: it may have to wait for an ack
                waiter.done()
            if is_said:
                # All that is written in the meantime is one step.
                await asyncio.sleep(WATCH_PAUSE_SECONDS)
                continue
            await self._until_moved()

    async def _until_moved(self) -> None:
        """Wait until the space has moved, or until it is time to say that it had."""
        due = None if self._quiet is None else self._said + SYNC_EMPTY_SECONDS
        try:
            async with asyncio.timeout_at(due):
                await self._moved.wait()
        except TimeoutError:
            pass

    async def _say(self) -> bool:
        """Send the step to the head, if there is room and anything to say."""
        if not self._room.is_set():
            return False
        step = await self._watches.run(self._live.go_on)
        step = self._quiet = step or self._quiet
        now = asyncio.get_running_loop().time()
        if step is None or (not step.frames and now < self._said + SYNC_EMPTY_SECONDS):
            return False
        self._quiet, self._to, self._said = None, step.head.version, now
        self._unacked.append(self._to)
        if len(self._unacked) >= SYNC_WINDOW:
            self._room.clear()
        for_client = step.parts(self.decided)
        while (part := await self._watches.run(lambda: _next(for_client))) is not None:
            await self._send(part)
        self._watches.count_frames(len(step.frames))
        return True

    def close(self) -> None:
        """End the watches; nothing steps on any more."""
        if self._waiter is not None:
            self._waiter.leave()
        self._live.close()
        self._count(set())


def _next(parts: Iterator[bytes]) -> bytes | None:
    return next(parts, None)

"""A session on its connection: its watches, and the steps in which they go on.

the space moves ──┐
an ack makes room ─┼─> compute a step on a thread ──> send its parts ──> rest
a watch is added ──┘     none while two are unacknowledged: what happens meanwhile is one step
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from rote.aio.lookout import Waiter
from rote.contract.sync import Opened, OpenSession, Reached, WatchRequest
from rote.server.admission import AdmittedPort
from rote.server.authentication import Opener
from rote.server.sync.decisions import Decisions, desk_of
from rote.server.watching import Watches
from rote.sessions.flow import StepFlow, opened_of
from rote.sessions.sittings import Sitting
from rote.values.limits import WATCH_PAUSE_SECONDS
from rote.values.session_limits import SESSION_LOOK_SECONDS

if TYPE_CHECKING:
    from rote.server.application import Application

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
        self.decisions: Decisions | None = None  # an ephemeral session decides nothing
        self.opener = opener
        self.port = port
        self.asked = asked
        self._watches = watches
        self._send = send
        self._flow = StepFlow(port, port.space)
        self._names: set[str] = set()
        self._stepping = asyncio.Lock()
        self._room = asyncio.Event()
        self._room.set()
        self._moved = asyncio.Event()
        self._is_held = False  # a step waits for the verdict of a commit that was decided
        self._waiter: Waiter | None = None

    @property
    def unacknowledged(self) -> int:
        """The number of steps that were sent, and not acknowledged."""
        return self._flow.unacknowledged

    @property
    def space(self) -> str:
        """The did."""
        return self.port.space

    # -- requests --------------------------------------------------------------------------------------

    async def open(self, request: OpenSession, app: "Application") -> Opened:
        """Begin with the watches of the request, and go to the desk; return the answer."""
        self._count(set(request.watches))
        begun, head = await self._watches.run(
            lambda: self._flow.begin(request.watches, request.seen)
        )
        if request.ephemeral:
            self._flow.open(begun, head)
            return Opened(self.space, None, None, head)
        sit = app.pool_of_sessions.run
        sitting, opened = await sit(self._sit, app, request, is_begun=True)
        self.decisions = Decisions(app, self.opener, self.port, sitting)
        self._flow.open(begun, opened.version)
        return opened

    def _sit(self, app: "Application", request: OpenSession) -> tuple[Sitting, Opened]:
        """Open the session at the desk; runs on the pool."""
        desk = desk_of(app, self.opener, self.port)
        sitting = desk.open(session=request.session, token=request.token, seen=request.seen)
        return sitting, opened_of(sitting, self._flow)

    async def watch(self, request: WatchRequest) -> Reached:
        """Change the watches. What is refused changes nothing."""
        async with self._stepping:
            await self._say()  # what the others have to say, as far as there is room
            before = self._names
            self._count(self._flow.names_after(request))
            try:
                reached = await self._watches.run(lambda: self._flow.change(request))
            except BaseException:
                self._count(before)
                raise
            self._moved.set()
            return Reached(reached)

    def _count(self, names: set[str]) -> None:
        self._watches.count_of_session(len(names) - len(self._names))
        self._names = names

    def acknowledge(self, to: int | None) -> None:
        """Note that the client has taken all steps up to a version."""
        if to is not None:
            self._flow.acknowledge(to)
        if self._flow.has_room:
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
        loop = asyncio.get_running_loop()
        due = loop.time() + SESSION_LOOK_SECONDS if self._is_held else self._flow.due
        try:
            async with asyncio.timeout_at(due):
                await self._moved.wait()
        except TimeoutError:
            pass

    async def _say(self) -> bool:
        """Send the step to the head, if there is room and anything to say."""
        if not self._room.is_set():
            return False
        now = asyncio.get_running_loop().time()
        decisions = self.decisions
        own = 0 if decisions is None else decisions.own
        step = await self._watches.run(lambda: self._flow.ready(now, own=own))
        if step is None:
            return False
        told = 0 if decisions is None else await decisions.told()
        self._is_held = told is None
        if told is None:
            return False
        self._flow.sent(step, now)
        if not self._flow.has_room:
            self._room.clear()
        for_client = step.parts(told)
        while (part := await self._watches.run(lambda: _next(for_client))) is not None:
            await self._send(part)
        self._watches.count_frames(len(step.frames))
        return True

    def stir(self) -> None:
        """Look for a step at once: a verdict was sent."""
        self._moved.set()

    def close(self) -> None:
        """End the watches; nothing steps on and nothing is decided any more."""
        if self.decisions is not None:
            self.decisions.close()
        if self._waiter is not None:
            self._waiter.leave()
        self._flow.close()
        self._count(set())


def _next(parts: Iterator[bytes]) -> bytes | None:
    return next(parts, None)

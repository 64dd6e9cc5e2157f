"""Watches for `async for`: they wait for their space to move, and hold no thread meanwhile.

A lookout says when the space has moved. Where frames come by themselves, from a server or in a
session, nobody looks.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from rote.aio.lookout import Waiter
from rote.aio.threads import Threads
from rote.contract import Port, Watching
from rote.contract.port import Ringing
from rote.values.limits import WATCH_PAUSE_SECONDS


class Begun(Protocol):
    """A watch that has begun: Frames, for example."""

    watching: Watching
    timeout: float | None

    def close(self) -> None:
        """End the watch; called on the loop, or by a finalizer."""
        ...


class FramesAhead(AsyncIterator[dict[str, Any]]):
    """The frames of a watch. It begins with the first look; leaving the `async for` ends it."""

    def __init__(
        self, threads: Threads, port: Port, space: str, begin: Callable[[], Begun]
    ) -> None:
        self._threads = threads
        self._place = port, space
        self._begin = begin
        self._frames: Begun | None = None
        self._waiter: Waiter | _Rung | None = None
        self._is_over = False
        self._wake: Callable[[], None] = lambda: None  # lets the task that waits see the end
        self._rested = 0.0  # when it may look again: all that is written meanwhile is one frame

    async def __anext__(self) -> dict[str, Any]:
        frame = None
        try:
            if not self._is_over:
                frame = await self._next()
        finally:
            if frame is None:
                self._end()
        if frame is None:
            raise StopAsyncIteration
        return frame

    async def aclose(self) -> None:
        """End the watch at once, also for a task that waits for its next frame."""
        self._end()
        self._wake()

    def __del__(self) -> None:
        self._end()

    def _end(self) -> None:
        self._is_over = True
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.leave()
        frames, self._frames = self._frames, None
        if frames is not None:
            frames.close()

    async def _next(self) -> dict[str, Any] | None:
        loop = asyncio.get_running_loop()
        if self._frames is None:
            self._frames = await self._threads.read(self._begin)
        watching, timeout = self._frames.watching, self._frames.timeout
        look = poll = partial(watching.next, 0)
        if isinstance(watching, Ringing):
            poll = partial(watching.take)
            self._waiter = self._waiter or _Rung(watching)
        waiter = self._waiter = self._waiter or self._threads.pool.lookout.add(*self._place)
        deadline = None if timeout is None else loop.time() + timeout
        while not self._is_over:
            is_last = deadline is not None and loop.time() >= deadline
            if not is_last:
                await asyncio.sleep(self._rested - loop.time())
            moved = waiter.listen(loop)
            self._wake = _waking(loop, moved)
            is_ended = isinstance(watching, Ringing) and watching.is_over
            frame = None
            try:
                # The last look asks how far the space has come.
                frame = await self._threads.read(look if is_last else poll)
            finally:
                if frame is not None:
                    waiter.forget()  # before others are woken: the caller has to take this one
                waiter.done()
                self._rested = loop.time() + WATCH_PAUSE_SECONDS
            if frame is not None:
                return frame
            if is_last or is_ended:
                waiter.forget()
                break
            await until(moved, deadline)
        return None


class _Rung:
    """The waiter of a watch to which frames come by themselves."""

    def __init__(self, watching: Ringing) -> None:
        self._watching = watching

    def listen(self, loop: asyncio.AbstractEventLoop) -> asyncio.Event:
        moved = asyncio.Event()
        self._watching.listen(_waking(loop, moved))
        return moved

    def forget(self) -> None:
        self._watching.listen(None)

    def done(self) -> None:
        pass

    def leave(self) -> None:
        self._watching.listen(None)


def _waking(loop: asyncio.AbstractEventLoop, moved: asyncio.Event) -> Callable[[], None]:
    """Return a function that sets an event of a loop, from any thread."""

    def wake() -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(moved.set)

    return wake


async def until(moved: asyncio.Event, deadline: float | None) -> None:
    """Wait until an event is set, or a time of the loop has come."""
    try:
        async with asyncio.timeout_at(deadline):
            await moved.wait()
    except TimeoutError:
        pass

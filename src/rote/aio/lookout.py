"""A lookout: many watches wait for their spaces to move, and hold no thread.

One thread looks at the heads of the spaces that are watched, and wakes their watches, only so many at
a time: otherwise a commit would wait behind a thousand frames. A turn has a last moment, since the loop
of a watch may stand still or have ended. The thread ends with the last watch.

A watch may leave from a finalizer, on any thread and inside any lock, so nothing is locked for that.
"""

import asyncio
import threading
import time
from collections import deque
from contextlib import suppress

from rote.contract import Port
from rote.contract.commands import GetHead
from rote.errors import RoteError
from rote.values.limits import WATCH_LOOK_SECONDS, WATCH_TURN_SECONDS_MAX


class Waiter:
    """One watch that waits for its space to move."""

    def __init__(self, lookout: "Lookout", port: Port, space: str) -> None:
        self.port = port
        self.space = space
        self.is_over = False  # the lookout is closed
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
        """Say that it has gone; from anywhere."""
        self.forget()
        self._lookout.remove(self)


class Lookout:
    """Looks at the heads of watched spaces, for all their watches."""

    def __init__(self, *, at_once: int) -> None:
        """at_once  how many watches work at the same time"""
        self._at_once = at_once
        self._mutex = threading.Lock()
        self._waiters: dict[str, set[Waiter]] = {}  # by space
        self._heads: dict[str, object] = {}
        self._queue: deque[Waiter] = deque()  # watches that are to be woken
        self._woken: dict[Waiter, float] = {}  # that work, with the last moments of their turns
        self._leaving: deque[Waiter] = deque()  # those that have gone, until the next look
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def add(self, port: Port, space: str) -> Waiter:
        waiter = Waiter(self, port, space)
        with self._mutex:
            waiter.is_over = self._is_closed
            self._waiters.setdefault(space, set()).add(waiter)
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._look, name="rote-lookout", daemon=True)
                self._thread.start()
        return waiter

    def remove(self, waiter: Waiter) -> None:
        """Let a watch leave with the next look."""
        self._leaving.append(waiter)

    def done(self, waiter: Waiter) -> None:
        """Wake the next, in the place of one that has done its work."""
        with self._mutex:
            self._woken.pop(waiter, None)
        self._wake()

    def close(self) -> None:
        with self._mutex:
            self._is_closed = True
            waiters = [waiter for waiters in self._waiters.values() for waiter in waiters]
        for waiter in waiters:
            waiter.is_over = True
            waiter.ring()

    def _look(self) -> None:
        pause = threading.Event()
        while ports := self._ports():
            for space, port in ports.items():
                self._look_at(space, port)
            self._wake()
            pause.wait(WATCH_LOOK_SECONDS)

    def _ports(self) -> dict[str, Port]:
        """Return the spaces to look at; none when the thread is to end."""
        with self._mutex:
            self._let_leave()
            if self._is_closed or not self._waiters:
                self._thread = None
                return {}
            return {space: next(iter(each)).port for space, each in self._waiters.items()}

    def _let_leave(self) -> None:
        while self._leaving:
            waiter = self._leaving.popleft()
            self._woken.pop(waiter, None)
            waiters = self._waiters.get(waiter.space, set())
            waiters.discard(waiter)
            if not waiters:
                self._waiters.pop(waiter.space, None)
                self._heads.pop(waiter.space, None)

    def _look_at(self, space: str, port: Port) -> None:
        head: object
        try:
            head = port.answer(space, GetHead()).version
        except RoteError as error:
            head = error.code  # the watches ask for themselves, and tell what is wrong
        with self._mutex:
            if space in self._waiters and self._heads.get(space) != head:
                self._heads[space] = head
                self._queue.extend(self._waiters[space] - set(self._queue))

    def _wake(self) -> None:
        while True:
            now = time.monotonic()
            with self._mutex:
                if len(self._woken) >= self._at_once:
                    self._woken = {each: end for each, end in self._woken.items() if end > now}
                if not self._queue or len(self._woken) >= self._at_once:
                    return
                waiter = self._queue.popleft()
                if not waiter.is_listening or waiter not in self._waiters.get(waiter.space, ()):
                    continue  # it looks by itself before it waits again, or has gone
                self._woken[waiter] = now + WATCH_TURN_SECONDS_MAX
            waiter.ring()

"""The async faces of sessions, their transactions and their commits. What waits holds no thread."""

import asyncio
from asyncio import CancelledError
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from rote.aio.faces import (
    Face,
    Has,
    Lists,
    OpenBlock,
    Opens,
    Reads,
    Shows,
    Writes,
    face_of,
    shown,
)
from rote.aio.stores import Space, Transaction
from rote.aio.watches import FramesAhead, until
from rote.contract import Commit, Watching
from rote.errors import RoteError, Unavailable
from rote.sessions.changed import Changed, Check
from rote.sessions.events import Event
from rote.sessions.pending import Pending as SyncPending
from rote.sessions.pending import decided
from rote.sessions.session import Session as SyncSession
from rote.sessions.session import replica_of
from rote.sessions.transactions import SessionTransaction as SyncTransaction
from rote.sessions.watching import ViewWatching
from rote.space import Space as SyncSpace
from rote.space.arguments import check_timeout
from rote.space.sources import port_of

P = ParamSpec("P")
R = TypeVar("R")


# What a method that returns such an object is in a table; a type checker learns the face from it.


def _commit(function: Callable[Concatenate[Any, P], SyncPending]) -> "Shows[P, Pending]":
    return Shows(function, writes=True)


def _commits(
    function: Callable[Concatenate[Any, P], tuple[SyncPending, ...]],
) -> "Shows[P, tuple[Pending, ...]]":
    return Shows(function, writes=False)


def _session(function: Callable[Concatenate[Any, P], SyncSession]) -> "Shows[P, Session]":
    return Shows(function, writes=False)


def _space(function: Callable[Concatenate[Any, P], SyncSpace]) -> Shows[P, Space]:
    return Shows(function, writes=False)


def _transaction(
    function: Callable[Concatenate[Any, P], SyncTransaction],
) -> "Opens[P, SessionTransaction]":
    return Opens(function)


@face_of(SyncPending)
class Pending(Face[SyncPending]):
    """The async face of rote.Pending."""

    local = Has[SyncPending, int](lambda pending: pending.local)
    branch = Has[SyncPending, str](lambda pending: pending.branch)
    operations = Has[SyncPending, list[dict[str, Any]]](lambda pending: pending.operations)
    depends = Has[SyncPending, tuple[int, ...]](lambda pending: pending.depends)
    status = Has[SyncPending, str](lambda pending: pending.status)
    commit = Has[SyncPending, Commit | None](lambda pending: pending.commit)
    error = Has[SyncPending, BaseException | None](lambda pending: pending.error)

    async def wait(self, timeout: float | None = None) -> Commit:
        wait = partial(self._threads.read, partial(self.sync.wait, 0))
        return await _again(*decided(self.sync), wait, timeout)

    async def cancel(self, timeout: float | None = None) -> bool:
        cancel = partial(self._threads.write, partial(self.sync.cancel, 0))
        return await _again(*decided(self.sync), cancel, timeout)


@face_of(SyncTransaction)
class SessionTransaction(Transaction):
    """The async face of a transaction of a session."""

    pending = Has[SyncTransaction, Pending | None](lambda tx: tx.pending, is_face=True)


@face_of(SyncSession)
class Session(OpenBlock[SyncSession]):
    """The async face of rote.Session."""

    space = Has[SyncSession, Space](lambda session: session.space, is_face=True)
    did = Has[SyncSession, str](lambda session: session.did)
    name = Has[SyncSession, str](lambda session: session.name)
    branch = Has[SyncSession, str](lambda session: session.branch)
    state = Has[SyncSession, str](lambda session: session.state)
    dropped = Has[SyncSession, int](lambda session: session.dropped)
    confirmed = Has[SyncSession, Space](lambda session: session.confirmed, is_face=True)
    pending = _commits(SyncSession.pending)
    version = Reads(SyncSession.version)
    head = Reads(SyncSession.head)

    get = Reads(SyncSession.get)
    read = Reads(SyncSession.read)
    read_many = Reads(SyncSession.read_many)
    scan = Lists(SyncSession.scan)
    query = Reads(SyncSession.query)
    values = Reads(SyncSession.values)
    history = Reads(SyncSession.history)
    at = _space(SyncSession.at)
    on = _session(SyncSession.on)

    set = _commit(SyncSession.set)
    patch = _commit(SyncSession.patch)
    delete = _commit(SyncSession.delete)
    transact = _commit(SyncSession.transact)
    update = _commit(SyncSession.update)
    transaction = _transaction(SyncSession.transaction)

    pause = Writes(SyncSession.pause)
    resume = Writes(SyncSession.resume)
    close = Writes(SyncSession.close)

    async def apply(
        self, function: Callable[[SyncTransaction], object], *, attempts: int = 32
    ) -> Pending | None:
        apply = partial(self.sync.apply, function, attempts=attempts)
        made: Pending | None = shown(await self._threads.write(apply), self._threads)
        return made

    def watch(self, query: Mapping[str, Any], *, timeout: float | None = None) -> FramesAhead:
        def begin() -> _View:
            check_timeout(timeout)
            return _View(ViewWatching(replica_of(self.sync), self.sync.branch, query), timeout)

        return FramesAhead(self._threads, port_of(self.sync.space), self.sync.did, begin)

    async def events(self, timeout: float | None = None) -> AsyncIterator[Event]:
        check_timeout(timeout)
        while (event := await self._next_event(timeout)) is not None:
            yield event

    async def _next_event(self, timeout: float | None) -> Event | None:
        replica, loop = replica_of(self.sync), asyncio.get_running_loop()
        events = replica.events
        deadline = None if timeout is None else loop.time() + timeout
        while True:
            is_late = deadline is not None and loop.time() >= deadline
            with _listening(replica.changed, lambda: events.is_ready) as came:
                event = events.take_now()
                if event is not None or events.is_over or is_late:
                    return event
                if not events.is_ready:
                    await until(came, deadline)

    async def flush(self, timeout: float | None = None) -> list[Pending]:
        replica = replica_of(self.sync)
        made = replica.stack.made
        flush = partial(
            self._threads.write, partial(replica.flush, 0, until=made), replica.not_told
        )
        rejected = await _again(replica.changed, lambda: replica.is_flushed(made), flush, timeout)
        flushed: list[Pending] = shown(rejected, self._threads)
        return flushed

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                with suppress(RoteError):  # the end says what is wrong
                    await self.flush(self.sync._timeout)
        except CancelledError as cancelled:
            await self._threads.leave(self._leave, CancelledError, cancelled, None)
            raise
        await self._threads.leave(self._leave, kind, error, trace)

    def _leave(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.sync._leave(error, timeout=0)


class _View:
    """A watch of a view that has begun. Nothing but its reader holds it, and no thread waits for it, so
    its end asks for nothing: that of Frames takes the lock of the session."""

    def __init__(self, watching: ViewWatching, timeout: float | None) -> None:
        self.watching: Watching = watching
        self.timeout = timeout

    def close(self) -> None:
        pass


async def _again(
    changed: Changed,
    is_true: Check,
    attempt: Callable[[], Awaitable[R]],
    timeout: float | None,
) -> R:
    """Attempt what raises the code `timeout` now, and once more when something is true of a session."""
    check_timeout(timeout)
    loop = asyncio.get_running_loop()
    deadline = None if timeout is None else loop.time() + timeout
    with _listening(changed, is_true) as came:
        try:
            return await attempt()
        except Unavailable as error:
            if error.code != "timeout":
                raise
        await until(came, deadline)
    return await attempt()


@contextmanager
def _listening(changed: Changed, is_true: Check) -> Iterator[asyncio.Event]:
    """Return what is set when something becomes true of a session."""
    loop = asyncio.get_running_loop()
    came = asyncio.Event()

    def ring() -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(came.set)

    leave = changed.listen(is_true, ring)
    try:
        yield came
    finally:
        leave()

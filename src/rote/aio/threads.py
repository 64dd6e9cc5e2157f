"""Threads on which the calls of a store's async face run, and what a cancellation does to a call.

    a call waits for a thread    cancelled: it never begins
    a read has begun             cancelled: the caller goes on at once; the answer is dropped
    a write has begun            cancelled: it is settled first, then the caller gets the cancellation;
                                 when the write has failed, its error is the cause of that

Nothing here belongs to an event loop: a call asks for the loop that runs it.
"""

import asyncio
import os
import threading
from asyncio import CancelledError
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import Context, copy_context
from functools import partial
from types import TracebackType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from rote.aio.lookout import Lookout
from rote.errors import InvalidInput
from rote.values.async_limits import THREADS_DEFAULT, THREADS_MAX

R = TypeVar("R")
Exit = Callable[
    [type[BaseException] | None, BaseException | None, TracebackType | None], bool | None
]


class Pool:
    """The threads of one store; they begin when they are needed. After its end there are threads only
    while calls are under way, which say that the store is closed."""

    def __init__(self, count: int = THREADS_DEFAULT) -> None:
        if type(count) is not int or not 1 <= count <= THREADS_MAX:
            raise InvalidInput(f"threads is an integer from 1 to {THREADS_MAX}", argument="threads")
        self.lookout = Lookout(at_once=count)
        self._count = count
        self._mutex = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._process = 0
        self._is_over = False
        self._late_calls = 0  # that came after the end, and are under way

    def submit(self, function: Callable[[], R]) -> "Future[R]":
        with self._mutex:
            if self._executor is None or self._process != os.getpid():  # a fork has no threads
                self._executor = ThreadPoolExecutor(self._count, thread_name_prefix="rote-aio")
                self._process = os.getpid()
            future = self._executor.submit(function)
            is_late = self._is_over
            self._late_calls += is_late
        if is_late:
            future.add_done_callback(self._end_late)
        return future

    def end(self, *, waits: bool = True) -> None:
        """End the threads.

        waits  for what they do
        """
        self.lookout.close()
        with self._mutex:
            self._is_over = True
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=waits)

    def _end_late(self, _: object) -> None:
        with self._mutex:
            self._late_calls -= 1
            is_last = self._late_calls == 0
        if is_last:
            self.end(waits=False)


class Threads:
    """The threads of a pool as a face uses them, with the context variables of each caller."""

    def __init__(self, pool: Pool, turn: AbstractContextManager[object] | None = None) -> None:
        """turn  held during each call, where calls may not go side by side"""
        self.pool = pool
        self._turn = nullcontext() if turn is None else turn

    async def read(self, function: Callable[[], R]) -> R:
        """Call a function that changes nothing."""
        future = self._begin(function)
        try:
            await _ended(future)
        except CancelledError:
            future.cancel()
            raise
        return future.result()

    async def write(
        self, function: Callable[[], R], undo: Callable[[R], object] | None = None
    ) -> R:
        """Call a function that may change something.

        undo  called with its result when nobody else will get that
        """
        return await _settle(self._begin(function), undo, self._begin)

    async def apart(self, function: Callable[[], R], cancel: Callable[[], object]) -> R:
        """Call a function that may take long, on a thread of its own.

        cancel  called when the caller is cancelled; the function is waited for all the same
        """
        future: Future[R] = Future()
        run = partial(_fulfil, future, copy_context(), function)
        threading.Thread(target=run, name="rote-aio-call", daemon=True).start()
        try:
            await _ended(future)
        except CancelledError:
            cancel()
            await _waited(future)
            raise
        return future.result()

    async def leave(
        self,
        leave: Exit,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave a block. It is left by a cancellation when that comes before it could end well."""
        future = self._begin(partial(leave, kind, error, trace))
        try:
            await _ended(future)
        except CancelledError as cancelled:
            if error is None and future.cancel():
                future = self._begin(partial(leave, CancelledError, cancelled, None))
            await _waited(future)
            if (failure := future.exception()) is not None:
                raise cancelled from failure
            raise
        future.result()

    def _begin(self, function: Callable[[], R]) -> "Future[R]":
        return self.pool.submit(partial(_called, self._turn, copy_context(), function))


async def end(pool: Pool, close: Callable[[], None]) -> None:
    """Close what a pool serves, then end the pool, from a thread outside of it."""

    def close_both() -> None:
        try:
            close()
        finally:
            pool.end()

    ending = ThreadPoolExecutor(1, thread_name_prefix="rote-aio-end")
    try:
        await _settle(ending.submit(copy_context().run, close_both))
    finally:
        ending.shutdown(wait=False)


async def _settle(
    future: "Future[R]",
    undo: Callable[[R], object] | None = None,
    begin: Callable[[Callable[[], object]], "Future[object]"] | None = None,
) -> R:
    try:
        await _ended(future)
    except CancelledError as cancelled:
        if future.cancel():
            raise
        await _waited(future)
        if (failure := future.exception()) is not None:
            raise cancelled from failure
        if undo is not None and begin is not None:
            await _waited(begin(partial(undo, future.result())))
        raise
    return future.result()


async def _waited(future: "Future[Any]") -> None:
    """Wait for a call whatever cancellations come; the caller raises the first of them."""
    while not future.done():
        with suppress(CancelledError):
            await _ended(future)


async def _ended(future: "Future[Any]") -> None:
    """Wait until a call has ended; a cancellation does not touch the call."""
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()

    def wake() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def tell(_: object) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(wake)

    future.add_done_callback(tell)
    await waiter


def _called(turn: AbstractContextManager[object], context: Context, function: Callable[[], R]) -> R:
    with turn:
        return context.run(function)


def _fulfil(future: "Future[R]", context: Context, function: Callable[[], R]) -> None:
    try:
        result = context.run(function)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


_POOLS: WeakKeyDictionary[Any, Pool] = WeakKeyDictionary()
_TURNS: WeakKeyDictionary[Any, threading.Lock] = WeakKeyDictionary()
_MUTEX = threading.Lock()


def pool_of(owner: object, pool: Pool | None = None) -> Pool:
    """Return the pool of an open store, or of a host; the first one stays."""
    with _MUTEX:
        return _POOLS.setdefault(owner, Pool() if pool is None else pool)


def turn_of(owner: object) -> threading.Lock:
    """Return the lock under which calls go one at a time: those of one transaction."""
    with _MUTEX:
        return _TURNS.setdefault(owner, threading.Lock())

"""Threads on which commands are answered: as many as were asked for, and a bounded queue before them.

The standard executor takes a lock and two futures for each call, and waits at exit for threads that
may be stuck in a long command; these threads are daemons.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from rote.errors import Unavailable
from rote.values.server_limits import POOL_END_SECONDS

R = TypeVar("R")
_Call = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[..., Any], tuple[Any, ...]]


class Pool:
    """Runs functions for one event loop. All but the threads' work happens on the loop."""

    def __init__(self, threads: int, *, waiting_max: int) -> None:
        self._threads = threads
        self._waiting_max = waiting_max
        self._queue: SimpleQueue[_Call | None] = SimpleQueue()
        self._unfinished = 0
        self._workers: list[threading.Thread] = []

    @property
    def running(self) -> int:
        return min(self._unfinished, self._threads)

    @property
    def waiting(self) -> int:
        return max(self._unfinished - self._threads, 0)

    async def run(self, function: Callable[..., R], *arguments: Any, is_begun: bool = False) -> R:
        """Return what the function returns on a thread.

        is_begun  it is a further step of a request that was let in, and is not refused
        """
        if not is_begun and self.waiting >= self._waiting_max:
            raise Unavailable("too many requests wait; try again", code="overloaded")
        if not self._workers:
            self._start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        self._unfinished += 1
        self._queue.put((loop, future, function, arguments))
        return await future

    def close(self) -> bool:
        """Let the threads end; return whether all did, after what they do now, before long."""
        for _ in self._workers:
            self._queue.put(None)
        deadline = time.monotonic() + POOL_END_SECONDS
        for worker in self._workers:
            worker.join(max(deadline - time.monotonic(), 0))
        return not any(worker.is_alive() for worker in self._workers)

    def _start(self) -> None:
        for number in range(self._threads):
            name = f"rote-pool-{number}"
            worker = threading.Thread(target=self._work, name=name, daemon=True)
            self._workers.append(worker)
            worker.start()

    def _work(self) -> None:
        while True:
            call = self._queue.get()
            if call is None:
                return
            loop, future, function, arguments = call
            result, failure = None, None
            try:
                result = function(*arguments)
            except BaseException as error:
                failure = error
            try:
                loop.call_soon_threadsafe(self._settle, future, result, failure)
            except RuntimeError:
                return  # the loop is closed: the server has stopped
            del call, future, function, arguments, result, failure

    def _settle(
        self, future: "asyncio.Future[Any]", result: Any, failure: BaseException | None
    ) -> None:
        self._unfinished -= 1
        if future.cancelled():
            return
        if failure is None:
            future.set_result(result)
        elif isinstance(failure, StopIteration):
            future.set_exception(RuntimeError("the stream has ended"))
        else:
            future.set_exception(failure)

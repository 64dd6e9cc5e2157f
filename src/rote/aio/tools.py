"""Tools of an event: their coroutines run on the loop of the caller, while a thread waits for them."""

import asyncio
import inspect
from collections.abc import Coroutine
from concurrent.futures import Future
from contextvars import Context, copy_context
from typing import Any


class Tools:
    """The functions of one call, or of one list of calls; a cancellation reaches all of them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_cancelled = False

    def awaited(self, function: Any) -> Any:
        """Return a function that waits for the coroutine which the other one returns, if any. After a
        cancellation it does not call the other one."""
        if not callable(function):
            return function  # refused where it is taken

        def call(**args: Any) -> Any:
            if self._is_cancelled:
                raise asyncio.CancelledError
            answer = function(**args)
            return self._wait(answer) if inspect.iscoroutine(answer) else answer

        return call

    def asked(self, call: Any) -> Any:
        """Return one of a list of calls with its function awaited."""
        match call:
            case (name, function, args):
                return name, self.awaited(function), args
        return call  # refused where it is taken

    def cancel(self) -> None:
        """Cancel the coroutines, and let no more calls begin; called on the loop."""
        self._is_cancelled = True
        for task in self._tasks:
            task.cancel()

    def _wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        future: Future[Any] = Future()
        try:
            self._loop.call_soon_threadsafe(self._begin, coroutine, copy_context(), future)
        except RuntimeError:  # the loop has ended
            coroutine.close()
            raise
        return future.result()

    def _begin(
        self, coroutine: Coroutine[Any, Any, Any], context: Context, future: "Future[Any]"
    ) -> None:
        task = self._loop.create_task(coroutine, context=context)
        self._tasks.add(task)

        def tell(task: asyncio.Task[Any]) -> None:
            self._tasks.discard(task)
            if task.cancelled():
                future.set_exception(asyncio.CancelledError())
            elif (error := task.exception()) is not None:
                future.set_exception(error)
            else:
                future.set_result(task.result())

        task.add_done_callback(tell)
        if self._is_cancelled:
            task.cancel()

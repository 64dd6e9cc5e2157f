"""The making of calls: one, or several side by side on threads."""

import inspect
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from queue import SimpleQueue

from rote.errors import Unavailable
from rote.recordings.calls import Call, Reply, asynchronous
from rote.values.limits import CALLS_AT_ONCE_MAX


def perform(call: Call) -> Reply:
    """Make a call; what its function raises is the reply, and so is that the result cannot be
    recorded."""
    try:
        answer = call.function(**call.given)
        if inspect.iscoroutine(answer):
            answer.close()
            raise asynchronous()
        return call.replied(answer)
    except BaseException as error:  # an interrupted call was made all the same
        return call.failed(error)


def perform_side_by_side(calls: Sequence[Call], take: Callable[[Call, Reply], None]) -> None:
    """Make calls on threads. `take` gets their replies in the order of the calls, in this thread, each
    as soon as all before it have ended.

    When this thread is interrupted, no more calls begin; those that have begun are waited for and
    taken. A second interruption leaves behind what has not ended. When `take` fails, nothing more
    is taken.
    """
    threads = _Threads(calls, take)
    try:
        threads.begin()
        threads.give()
    finally:
        try:
            threads.end()
        finally:
            threads.give()


class _Threads:
    """Threads that make the calls of a list, each the next one, until none is left.

    Every call has a lock that is held until it has ended: plain locks, because an interruption
    inside an Event can leave it half changed.
    """

    def __init__(self, calls: Sequence[Call], take: Callable[[Call, Reply], None]) -> None:
        self._calls = calls
        self._take = take
        self._contexts = [copy_context() for _ in calls]  # one cannot be entered twice at a time
        self._replies: list[Reply | None] = [None] * len(calls)
        self._under_way = [threading.Lock() for _ in calls]
        for lock in self._under_way:
            lock.acquire()
        self._rest: deque[int] = deque()  # the places of calls that have not begun
        self._starts: SimpleQueue[None] = SimpleQueue()  # one for each thread that may begin
        self._count = min(len(calls), CALLS_AT_ONCE_MAX)
        self._threads: list[threading.Thread] = []
        self._given = 0  # replies
        self._is_giving = False
        self._is_over = False

    def begin(self) -> None:
        """Begin the calls when all threads have started; Unavailable when they cannot."""
        for number in range(self._count):
            thread = threading.Thread(target=self._work, name=f"rote-call-{number}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                raise Unavailable(
                    f"cannot start {self._count} threads for calls side by side: {error}; give the"
                    " process more room, or call one after the other"
                ) from error
            self._threads.append(thread)
        self._rest.extend(range(len(self._calls)))
        self._let_begin()

    def give(self) -> None:
        """Give the replies as they come; after the end those that are there."""
        while self._given < len(self._calls) and not self._is_giving:
            place = self._given
            if not self._is_over:
                self._under_way[place].acquire()
            reply = self._replies[place]
            if reply is None:
                return
            self._is_giving = True  # and stays so when it fails: there may be half a line
            self._take(self._calls[place], reply)
            self._given += 1
            self._is_giving = False

    def end(self) -> None:
        """Begin no more calls and wait for those under way."""
        self._is_over = True
        self._rest.clear()
        self._let_begin()  # for threads that an interruption left at their start
        for thread in self._threads:
            thread.join()

    def _let_begin(self) -> None:
        for _ in range(self._count):
            self._starts.put(None)

    def _work(self) -> None:
        self._starts.get()
        while (place := self._next()) is not None:
            try:
                self._replies[place] = self._contexts[place].run(perform, self._calls[place])
            finally:
                self._under_way[place].release()

    def _next(self) -> int | None:
        try:
            return self._rest.popleft()
        except IndexError:
            return None

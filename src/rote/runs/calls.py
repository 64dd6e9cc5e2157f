"""Calls of tools and of a model: what was asked, and what came back, in the form that is recorded.

A caller gets the recorded form also when the function has just been called: what a program sees is
the same in a run and in its replay (1.0 and 1, tuples and lists).
"""

import inspect
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Literal

from rote.errors import InvalidInput, InvalidValue, LimitExceeded, Unavailable
from rote.values import Json, canonical, decode_canonical, json_v1
from rote.values.limits import (
    CALL_BYTES_MAX,
    CALLS_AT_ONCE_MAX,
    DEPTH_MAX,
    ERROR_MESSAGE_CHARACTERS_MAX,
)

# Arguments and results stand inside an object where they are recorded and hashed.
_DEPTH_MAX = DEPTH_MAX - 1


@dataclass(frozen=True, slots=True)
class Effects:
    """A tool's result together with the side effects that are to be fingerprinted."""

    result: Json  # what the caller of the tool gets
    effects: Json  # what it has done, as far as its profile looks


@dataclass(frozen=True, slots=True)
class Call:
    """A question to a tool or to the model.

    The function gets the arguments as the caller gave them; what it does to them does not reach
    those that are recorded, which are taken before.
    """

    kind: Literal["tool", "model"]
    name: str
    function: Callable[..., Any]
    given: dict[str, Any]  # the arguments for the function
    normalize: Callable[[dict[str, Json]], dict[str, Json]]  # arguments into what is compared
    args: dict[str, Json] = field(init=False)  # the arguments as they are recorded
    normalized: dict[str, Json] = field(init=False)  # what of them is compared

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidInput(f"a call needs a function, not {type(self.function).__qualname__}")
        if inspect.iscoroutinefunction(self.function):
            raise _asynchronous()
        object.__setattr__(self, "args", stored(self.given, f"the arguments {self._of}"))
        object.__setattr__(self, "normalized", self.normalize(self.args))

    @property
    def _of(self) -> str:
        return f"of the {self.kind} {self.name}"

    def stored_result(self, result: Any) -> Json:
        what = "the reply" if self.kind == "model" else "the result"
        return stored(result, f"{what} {self._of}")

    def stored_effects(self, effects: Any) -> Json:
        return stored(effects, f"the effects {self._of}")

    def is_like(self, kind: str, name: str, args: dict[str, Json]) -> bool:
        """Whether a recorded call is this one, as far as calls are compared."""
        return (kind, name) == (self.kind, self.name) and json_v1(self.normalize(args)) == json_v1(
            self.normalized
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """A result, or an error."""

    result: Json = None
    effects: Json = None  # None when nothing was said about them
    error: dict[str, str] | None = None  # type and message
    raised: BaseException | None = None  # what the caller gets to see of the error

    @property
    def told(self) -> Json:
        """The result as traces know it."""
        return self.result if self.error is None else {"error": self.error}

    def outcome(self) -> Json:
        """The result for the caller, or the error."""
        if self.raised is not None:
            raise self.raised
        return self.result


def perform(call: Call) -> Reply:
    """Make a call; what its function raises is the reply, and so is that the result cannot be
    recorded."""
    try:
        answer = call.function(**call.given)
        if inspect.iscoroutine(answer):
            answer.close()
            raise _asynchronous()
        if not isinstance(answer, Effects):
            return Reply(call.stored_result(answer))
        return Reply(call.stored_result(answer.result), call.stored_effects(answer.effects))
    except BaseException as error:  # an interrupted call was made all the same
        return Reply(error=_described(error), raised=error)


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


def stored(value: Any, what: str) -> Json:
    """The value as it will be read back; an error says what it is."""
    try:
        data = canonical(value, depth_max=_DEPTH_MAX)
        if not data.isascii():
            # Keys that json-v1 takes for one are refused now, while they are the call's own fault.
            json_v1(value)
    except InvalidValue as error:
        error.args = (f"{what} cannot be recorded: {error}",)
        raise
    if len(data) > CALL_BYTES_MAX:
        raise LimitExceeded(
            f"{what} in bytes",
            size=len(data),
            limit=CALL_BYTES_MAX,
            advice="put it into a blob and return its hash",
        )
    return decode_canonical(data)


def _asynchronous() -> InvalidInput:
    return InvalidInput(
        "the function is asynchronous; give one that waits for its result, such as"
        " lambda **args: asyncio.run(function(**args))"
    )


def _described(error: BaseException) -> dict[str, str]:
    try:
        message = str(error)
    except BaseException:  # an error that cannot even tell itself
        message = ""
    shown = message[:ERROR_MESSAGE_CHARACTERS_MAX].encode("utf-8", "backslashreplace").decode()
    return {"type": class_name(error), "message": shown}


def class_name(error: BaseException) -> str:
    """Return the name of an exception's class, whatever a metaclass makes of it."""
    name: str = type.__dict__["__name__"].__get__(type(error))
    return name

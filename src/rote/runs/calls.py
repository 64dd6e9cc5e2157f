"""One call of a tool or a model: what was asked, and what came back, in the form that is recorded.

A caller gets the recorded form also when the function has just been called: what a program sees is
the same in a run and in its replay (1.0 and 1, tuples and lists).
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from rote.errors import InvalidInput, LimitExceeded
from rote.values import Json, canonical, decode_canonical, json_v1
from rote.values.limits import CALL_BYTES_MAX, DEPTH_MAX, ERROR_MESSAGE_CHARACTERS_MAX

# Arguments and results stand inside an object where they are recorded and hashed.
_DEPTH_MAX = DEPTH_MAX - 1


@dataclass(frozen=True, slots=True)
class Effects:
    """A tool's result together with the side effects that are to be fingerprinted."""

    result: Json  # what the caller of the tool gets
    effects: Json  # what it has done, as far as its profile looks


@dataclass(frozen=True, slots=True)
class Call:
    """A question to a tool or to the model."""

    kind: Literal["tool", "model"]
    name: str
    args: dict[str, Json]
    normalize: Callable[[dict[str, Json]], Json]  # arguments into what of them is compared

    def is_like(self, kind: str, name: str, args: dict[str, Json]) -> bool:
        """Whether a recorded call is this one, as far as calls are compared."""
        return (kind, name) == (self.kind, self.name) and json_v1(self.normalize(args)) == json_v1(
            self.normalize(self.args)
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


def perform(function: Callable[..., Any], args: dict[str, Json]) -> Reply:
    """Call a function; what it raises is its reply, and so is that its result cannot be recorded."""
    try:
        answer = function(**args)
        if inspect.iscoroutine(answer):
            answer.close()
            raise InvalidInput(
                "the function is asynchronous; give one that waits for its result, such as"
                " lambda **args: asyncio.run(function(**args))"
            )
        if not isinstance(answer, Effects):
            return Reply(stored(answer, "a result"))
        return Reply(stored(answer.result, "a result"), stored(answer.effects, "effects"))
    except BaseException as error:  # an interrupted call was made all the same
        return Reply(error=_described(error), raised=error)


def stored(value: Any, what: str) -> Json:
    """The value as it will be read back."""
    data = canonical(value, depth_max=_DEPTH_MAX)
    if len(data) > CALL_BYTES_MAX:
        raise LimitExceeded(
            f"{what} of a call in bytes",
            size=len(data),
            limit=CALL_BYTES_MAX,
            advice="put it into a blob and return its hash",
        )
    if not data.isascii():
        # Keys that json-v1 takes for one are refused now, while they are the call's own fault.
        json_v1(value)
    return decode_canonical(data)


def _described(error: BaseException) -> dict[str, str]:
    try:
        message = str(error)
    except Exception:  # an error that cannot even tell itself
        message = ""
    shown = message[:ERROR_MESSAGE_CHARACTERS_MAX].encode("utf-8", "backslashreplace").decode()
    return {"type": type(error).__name__, "message": shown}

"""Calls of tools and of a model: what was asked, and what came back, in the form that is recorded.

A caller gets the recorded form also when the function has just been called: what a program sees is
the same in a run and in its replay (1.0 and 1, tuples and lists), but for values that are redacted.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from rote.errors import InvalidInput, InvalidValue, LimitExceeded
from rote.recordings.redaction import NOTHING, Redaction, without_texts
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
    """A question to a tool or to the model.

    The function gets the arguments as the caller gave them; what it does to them does not reach
    those that are recorded, which are taken before.
    """

    kind: Literal["tool", "model"]
    name: str
    function: Callable[..., Any]
    given: dict[str, Any]  # the arguments for the function
    normalize: Callable[[dict[str, Json]], dict[str, Json]]  # arguments into what is compared
    redaction: Redaction = NOTHING
    plain: dict[str, Json] = field(init=False)  # the arguments in the form of JSON
    args: dict[str, Json] = field(init=False)  # the arguments as they are recorded
    normalized: dict[str, Json] = field(init=False)  # what of them is compared
    traced: dict[str, Json] = field(init=False)  # the same as traces have it

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidInput(f"a call needs a function, not {type(self.function).__qualname__}")
        if inspect.iscoroutinefunction(self.function):
            raise asynchronous()
        plain = stored(self.given, f"the arguments {self._of}")
        args = self.redaction.hidden(plain)
        normalized = traced = self.normalize(args)
        if self.redaction:
            traced = self.normalize(self.redaction.blanked(plain))
        object.__setattr__(self, "plain", plain)
        object.__setattr__(self, "args", args)
        object.__setattr__(self, "normalized", normalized)
        object.__setattr__(self, "traced", traced)

    @property
    def _of(self) -> str:
        return f"of the {self.kind} {self.name}"

    def replied(self, answer: Any) -> "Reply":
        """Return the reply of a function that has returned."""
        what = "the reply" if self.kind == "model" else "the result"
        result = answer.result if isinstance(answer, Effects) else answer
        plain, effects = stored(result, f"{what} {self._of}"), None
        if isinstance(answer, Effects):
            effects = self.redaction.hidden(stored(answer.effects, f"the effects {self._of}"))
        return Reply(self.redaction.hidden(plain), effects, own=plain)

    def failed(self, error: BaseException) -> "Reply":
        """Return the reply of a function that has raised."""
        told = described(error)
        message = without_texts(told["message"], self.redaction.texts(self.plain))
        return Reply(error={**told, "message": message}, raised=error)

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
    error: dict[str, Any] | None = None  # type and message, of an adapter code and details too
    raised: BaseException | None = None  # what the caller gets to see of the error
    own: Json | UnsetType = UNSET  # the caller's result where the recorded one hides parts of it

    @property
    def told(self) -> Json:
        """The result as traces know it."""
        return self.result if self.error is None else {"error": self.error}

    def blanked(self, redaction: Redaction) -> "Reply":
        """Return a reply as traces have it, of a call or of its replay."""
        result, effects = redaction.blanked(self.result), redaction.blanked(self.effects)
        return Reply(result, effects, redaction.blanked(self.error))

    def outcome(self) -> Json:
        """The result for the caller, or the error."""
        if self.raised is not None:
            raise self.raised
        return self.result if self.own is UNSET else self.own


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


def asynchronous() -> InvalidInput:
    """Return the error for a function that does not wait for its result."""
    return InvalidInput(
        "the function is asynchronous; give one that waits for its result, such as"
        " lambda **args: asyncio.run(function(**args))"
    )


def described(error: BaseException) -> dict[str, str]:
    """Return type and message of an error, as they are recorded."""
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

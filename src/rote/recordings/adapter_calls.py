"""Calls of a host's adapters, in the form that is recorded: redacted values are hidden in it, and in what
the caller gets to see of an error."""

from collections.abc import Callable
from typing import Any, Literal, Self

from msgspec import Struct

from rote.errors import RoteError, public_class
from rote.recordings.calls import Reply, described
from rote.recordings.redaction import Redaction, matches, without_texts
from rote.values import Json
from rote.values.limits import ERROR_MESSAGE_CHARACTERS_MAX

_FRAME_GET = "frame.get"


class AdapterCall(Struct, frozen=True):
    """A call of an adapter."""

    name: str  # <adapter>.<verb>
    given: dict[str, Json]  # the arguments, by name
    args: dict[str, Json]  # the same without what is redacted
    redaction: Redaction
    kind: Literal["adapter"] = "adapter"

    @classmethod
    def of(cls, name: str, given: dict[str, Json], redaction: Redaction) -> Self:
        return cls(name, given, redaction.hidden(given), redaction)

    def is_like(self, kind: str, name: str, args: dict[str, Json], /) -> bool:
        return (kind, name) == (self.kind, self.name) and matches(self.given, args)

    def perform(self, function: Callable[[], Json]) -> Reply:
        """Make the call; return its reply as it is recorded, and for the caller as it is."""
        try:
            result = function()
        except BaseException as error:  # an interrupted call was made all the same
            told = self._told(error)
            if not isinstance(error, RoteError) or told == _plain(error):
                return Reply(error=told, raised=error)
            shown = RoteError.from_dict(told)  # so that nobody prints what is redacted
            shown.__suppress_context__ = True
            return Reply(error=told, raised=shown)
        if self._is_redacted:
            return Reply(self.redaction.hidden_whole(result), own=result)
        return Reply(self.redaction.hidden(result), own=result)

    def traced_args(self) -> dict[str, Json]:
        """Return the arguments as traces have them: the same whatever the salt of a recording is."""
        args: dict[str, Json] = self.redaction.blanked(self.given)
        return args

    def traced(self, reply: Reply) -> Reply:
        """Return a reply as traces have it, of a call or of its replay."""
        if reply.error is None and self._is_redacted:
            return Reply(self.redaction.blanked_whole())
        return reply.blanked(self.redaction)

    @property
    def _is_redacted(self) -> bool:
        """Whether the result as a whole is a redacted value."""
        return self.name == _FRAME_GET and self.redaction.is_on_path(self.given.get("path"))

    def _told(self, error: BaseException) -> dict[str, Any]:
        """Return an error as it is recorded: its class and its code stay, whatever is redacted."""
        told: dict[str, Any] = _plain(error) if isinstance(error, RoteError) else described(error)
        details: dict[str, Json] = told.get("details", {})
        texts = self.redaction.texts(self.given) | self.redaction.texts(details)
        if texts:
            told["message"] = without_texts(told["message"], texts)
            details = _without(details, texts)
        return {**told, "details": self.redaction.hidden(details)} if "details" in told else told


def _plain(error: RoteError) -> dict[str, Any]:
    message = str(error)[:ERROR_MESSAGE_CHARACTERS_MAX]
    return {
        "type": public_class(error).__name__,
        "code": error.code,
        "message": message.encode("utf-8", "backslashreplace").decode(),
        "details": error.details,
    }


def _without(told: Any, texts: set[str]) -> Any:
    """Return details of an error without redacted texts.

    Only our own code nests details, so no input makes this recurse deeply.
    """
    if type(told) is str:
        return without_texts(told, texts)
    if type(told) is dict:
        return {name: _without(each, texts) for name, each in told.items()}
    return [_without(each, texts) for each in told] if type(told) is list else told

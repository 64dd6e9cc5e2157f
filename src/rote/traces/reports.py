"""What checking and comparing say: a status, and every failure with its place and both values.

The same input gives the same report, byte for byte. Codes are frozen: programs branch on them.
"""

from typing import Any, Literal

from msgspec import Struct, to_builtins

from rote.errors import InvalidValue
from rote.values import Json, canonical, decode_canonical
from rote.values.depth import text_is_deeper
from rote.values.limits import (
    DEPTH_MAX,
    TRACE_DEPTH_MAX,
    TRACE_FAILURE_BYTES_MAX,
    TRACE_FAILURES_MAX,
)

Status = Literal["valid", "invalid", "equivalent", "different", "ineligible"]


class Failure(Struct, frozen=True):
    """One rule that is broken, or one difference."""

    code: str
    pointer: (
        str  # a JSON pointer into the trace, or into the retrieval trace where the code says so
    )
    left: Json  # what is there; of two traces: what the left one has
    right: Json  # what must be there; of two traces: what the right one has
    message: str  # a sentence


class Report(Struct, frozen=True):
    """The outcome: ok only when nothing at all was found."""

    ok: bool
    status: Status
    failures: tuple[Failure, ...] = ()
    more: int = 0  # failures beyond those that are listed

    def to_dict(self) -> dict[str, Json]:
        builtins: dict[str, Json] = to_builtins(self)
        builtins["failures"] = list(builtins["failures"])
        if not self.more:
            del builtins["more"]
        return builtins


class Failures:
    """A growing list of failures, which remembers so many and counts the rest."""

    def __init__(self) -> None:
        self.listed: list[Failure] = []
        self.more = 0

    def __len__(self) -> int:
        return len(self.listed) + self.more

    @property
    def is_full(self) -> bool:
        """Whether what is added now is only counted, so that nobody has to say it."""
        return len(self.listed) >= TRACE_FAILURES_MAX

    def add(self, code: str, pointer: str, left: Any, right: Any, message: str) -> None:
        if self.is_full:
            self.more += 1
            return
        self.listed.append(Failure(code, pointer, shown(left), shown(right), message))

    def report(self, good: Status, bad: Status) -> Report:
        if not self.listed:
            return Report(True, good)
        return Report(False, bad, tuple(self.listed), self.more)


def shown(value: Any) -> Json:
    """A value as a report holds it: a copy, or in words when it is long or no value at all."""
    if value is None or type(value) is bool:
        return value
    try:
        data = canonical(value, depth_max=TRACE_DEPTH_MAX)
    except InvalidValue:
        return str(value) if type(value) is float else f"({type(value).__qualname__}, not JSON)"
    if len(data) > TRACE_FAILURE_BYTES_MAX or text_is_deeper(data, DEPTH_MAX):
        beginning = data[:TRACE_FAILURE_BYTES_MAX].decode(errors="ignore")
        return f"{beginning}… ({len(data):,} bytes)"
    return decode_canonical(data)

"""The reports of checks and comparisons: a status, and each failure with place and values.

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
# What is compared: what the contract names, or also writes, replies of the model and scores.
Level = Literal["contract", "full"]


class Failure(Struct, frozen=True):
    """One rule that is broken, or one difference."""

    code: str
    pointer: (
        str  # a JSON pointer into the trace, or into the retrieval trace where the code says so
    )
    left: Json  # the value found; of two traces: the left value
    right: Json  # the value that must be there; of two traces: the right value
    message: str  # a sentence
    # From the recordings: JSON text around the first difference; null when there is no recording.
    left_value: str | None = None
    right_value: str | None = None

    @property
    def has_values(self) -> bool:
        return self.left_value is not None or self.right_value is not None


class Report(Struct, frozen=True):
    """The outcome; ok only when there is no failure."""

    ok: bool
    status: Status
    failures: tuple[Failure, ...] = ()
    more: int = 0  # number of failures that are not listed
    level: Level | None = None  # of a comparison
    truncated: bool = False  # of a check: whether the end of the trace was cut off

    def to_dict(self) -> dict[str, Json]:
        builtins: dict[str, Json] = to_builtins(self)
        builtins["failures"] = list(builtins["failures"])
        for told, failure in zip(builtins["failures"], self.failures, strict=True):
            if not failure.has_values:
                del told["left_value"], told["right_value"]
        for name in ("more", "level", "truncated"):
            if not builtins[name]:
                del builtins[name]
        return builtins


class Failures:
    """A growing list of failures; it keeps a bounded number and counts the rest."""

    def __init__(self) -> None:
        self.listed: list[Failure] = []
        self.more = 0

    def __len__(self) -> int:
        return len(self.listed) + self.more

    @property
    def is_full(self) -> bool:
        """Whether further failures are only counted, so that their messages need not be made."""
        return len(self.listed) >= TRACE_FAILURES_MAX

    def add(self, code: str, pointer: str, left: Any, right: Any, message: str) -> None:
        if self.is_full:
            self.more += 1
            return
        self.listed.append(Failure(code, pointer, shown(left), shown(right), message))

    def report(
        self, good: Status, bad: Status, *, level: Level | None = None, truncated: bool = False
    ) -> Report:
        ok = not self.listed
        failures = tuple(self.listed)
        return Report(ok, good if ok else bad, failures, self.more, level, truncated)


def shown(value: Any) -> Json:
    """Return a copy of a value for a report; a text about it when it is long or no value."""
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


def cut_to_difference(left: str, right: str, characters: int) -> tuple[str, str]:
    """Return both texts, cut to a number of characters where they begin to differ.

    They are cut at the same place, with `…` where something was left out.
    """
    common, lead = _common_length(left, right), characters // 4
    start = 0
    if left != right and common > characters - lead:
        start = max(0, min(common - lead, max(len(left), len(right)) - characters))
    return _cut(left, start, characters), _cut(right, start, characters)


def _cut(text: str, start: int, characters: int) -> str:
    more = "…" if len(text) > start + characters else ""
    return ("…" if start else "") + text[start : start + characters] + more


def _common_length(left: str, right: str) -> int:
    """Return the number of characters with which both texts begin."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low

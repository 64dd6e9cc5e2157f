"""Values from recordings for a report: arguments, replies and effects beside their fingerprints.

The nth tool call of a trace is the nth line of kind `tool` in its recording, and the nth reply of its
model the nth line of kind `model`. A recording is read once, line by line, and only the parts that a
report shows are kept. It belongs to a trace when the trace names its SHA-256.
"""

import io
from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from rote.errors import InvalidInput, InvalidValue, LimitExceeded
from rote.traces.reports import Failure, cut_to_difference
from rote.values import canonical, decode
from rote.values.limits import (
    RECORDED_CHARACTERS_HELD_MAX,
    RECORDED_CHARACTERS_SHOWN,
    RECORDING_CALLS_MAX,
    RECORDING_LINE_BYTES_MAX,
)

Kind = Literal["tool", "model"]
Part = Literal["args", "reply", "effects"]

_START = "recording/1"
# The first line and the last one.
_LINES_MAX = RECORDING_CALLS_MAX + 2


class Source(Struct, frozen=True):
    """A recording that may belong to a trace."""

    lines: Iterable[bytes]  # with their ends
    name: str  # for errors
    is_named: bool = True  # whether a user named it; another one that does not fit is not used


class Wanted(Struct, frozen=True):
    """A failure whose values are in the recordings."""

    failure: int  # its place in the list of failures
    kind: Kind
    part: Part
    left: int  # the number of the call among those of its kind, from 0 on
    right: int


class _Line(Struct, frozen=True):
    kind: str
    args: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET
    effects: Raw | UnsetType = UNSET


_line = msgspec.json.Decoder(_Line)


def named_source(recording: Any, name: str) -> Source | None:
    """Return the recording that a caller gave: bytes or text of JSON lines, or the lines as bytes."""
    if recording is None:
        return None
    if isinstance(recording, str):
        recording = recording.encode("utf-8", "surrogatepass")
    if isinstance(recording, bytes):
        recording = io.BytesIO(recording)
    if not isinstance(recording, Iterable):
        raise InvalidInput(
            f"{name} is the content of a recording (bytes, text, or lines as bytes, such as a file"
            f" opened with open(path, 'rb')), not {type(recording).__qualname__}"
        )
    return Source(recording, name)


def add_values(
    failures: list[Failure],
    wanted: Sequence[Wanted],
    sources: tuple[Source | None, Source | None],
    digests: tuple[str | None, str | None],
) -> None:
    """Put the wanted values into the failures.

    Raises InvalidInput when a recording that a user named is not the one of its trace.
    """
    left = _texts(sources[0], digests[0], [(each.left, each) for each in wanted])
    right = _texts(sources[1], digests[1], [(each.right, each) for each in wanted])
    for each in wanted:
        texts = left.get(each.failure), right.get(each.failure)
        values = cut_to_difference(texts[0] or "", texts[1] or "", RECORDED_CHARACTERS_SHOWN)
        failures[each.failure] = msgspec.structs.replace(
            failures[each.failure],
            left_value=None if texts[0] is None else values[0],
            right_value=None if texts[1] is None else values[1],
        )


def _texts(
    source: Source | None, digest: str | None, wanted: Sequence[tuple[int, Wanted]]
) -> dict[int, str]:
    """Return the wanted values of one side as JSON text, by the places of their failures."""
    if source is None or not (source.is_named or (wanted and digest)):
        return {}
    reader = _Reader(wanted)
    hasher = sha256()
    for line in islice(source.lines, _LINES_MAX):
        if type(line) is not bytes:
            raise InvalidInput(f"a line of {source.name} is {type(line).__qualname__}, not bytes")
        hasher.update(line)
        reader.take(line)
    problem = _misfit(hasher.hexdigest(), digest) or reader.fault
    if problem is None:
        return reader.texts
    if source.is_named:
        raise InvalidInput(f"{source.name} is not the recording of its trace: {problem}")
    return {}


def _misfit(found: str, digest: str | None) -> str | None:
    if digest is None:
        return "the trace names none"
    if found != digest:
        return f"its SHA-256 is {found}, and the trace names {digest}"
    return None


class _Reader:
    """Takes the lines of a recording one by one, and keeps what is wanted of them."""

    def __init__(self, wanted: Sequence[tuple[int, Wanted]]) -> None:
        self.texts: dict[int, str] = {}  # by the places of failures
        self._fault: str | None = None
        self._wanted: dict[tuple[str, int], list[Wanted]] = {}
        for number, each in wanted:
            self._wanted.setdefault((each.kind, number), []).append(each)
        self._counts: dict[str, int] | None = None  # None before the first line
        self._room = RECORDED_CHARACTERS_HELD_MAX

    @property
    def fault(self) -> str | None:
        """Return what shows that the lines are not those of a recording."""
        return "it is empty" if self._counts is None and self._fault is None else self._fault

    def take(self, line: bytes) -> None:
        """Look at the next line; after a fault, at none."""
        if self._fault is not None:
            return
        try:
            self._take(line)
        except (msgspec.MsgspecError, RecursionError, InvalidValue, LimitExceeded) as error:
            self._fault = f"a line is not of a recording: {error}"

    def _take(self, line: bytes) -> None:
        if len(line) > RECORDING_LINE_BYTES_MAX:
            raise LimitExceeded("a line in bytes", size=len(line), limit=RECORDING_LINE_BYTES_MAX)
        taken = _line.decode(line)
        if self._counts is None:
            if taken.kind != _START:
                raise InvalidValue(f"the first has the kind {taken.kind!r:.80}", is_text=True)
            self._counts = {}
            return
        number = self._counts.get(taken.kind, 0)
        self._counts[taken.kind] = number + 1
        for each in self._wanted.get((taken.kind, number), ()):
            self.texts[each.failure] = self._held(_text(taken, each.part))

    def _held(self, text: str) -> str:
        """Return as much of a text as there is room for; at least what is shown of it."""
        size = max(self._room, RECORDED_CHARACTERS_SHOWN)
        self._room = max(0, self._room - len(text))
        return text if len(text) <= size else text[:size] + "…"


def _text(line: _Line, part: Part) -> str:
    """Return a part of a call as JSON text; an error as traces know it."""
    if part == "reply":
        error = line.error
        if not isinstance(error, UnsetType):
            return f'{{"error":{_canonical(error)}}}'
        return _canonical(line.result)
    raw = line.args if part == "args" else line.effects
    # A tool of which no effects are known has none.
    return _canonical(raw) if not isinstance(raw, UnsetType) else "{}"


def _canonical(raw: Raw | UnsetType) -> str:
    if isinstance(raw, UnsetType):
        raise InvalidValue("a call has a result or an error", is_text=True)
    return canonical(decode(bytes(raw))).decode()

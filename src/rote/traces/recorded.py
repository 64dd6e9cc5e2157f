"""Values from recordings for a report: arguments, replies and effects beside their fingerprints.

A recording is read once, line by line, and only the parts that a report shows are kept.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from rote.errors import InvalidInput
from rote.traces.profiles import Part, ToolProfile
from rote.traces.recorded_calls import (
    Origin,
    RecordedLine,
    Source,
    compared_part,
    is_tool_call,
)
from rote.traces.reports import Failure, cut_to_difference
from rote.values import canonical
from rote.values.limits import (
    DEPTH_MAX,
    RECORDED_CHARACTERS_HELD_MAX,
    RECORDED_CHARACTERS_SHOWN,
)

Kind = Literal["tool", "model"]


class Recorded(Struct, frozen=True):
    """One side of a comparison, as far as it concerns recordings."""

    source: Source | None
    origin: Origin
    profiles: Mapping[str, ToolProfile]  # of its tools, by name


class Wanted(Struct, frozen=True):
    """A failure whose values are in the recordings."""

    failure: int  # its place in the list of failures
    kind: Kind
    part: Part
    left: (
        int | None
    )  # the number of the call among those of its kind, from 0 on; None: not recorded
    right: int | None


def add_values(
    failures: list[Failure], wanted: Sequence[Wanted], left: Recorded, right: Recorded
) -> None:
    """Put the wanted values into the failures.

    Raises InvalidInput when a recording that a user named is not the one of its trace.
    """
    before = _texts(left, [(each.left, each) for each in wanted])
    after = _texts(right, [(each.right, each) for each in wanted])
    for each in wanted:
        texts = before.get(each.failure), after.get(each.failure)
        values = cut_to_difference(texts[0] or "", texts[1] or "", RECORDED_CHARACTERS_SHOWN)
        failures[each.failure] = msgspec.structs.replace(
            failures[each.failure],
            left_value=None if texts[0] is None else values[0],
            right_value=None if texts[1] is None else values[1],
        )


def _texts(side: Recorded, wanted: Sequence[tuple[int | None, Wanted]]) -> dict[int, str]:
    """Return the wanted values of one side as JSON text, by the places of their failures."""
    if side.source is None or not (side.source.is_named or wanted):
        return {}
    picker = _Picker(wanted, side.profiles)
    try:
        side.source.read(side.origin, picker.take)
    except InvalidInput as problem:
        side.source.refuse(problem)
        return {}
    return picker.texts


class _Picker:
    """Takes the calls of a recording one by one, and keeps what is wanted of them."""

    def __init__(
        self, wanted: Sequence[tuple[int | None, Wanted]], profiles: Mapping[str, ToolProfile]
    ) -> None:
        self.texts: dict[int, str] = {}  # by the places of failures
        self._profiles = profiles
        self._wanted: dict[tuple[str, int | None], list[Wanted]] = {}
        for number, each in wanted:
            self._wanted.setdefault((each.kind, number), []).append(each)
        self._counts: dict[str, int] = {}
        self._room = RECORDED_CHARACTERS_HELD_MAX

    def take(self, line: RecordedLine) -> None:
        kind = "tool" if is_tool_call(line, self._profiles) else line.kind
        number = self._counts.get(kind, 0)
        self._counts[kind] = number + 1
        profile = self._profiles.get(line.name) if kind == "tool" else None
        for each in self._wanted.get((kind, number), ()):
            value = compared_part(line.call(), each.part, profile)
            self.texts[each.failure] = self._held(
                canonical(value, depth_max=2 * DEPTH_MAX).decode()
            )

    def _held(self, text: str) -> str:
        """Return as much of a text as there is room for; at least what is shown of it."""
        size = max(self._room, RECORDED_CHARACTERS_SHOWN)
        self._room = max(0, self._room - len(text))
        return text if len(text) <= size else text[:size] + "…"

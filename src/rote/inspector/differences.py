"""Differences between two runs with their places and values: the event, the call, both values whole.

A report names a difference by its code and shows fingerprints, or values that are cut. The timelines
of both runs have the values.
"""

from collections.abc import Iterable

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from rote.traces.profiles import Part, profiles_told
from rote.traces.recorded_calls import compared_part
from rote.traces.reports import Failure
from rote.traces.timeline import Timeline, TimelineCall
from rote.values import Json

# The parts of a call that differences are about.
_PARTS: dict[str, Part] = {
    "tool_args_mismatch": "args",
    "tool_result_fingerprint_mismatch": "reply",
    "side_effect_fingerprint_mismatch": "effects",
}
_REPLY = "model_reply_mismatch"
_SCORES = "scores_mismatch"


class Difference(Struct, frozen=True):
    """A difference, its place, and the two values there."""

    code: str
    message: str
    event: int | None  # None when it is of the whole run
    subject: str  # the tool or the model; empty when it is of neither
    left: Json
    right: Json


def find_differences(
    failures: Iterable[Failure], left: Timeline, right: Timeline
) -> list[Difference]:
    """Return differences in the order of their events; those of the whole run come last."""
    finder = _Finder(left, right)
    found = [finder.find(failure) for failure in failures]
    return sorted(found, key=lambda each: (each.event is None, each.event))


class _Finder:
    """Finds places and values in the timelines of both runs."""

    def __init__(self, left: Timeline, right: Timeline) -> None:
        self._sides = left, right
        self._profiles = profiles_told(left.tools), profiles_told(right.tools)
        # The replies of the model with their events, and the event of each retrieval, in order.
        self._replies = _replies(left), _replies(right)
        self._asked = [event.index for event in left.events for _ in event.retrievals]

    def find(self, failure: Failure) -> Difference:
        kind, *places = failure.code.split(":")
        numbers = [int(place) for place in places if place.isdecimal()]
        if kind == _REPLY:
            return self._of_reply(failure, numbers[0])
        if kind == _SCORES or kind.startswith("retrieval_"):
            known = self._asked[numbers[0] :][:1] if numbers else []
            return _as_told(failure, known[0] if known else None)
        if len(numbers) == 2:
            return self._of_call(failure, kind, *numbers)
        return _as_told(failure, numbers[0] if numbers else None)

    def _of_call(self, failure: Failure, kind: str, index: int, place: int) -> Difference:
        calls = [side.events[index].tool_calls[place] for side in self._sides]
        told = _as_told(failure, index, calls[0].name)
        part = _PARTS.get(kind)
        if part is None:
            return told
        values = [
            compared_part(call, part, profiles.get(call.name)) if call.is_recorded else UNSET
            for call, profiles in zip(calls, self._profiles, strict=True)
        ]
        return _with_values(told, *values)

    def _of_reply(self, failure: Failure, number: int) -> Difference:
        found = [side[number] if number < len(side) else None for side in self._replies]
        event, call = found[0] or found[1] or (None, None)
        told = _as_told(failure, event, "" if call is None else call.name)
        values = (UNSET if each is None else compared_part(each[1], "reply") for each in found)
        return _with_values(told, *values)


def _with_values(told: Difference, left: Json | UnsetType, right: Json | UnsetType) -> Difference:
    """Return a difference with the recorded values in the place of those that were recorded."""
    return replace(
        told,
        left=told.left if left is UNSET else left,
        right=told.right if right is UNSET else right,
    )


def _replies(run: Timeline) -> list[tuple[int | None, TimelineCall]]:
    placed = [(event.index, call) for event in run.events for call in event.calls]
    rest = [(None, call) for call in run.rest]
    return [each for each in (*placed, *rest) if each[1].kind == "model"]


def _as_told(failure: Failure, event: int | None, subject: str = "") -> Difference:
    return Difference(failure.code, failure.message, event, subject, failure.left, failure.right)

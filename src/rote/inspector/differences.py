"""Differences between two runs with their places and values: the event, the call, both values whole.

A report names a difference by its code and shows fingerprints, or values that are cut. The timelines
of both runs have the values.
"""

from collections.abc import Iterable

from msgspec import UNSET, Struct, to_builtins

from rote.traces.reports import Failure
from rote.traces.timeline import Timeline, TimelineCall
from rote.values import Json

_ARGUMENTS = "tool_args_mismatch"
_RESULT = "tool_result_fingerprint_mismatch"
_EFFECTS = "side_effect_fingerprint_mismatch"
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
        left, right = (side.events[index].tool_calls[place] for side in self._sides)
        told = _as_told(failure, index, left.name)
        values = _member(kind, left), _member(kind, right)
        if UNSET in values or values[0] == values[1]:
            return told
        return Difference(told.code, told.message, index, left.name, *values)

    def _of_reply(self, failure: Failure, number: int) -> Difference:
        found = [side[number] if number < len(side) else None for side in self._replies]
        event, call = found[0] or found[1] or (None, None)
        told = _as_told(failure, event, "" if call is None else call.name)
        values = [UNSET if each is None else told_reply(each[1]) for each in found]
        if UNSET in values:
            return told
        return Difference(told.code, told.message, event, told.subject, *values)


def told_reply(call: TimelineCall) -> Json:
    """Return the result of a call, or its error, as one value; UNSET when it was not recorded."""
    return call.result if call.error is UNSET else {"error": to_builtins(call.error)}


def _member(kind: str, call: TimelineCall) -> Json:
    """Return the part of a call that a difference is about; UNSET when it is not known."""
    if kind == _ARGUMENTS:
        return call.args
    if kind == _RESULT:
        return told_reply(call)
    return call.effects if kind == _EFFECTS else UNSET


def _replies(run: Timeline) -> list[tuple[int | None, TimelineCall]]:
    placed = [(event.index, call) for event in run.events for call in event.calls]
    rest = [(None, call) for call in run.rest]
    return [each for each in (*placed, *rest) if each[1].kind == "model"]


def _as_told(failure: Failure, event: int | None, subject: str = "") -> Difference:
    return Difference(failure.code, failure.message, event, subject, failure.left, failure.right)

"""Align two arrays: find the parts that differ between equal elements that stay in their order.

Three steps, each with less work than the lists are long, or in proportion to it:

    ends       equal elements at both ends stay
    edits      Myers' greedy search for the fewest insertions and deletions, given up when there are
               many (An O(ND) Difference Algorithm and Its Variations, 1986)
    anchors    then elements that stand once in either list stay, as many as are in order, and edits
               are searched between them

The answer depends on the two lists alone.
"""

from bisect import bisect_left
from itertools import pairwise
from math import isqrt
from typing import Any, NamedTuple

import orjson

from rote.values.limits import ALIGNMENT_EDITS_MAX, ALIGNMENT_EDITS_MIN, ALIGNMENT_RUNS

# Elements that are compared at once while they are equal.
_BLOCK = 64


class Gap(NamedTuple):
    """Elements of the old list that others of the new list replace; one side may be empty."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int

    @property
    def old_count(self) -> int:
        return self.old_end - self.old_start

    @property
    def new_count(self) -> int:
        return self.new_end - self.new_start


def find_gaps(old: list[Any], new: list[Any]) -> list[Gap]:
    """Return the gaps between equal elements, in order; elements are equal when == says so."""
    whole = _without_ends(old, new, Gap(0, len(old), 0, len(new)))
    edited = _edited(old, new, whole)
    if edited is not None:
        return edited
    parts = _between_anchors(old, new, whole)
    if len(parts) == 1:
        return parts
    found: list[Gap] = []
    for part in parts:
        inner = _without_ends(old, new, part)
        edited = _edited(old, new, inner)
        found += [inner] if edited is None else edited
    return found


def _without_ends(old: list[Any], new: list[Any], part: Gap) -> Gap:
    x, x_end, y, y_end = part
    start = _equal_run(old, new, x, y, min(part.old_count, part.new_count))
    room = min(part.old_count, part.new_count) - start
    end = 0
    while end < room and old[x_end - end - 1] == new[y_end - end - 1]:
        end += 1
    return Gap(x + start, x_end - end, y + start, y_end - end)


def _equal_run(old: list[Any], new: list[Any], x: int, y: int, limit: int) -> int:
    """Return the number of equal elements from two places on, at most `limit`."""
    count = 0
    while (
        count + _BLOCK <= limit
        and old[x + count] == new[y + count]
        and old[x + count : x + count + _BLOCK] == new[y + count : y + count + _BLOCK]
    ):
        count += _BLOCK
    while count < limit and old[x + count] == new[y + count]:
        count += 1
    return count


def _edited(old: list[Any], new: list[Any], part: Gap) -> list[Gap] | None:
    """Return the gaps of the fewest insertions and deletions; None when there are too many.

    A point (x, y) says that x old elements have become y new ones; it lies on the diagonal x - y.
    `furthest` has the highest x on each diagonal after so many edits.
    """
    if not part.old_count or not part.new_count:
        return [part] if part.old_count or part.new_count else []
    size = part.old_count + part.new_count
    edits_max = min(max(isqrt(size), ALIGNMENT_EDITS_MIN), ALIGNMENT_EDITS_MAX)
    work = ALIGNMENT_RUNS * size
    furthest = {1: 0}
    trail: list[dict[int, int]] = []
    for edits in range(edits_max + 1):
        trail.append(furthest.copy())
        for diagonal in range(-edits, edits + 1, 2):
            x = _step(furthest, diagonal, edits)[0]
            y = x - diagonal
            run = _equal_run(
                old, new, part.old_start + x, part.new_start + y,
                min(part.old_count - x, part.new_count - y),
            )  # fmt: skip
            furthest[diagonal] = x + run
            if x + run >= part.old_count and y + run >= part.new_count:
                return _gaps_on(trail, part)
            work -= run
        if work < 0:
            return None
    return None


def _step(furthest: dict[int, int], diagonal: int, edits: int) -> tuple[int, bool]:
    """Return the x to which the last edit led on a diagonal, and whether it was an insertion."""
    if diagonal == -edits or (
        diagonal != edits and furthest[diagonal - 1] < furthest[diagonal + 1]
    ):
        return furthest[diagonal + 1], True
    return furthest[diagonal - 1] + 1, False


def _gaps_on(trail: list[dict[int, int]], part: Gap) -> list[Gap]:
    """Return the edits that led to the end, found backwards; edits at one place are one gap."""
    gaps: list[Gap] = []
    diagonal = part.old_count - part.new_count
    for edits in range(len(trail) - 1, 0, -1):
        x, inserted = _step(trail[edits], diagonal, edits)
        x_end, y_end = part.old_start + x, part.new_start + x - diagonal
        x_start, y_start = (x_end, y_end - 1) if inserted else (x_end - 1, y_end)
        if gaps and (x_end, y_end) == (gaps[-1].old_start, gaps[-1].new_start):
            x_end, y_end = gaps[-1].old_end, gaps[-1].new_end
            gaps.pop()
        gaps.append(Gap(x_start, x_end, y_start, y_end))
        diagonal += 1 if inserted else -1
    return gaps[::-1]


def _between_anchors(old: list[Any], new: list[Any], part: Gap) -> list[Gap]:
    """Return what lies between the anchors; the part itself when there are none."""
    old_places = _places_of_single(old, part.old_start, part.old_end)
    new_places = _places_of_single(new, part.new_start, part.new_end)
    shared = [(x, new_places[key]) for key, x in old_places.items() if key in new_places]
    anchors = [
        (part.old_start - 1, part.new_start - 1),
        *_longest_rise(shared),
        (part.old_end, part.new_end),
    ]
    return [Gap(x + 1, x_next, y + 1, y_next) for (x, y), (x_next, y_next) in pairwise(anchors)]


def _places_of_single(elements: list[Any], start: int, end: int) -> dict[bytes, int]:
    """Return the places of the elements that stand there once, by their text, in order."""
    places: dict[bytes, int] = {}
    repeated: set[bytes] = set()
    for place in range(start, end):
        key = orjson.dumps(elements[place])
        if places.setdefault(key, place) != place:
            repeated.add(key)
    return {key: place for key, place in places.items() if key not in repeated}


def _longest_rise(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the most pairs whose second numbers rise; the first ones rise already."""
    lowest: list[int] = []  # by length: the lowest second number at the end of such a rise
    last: list[int] = []  # the pair that it belongs to
    before: list[int] = []  # for each pair the one before it
    for index, (_, y) in enumerate(pairs):
        length = bisect_left(lowest, y)
        before.append(last[length - 1] if length else -1)
        lowest[length : length + 1] = [y]
        last[length : length + 1] = [index]
    rise: list[tuple[int, int]] = []
    index = last[-1] if last else -1
    while index >= 0:
        rise.append(pairs[index])
        index = before[index]
    return rise[::-1]

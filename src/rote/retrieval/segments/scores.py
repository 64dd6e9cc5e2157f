"""The scores of the memories that the index has found, by their totals.

A question asks for few of the best. In threads these are found by bounds: whole blocks of cells are
passed over when no total in them can be among the best.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import accumulate, chain
from operator import mul

from rote.retrieval.order import Column
from rote.retrieval.ranking import weights
from rote.retrieval.segments.layout import Layout
from rote.retrieval.segments.scoring import (
    CellPosting,
    PartTotals,
    block_bounds,
    count_reached,
    threaded_totals,
    totals_in,
)

_SAMPLED = 16  # one of so many numbers is looked at to guess which are great


def _guess(numbers: Sequence[int], count: int) -> int:
    """Return what about so many numbers are likely to reach."""
    sample = sorted(numbers[::_SAMPLED], reverse=True)
    return sample[min(len(sample) - 1, count // _SAMPLED + _SAMPLED)]


def _ranked(bounds: Sequence[int], least: int) -> list[int]:
    """Return the blocks with no lower bound, the greatest first."""
    blocks = [block for block, bound in enumerate(bounds) if bound >= least]
    return sorted(blocks, key=lambda block: -bounds[block])


def _floor(totals: Iterable[int], count: int) -> int:
    """Return the least total that scores like the last of so many best."""
    return weights.total_from(weights.score(sorted(totals, reverse=True)[count - 1]))


class _PartRows:
    """Implements order.Column: the rows of totals that come part by part. Few are asked for."""

    def __init__(self, bases: Sequence[int], found: Sequence[dict[int, int]]) -> None:
        self._bases = bases  # of parts
        self._found = found  # the rows of each, in the order of their totals
        self._starts = list(accumulate(map(len, found), initial=0))
        self._listed: dict[int, list[int]] = {}

    def __getitem__(self, place: int) -> int:
        part = bisect_right(self._starts, place) - 1
        rows = self._listed.get(part)
        if rows is None:
            rows = self._listed[part] = list(self._found[part])
        return self._bases[part] + rows[place - self._starts[part]]


class FoundScores:
    """Implements ranking.scores.Scores by the totals of rows; a total of 0 is none."""

    def __init__(self, totals: list[int], least: int, rows: Column[int]) -> None:
        self._totals = totals
        self._least = least  # no total above 0 is below
        self._rows = rows  # one for each total
        self._count: int | None = None

    def __len__(self) -> int:
        if self._count is None:
            if self._least >= weights.total_from(1):
                self._count = len(self._totals) - self._totals.count(0)
            else:
                self._count = self.count_from(1)
        return self._count

    def best(self, count: int) -> list[tuple[int, int]]:
        return [(score, self._rows[place]) for score, place in self._best_places(count)]

    def _best_places(self, count: int) -> list[tuple[int, int]]:
        totals = self._totals
        floor = weights.total_from(1)
        if count < len(self):
            # It is likely to leave about twice as many; with fewer all are looked at.
            guess = _guess(totals, 2 * count)
            likely = [place for place, total in enumerate(totals) if total >= guess]
            if len(likely) >= count:
                floor = _floor(map(totals.__getitem__, likely), count)
            if floor >= guess > 0:
                return [
                    (weights.score(totals[place]), place)
                    for place in likely
                    if totals[place] >= floor
                ]
        return [
            (weights.score(total), place) for place, total in enumerate(totals) if total >= floor
        ]

    def count_from(self, least: int) -> int:
        floor = weights.total_from(max(1, least))
        return sum(map(floor.__le__, self._totals))

    def raised(self, more: Callable[[int], int]) -> "FoundScores":
        raised = list(self._totals)
        for score, place in self._best_places(len(self)):
            raised[place] = weights.total_from(score + more(self._rows[place]))
        return FoundScores(raised, 0, self._rows)


class PlainScores:
    """Implements ranking.scores.Scores by the totals of parts, of which some may be left out."""

    def __init__(
        self, bases: Sequence[int], found: Sequence[PartTotals], least: int, most: int
    ) -> None:
        self._bases = bases  # of parts
        self._found = found
        self._least = least  # no total above 0 is below
        self._most = most  # no total that is left out is above
        self._some = self._scores([each.own for each in found])

    def _scores(self, found: Sequence[dict[int, int]]) -> FoundScores:
        totals = list(chain.from_iterable(own.values() for own in found))
        return FoundScores(totals, self._least, _PartRows(self._bases, found))

    @cached_property
    def _whole(self) -> FoundScores:
        return self._scores([each.whole() for each in self._found])

    def __len__(self) -> int:
        if self._least < weights.total_from(1):
            return len(self._whole)
        return len(self._some) + sum(len(each.waiting) - each.known for each in self._found)

    def best(self, count: int) -> list[tuple[int, int]]:
        if 0 < count <= len(self._some):
            best = self._some.best(count)
            if min(best)[0] > weights.score(self._most):
                return best
        return self._whole.best(count)

    def count_from(self, least: int) -> int:
        return self._whole.count_from(least)

    def raised(self, more: Callable[[int], int]) -> FoundScores:
        return self._whole.raised(more)


class ThreadedScores:
    """Implements ranking.scores.Scores by cells of threads, of which only some are filled."""

    def __init__(
        self, layout: Layout, filled: bytes, found: Sequence[CellPosting], least: int
    ) -> None:
        self._layout = layout
        self._filled = filled  # 1 for a cell that counts, else 0
        self._found = found
        self._least = least  # no total above 0 is below

    @cached_property
    def _whole(self) -> FoundScores:
        """Return the totals of all cells."""
        totals = map(mul, threaded_totals(self._layout, self._found), self._filled)
        return FoundScores(list(totals), self._least, self._layout.rows)

    @cached_property
    def _count(self) -> int:
        if self._least < weights.total_from(1):
            return len(self._whole)
        return count_reached(self._layout, self._filled, self._found)

    def __len__(self) -> int:
        return self._count

    def best(self, count: int) -> list[tuple[int, int]]:
        if count >= len(self):
            return self._whole.best(count)
        bounds = block_bounds(self._layout, self._found)
        # The greater a bound, the likelier is a great total: after some blocks few others are left.
        guess = max(1, _guess(bounds, count))
        ranked = _ranked(bounds, guess)
        size = 2 * count
        totals = self._totals_in(ranked[:size])
        if len(totals) < count:
            return self._whole.best(count)
        floor, done = _floor(totals.values(), count), min(size, len(ranked))
        if floor < guess:
            ranked = _ranked(bounds, floor)
        while done < len(ranked) and bounds[ranked[done]] >= floor:
            totals |= self._totals_in(ranked[done : done + size])
            floor, done, size = _floor(totals.values(), count), done + size, 2 * size
        rows = self._layout.rows
        return [
            (weights.score(total), rows[cell]) for cell, total in totals.items() if total >= floor
        ]

    def _totals_in(self, blocks: Sequence[int]) -> dict[int, int]:
        found = totals_in(frozenset(blocks), self._layout, self._found)
        return {cell: total for cell, total in found if self._filled[cell]}

    def count_from(self, least: int) -> int:
        return self._whole.count_from(least)

    def raised(self, more: Callable[[int], int]) -> FoundScores:
        return self._whole.raised(more)

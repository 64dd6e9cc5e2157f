"""The best, found by bounds, are those of all totals, which are made here as the contract says."""

from array import array
from random import Random

import pytest

from rote.retrieval.ranking import weights
from rote.retrieval.ranking.scores import Scores
from rote.retrieval.segments import scores
from rote.retrieval.segments.layout import GAP, Layout
from rote.retrieval.segments.scores import PlainScores, ThreadedScores
from rote.retrieval.segments.scoring import CellPosting, PartTotals
from tests.lanes import examples

AFTER, BEFORE = (6, 4, 2), (5, 3, 1)
WEIGHT_MIN, WEIGHT_MAX, IDF_MIN, IDF_MAX = 30_000, 140_000, 200_000, 1_000_000


class Case:
    """Threads of which few cells have a term, and some free cells; rows have the numbers of cells."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        lengths = random.choices((1, 2, 5, 20, 60), k=random.randint(1, 30))
        free = random.choice((0, 0, 3, 40))
        self.threads = [[cell] for cell in range(free)]
        gaps, start = list(range(free, free + GAP)), free + GAP
        for length in lengths:
            self.threads.append(list(range(start, start + length)))
            gaps += range(start + length, start + length + GAP)
            start += length + GAP
        self.layout = Layout()
        self.layout.rows = array("I", range(start))
        self.layout.gaps, self.layout.free = array("I", gaps), free
        filled = bytearray(self.layout.filled)
        cells = [cell for thread in self.threads for cell in thread]
        self.gone = set(random.sample(cells, k=random.choice((0, len(cells) // 10))))
        for cell in self.gone:
            filled[cell] = 0
        self.found = [self._posting(cells) for _ in range(random.randint(1, 4))]
        least = WEIGHT_MIN * IDF_MIN
        self.scores = ThreadedScores(self.layout, bytes(filled), self.found, least)

    def _posting(self, cells: list[int]) -> CellPosting:
        random = self.random
        chosen = random.sample(cells, k=max(1, len(cells) // random.choice((2, 10, 50))))
        weighed = [
            0 if cell in self.gone else random.randint(WEIGHT_MIN, WEIGHT_MAX) for cell in chosen
        ]
        return CellPosting.of(random.randint(IDF_MIN, IDF_MAX), chosen, weighed)

    def expected(self) -> list[tuple[int, int]]:
        """Return score and row of all that have a score."""
        totals: dict[int, int] = {}
        for each in self.found:
            own = dict(zip(each.cells, each.weights, strict=True))
            for thread in self.threads:
                for place, cell in enumerate(thread):
                    before, after = thread[max(0, place - 3) : place][::-1], thread[place + 1 :]
                    shares = [
                        10 * own.get(cell, 0),
                        *(n * own.get(c, 0) for n, c in zip(AFTER, before, strict=False)),
                        *(n * own.get(c, 0) for n, c in zip(BEFORE, after, strict=False)),
                    ]
                    totals[cell] = totals.get(cell, 0) + each.idf * max(shares)
        return sorted(
            (weights.score(total), cell)
            for cell, total in totals.items()
            if total and cell not in self.gone
        )


def check_best(found: Scores, expected: list[tuple[int, int]]) -> None:
    """Compare scores with those of all rows that have one, sorted."""
    assert len(found) == len(expected)
    if not expected:
        assert found.best(10) == []
        return
    for count in {1, 2, 10, len(expected) // 2, len(expected) - 1, len(expected)} - {0, -1}:
        best = found.best(count)
        assert len(best) >= min(count, len(expected))
        least = min(best)[0]
        assert sorted(best) == [each for each in expected if each[0] >= least]
    middle = expected[len(expected) // 2][0]
    assert found.count_from(middle) == sum(score >= middle for score, _ in expected)


@pytest.mark.parametrize("sampled", [1, 16])
def test_the_best_in_threads_are_those_of_all(
    sampled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scores, "_SAMPLED", sampled)
    for seed in range(examples(60, 5_000)):
        case = Case(seed)
        check_best(case.scores, case.expected())


def test_the_best_are_those_of_all_where_some_totals_are_left_out() -> None:
    for seed in range(examples(200, 10_000)):
        random = Random(seed)
        idf = random.randint(IDF_MIN, IDF_MAX)
        times = random.choice((idf, random.randint(IDF_MIN, IDF_MAX)))
        by_row = random.choices((WEIGHT_MIN, 60_000, WEIGHT_MAX), k=50)  # so that many are equal
        parts, bases, expected = [], [0, 50, 1_000], []
        for base in bases:
            waiting = random.sample(range(50), k=random.randrange(1, 50))
            others = random.sample(range(50), k=random.randrange(50))
            own = {row: idf * by_row[row] for row in others}
            known = own.keys() & set(waiting)
            own |= {row: own[row] + times * by_row[row] for row in known}
            whole = {row: times * by_row[row] for row in waiting} | own
            expected += [(weights.score(total), base + row) for row, total in whole.items()]
            parts.append(PartTotals(own, waiting, len(known), by_row, times))
        found = PlainScores(bases, parts, WEIGHT_MIN * IDF_MIN, times * max(by_row))
        check_best(found, sorted(expected))

"""Selection by lexical-1: who is in the answer, and for everybody else the first reason why not."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter

from msgspec import Struct

from rote.questions import Budget, Scoring, normal_text
from rote.retrieval.ranking.excerpts import Excerpt, Excerpts
from rote.retrieval.ranking.memories import Memories
from rote.retrieval.ranking.scores import Scores
from rote.retrieval.selection import BUDGET_EXHAUSTED, MAX_ITEMS_REACHED
from rote.values.limits import (
    CANDIDATES_FIRST,
    CANDIDATES_GROWTH,
    MISFITS_MAX,
    RECORDS_READ_AT_ONCE,
    RECORDS_READ_FIRST,
)

BELOW_MIN_SCORE = "below_min_score"
DUPLICATE = "duplicate"


class Candidate(Struct, frozen=True, gc=False):
    """A memory that has a score."""

    score: int  # millionths
    corpus: Memories
    row: int

    @property
    def text(self) -> str:
        return self.corpus.texts[self.row]


class Selected(Struct, frozen=True):
    """A memory that is in the answer."""

    candidate: Candidate
    excerpt: Excerpt


class Ranking:
    """Candidates, best first. Few are ever reached, so only these are found and put in order."""

    def __init__(self, stores: Sequence[tuple[Memories, Scores]]) -> None:
        self._stores = stores
        self._count = sum(len(scores) for _, scores in stores)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Candidate]:
        count, reached = CANDIDATES_FIRST, 0
        while reached < self._count:
            found = self._found(count)
            yield from islice(_in_order(found), reached, None)
            count, reached = count * CANDIDATES_GROWTH, len(found)

    def _found(self, count: int) -> list[Candidate]:
        """Return at least the first so many candidates, by score."""
        found, least = [], 0
        for memories, scores in self._stores:
            best = scores.best(count)
            found += [Candidate(score, memories, row) for score, row in best]
            if len(best) < len(scores):
                # Others of this store may be better than those of other stores below it.
                least = max(least, min(score for score, _ in best))
        return sorted((each for each in found if each.score >= least), key=lambda each: -each.score)

    def count_from(self, scoring: Scoring) -> int:
        """Return how many have enough of a score."""
        if not scoring.min_score and not scoring.min_share:
            return self._count
        best = max((score for _, scores in self._stores for score, _ in scores.best(1)), default=0)
        # The least integer that is no less than the share.
        least = max(scoring.min_score, -(-scoring.min_share * best // 1_000))
        return sum(scores.count_from(least) for _, scores in self._stores)


def _in_order(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """Yield candidates that are sorted by score in their order; ties are decided when reached."""
    for _, ties in groupby(candidates, key=lambda each: each.score):
        tied = list(ties)
        if len(tied) > 1:
            tied.sort(key=lambda each: each.corpus.rank_key(each.row))
        yield from tied


class Selection(Struct, frozen=True):
    """The selected, and why the others are not."""

    selected: Sequence[Selected]
    passed: Sequence[tuple[str, Candidate]]  # over, with their reasons, by rank
    rest: str  # the reason of those that rank below all of these and have enough of a score
    rest_count: int
    weak_count: int  # of those without enough of a score, who rank last

    def counts(self) -> dict[str, int]:
        """Return the number of each reason."""
        counts = {BELOW_MIN_SCORE: self.weak_count, DUPLICATE: 0, BUDGET_EXHAUSTED: 0}
        for reason, _ in self.passed:
            counts[reason] += 1
        counts[self.rest] = counts.get(self.rest, 0) + self.rest_count
        return counts

    def dropped(self, ranking: Ranking) -> Iterator[tuple[str, Candidate]]:
        """Yield all candidates that are not selected: by reason, then by rank."""
        done = len(self.selected) + len(self.passed)
        weak_from = done + self.rest_count
        for each in islice(ranking, weak_from, None):
            yield BELOW_MIN_SCORE, each
        yield from sorted(self.passed, key=itemgetter(0), reverse=True)
        for each in islice(ranking, done, weak_from):
            yield self.rest, each


def select(ranking: Ranking, scoring: Scoring, budget: Budget, excerpts: Excerpts) -> Selection:
    """Go through the ranking until the answer is full or too many memories do not fit."""
    enough = ranking.count_from(scoring)
    selected: list[Selected] = []
    passed: list[tuple[str, Candidate]] = []
    texts: set[str] = set()
    left, misfits = budget.max_excerpt_tokens, 0
    for each in _loaded(islice(ranking, enough), budget.max_items):
        text = normal_text(each.text) if scoring.drop_duplicates else ""
        if scoring.drop_duplicates and text in texts:
            passed.append((DUPLICATE, each))
            continue
        excerpt = excerpts.of(each.text)
        if excerpt.tokens > left:
            misfits += 1
            passed.append((BUDGET_EXHAUSTED, each))
            if misfits == MISFITS_MAX:
                break
            continue
        left -= excerpt.tokens
        texts.add(text)
        selected.append(Selected(each, excerpt))
        if len(selected) == budget.max_items:
            break
    is_full = len(selected) == budget.max_items
    return Selection(
        selected,
        passed,
        rest=MAX_ITEMS_REACHED if is_full else BUDGET_EXHAUSTED,
        rest_count=enough - len(selected) - len(passed),
        weak_count=len(ranking) - enough,
    )


def _loaded(candidates: Iterator[Candidate], wanted: int) -> Iterator[Candidate]:
    """Yield candidates with their texts, which are read some at a time: at first as many as wanted."""
    count = min(wanted, RECORDS_READ_AT_ONCE)
    while batch := list(islice(candidates, count)):
        rows: dict[int, tuple[Memories, list[int]]] = {}
        for each in batch:
            rows.setdefault(id(each.corpus), (each.corpus, []))[1].append(each.row)
        for memories, missing in rows.values():
            memories.load(missing)
        yield from batch
        count = RECORDS_READ_FIRST

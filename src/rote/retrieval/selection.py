"""Ranking and cutting: which memories come back, and how much of each."""

from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain, islice

from msgspec import Struct

from rote.retrieval.corpus import Corpus
from rote.retrieval.request import Budget

BUDGET_EXHAUSTED = "budget_exhausted"
MAX_ITEMS_REACHED = "max_items_reached"

_TOKEN_BYTES = 4

Place = tuple[Corpus, int]  # a corpus and a row in it


class Selected(Struct, frozen=True):
    """A memory that comes back."""

    corpus: Corpus
    row: int
    score: float
    excerpt: str
    tokens: int


class Ranking:
    """All eligible rows of all corpora, best first."""

    def __init__(
        self,
        corpora: Sequence[Corpus],
        scores: Sequence[Mapping[int, float]],
        denied: Sequence[frozenset[int]],
    ) -> None:
        self._corpora = corpora
        self._scores = scores
        self._denied = denied

    def __iter__(self) -> Iterator[tuple[Corpus, int, float]]:
        return chain(self.scored(), ((corpus, row, 0.0) for corpus, row in self.unscored()))

    def scored(self) -> list[tuple[Corpus, int, float]]:
        """Those with a score above zero."""
        found = [
            (corpus, row, score)
            for corpus, scores in zip(self._corpora, self._scores, strict=True)
            for row, score in scores.items()
        ]
        found.sort(key=lambda item: (-item[2], item[0].rank_key(item[1])))
        return found

    def unscored(self) -> Iterator[Place]:
        """The others; without a score only the fixed order decides."""
        places = [
            self._unscored_of(*each)
            for each in zip(self._corpora, self._scores, self._denied, strict=True)
        ]
        if len(places) == 1:
            return places[0]
        return merge(*places, key=lambda place: place[0].rank_key(place[1]))

    @staticmethod
    def _unscored_of(
        corpus: Corpus, scores: Mapping[int, float], denied: frozenset[int]
    ) -> Iterator[Place]:
        return (
            (corpus, row) for row in corpus.order if row not in scores and row not in denied
        )


def select(ranking: Ranking, budget: Budget) -> tuple[list[Selected], str]:
    """What comes back, best first, and why the next one does not."""
    selected: list[Selected] = []
    used = 0
    for corpus, row, score in islice(ranking, budget.max_items):
        excerpt = cut(corpus.texts[row], budget.per_item_max_excerpt_tokens)
        tokens = tokens_of(excerpt)
        if used + tokens > budget.max_excerpt_tokens:
            return selected, BUDGET_EXHAUSTED
        used += tokens
        selected.append(Selected(corpus, row, score, excerpt, tokens))
    return selected, MAX_ITEMS_REACHED


def cut(text: str, tokens: int) -> str:
    """The beginning of a text, at most so many tokens of it."""
    text = text.strip()
    bytes_max = tokens * _TOKEN_BYTES
    if len(text) * _TOKEN_BYTES <= bytes_max:
        return text
    # No character has less than one byte, so this many hold enough.
    return text[:bytes_max].encode()[:bytes_max].decode(errors="ignore")


def tokens_of(excerpt: str) -> int:
    """An estimate that is the same everywhere."""
    return -(-len(excerpt.encode()) // _TOKEN_BYTES)

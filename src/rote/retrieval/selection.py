"""Ranking and cutting: which memories come back, and how much of each."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice

from msgspec import Struct

from rote.questions import Budget
from rote.retrieval.corpus import Corpus
from rote.retrieval.order import Order

BUDGET_EXHAUSTED = "budget_exhausted"
MAX_ITEMS_REACHED = "max_items_reached"

_TOKEN_BYTES = 4


class Selected(Struct, frozen=True):
    """A memory that comes back."""

    row: int
    score: float
    excerpt: str
    tokens: int


class Ranking:
    """All rows of a corpus that may come back, best first."""

    def __init__(self, corpus: Corpus, scores: Mapping[int, float], denied: Sequence[int]) -> None:
        self.corpus = corpus
        self.scores = scores
        self.denied = denied  # in the order of reading
        self.order = corpus.order
        # Most have no score, and among them only the fixed order decides.
        self.scored = _by_score(scores, self.order)

    def __len__(self) -> int:
        return len(self.corpus) - len(self.denied)

    def __iter__(self) -> Iterator[int]:
        return chain(map(self.order.row, self.scored), self.unscored())

    def unscored(self) -> Iterator[int]:
        """Those that have no score, in their order."""
        denied = frozenset(self.denied)
        return (row for row in self.order if row not in self.scores and row not in denied)


def _by_score(scores: Mapping[int, float], order: Order) -> list[int]:
    """The places of the rows that have a score, best first."""
    places = defaultdict[float, list[int]](list)
    for score, place in zip(scores.values(), order.places(scores), strict=True):
        places[score].append(place)
    return [place for score in sorted(places, reverse=True) for place in sorted(places[score])]


def select(ranking: Ranking, budget: Budget) -> tuple[list[Selected], str]:
    """What comes back, best first, and why the next one would not."""
    selected: list[Selected] = []
    used = 0
    for row in islice(ranking, budget.max_items):
        excerpt = cut(ranking.corpus.texts[row], budget.per_item_max_excerpt_tokens)
        tokens = tokens_of(excerpt)
        if used + tokens > budget.max_excerpt_tokens:
            return selected, BUDGET_EXHAUSTED
        used += tokens
        selected.append(Selected(row, float(ranking.scores.get(row, 0)), excerpt, tokens))
    return selected, MAX_ITEMS_REACHED


def cut(text: str, tokens: int) -> str:
    """The beginning of a text, at most so many tokens of it."""
    bytes_max = tokens * _TOKEN_BYTES
    # No character has less than one byte, so this many hold enough.
    return text.strip()[:bytes_max].encode()[:bytes_max].decode(errors="ignore")


def tokens_of(excerpt: str) -> int:
    """An estimate that is the same everywhere."""
    return -(-len(excerpt.encode()) // _TOKEN_BYTES)

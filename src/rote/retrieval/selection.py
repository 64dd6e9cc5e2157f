"""Ranking and cutting: decides which memories are in the answer, and how much of each."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol

from msgspec import Struct

from rote.questions import Budget, Request
from rote.retrieval.corpus import Corpus
from rote.retrieval.scoring import add_recency, count_halves

BUDGET_EXHAUSTED = "budget_exhausted"
MAX_ITEMS_REACHED = "max_items_reached"

_TOKEN_BYTES = 4
# Stands in place of the halves of a denied row; no score that fits into a byte is so high.
_DENIED = 255


class Selected(Struct, frozen=True):
    """A memory that is in the answer."""

    row: int
    score: float
    excerpt: str
    tokens: int


class Ranking(Protocol):
    """All rows of a corpus that may be in the answer, best first."""

    corpus: Corpus
    denied: Sequence[int]  # in the order of reading

    def __iter__(self) -> Iterator[int]: ...

    def score(self, row: int) -> float: ...

    def encoded(self, selected: int, reason: str) -> Iterator[bytes | memoryview]:
        """Yield the rows after the first so many as dropped ones."""
        ...


def rank(request: Request, corpus: Corpus, denied: Sequence[int]) -> Ranking:
    halves = count_halves(request.scoring, corpus)
    if isinstance(halves, bytearray) and not request.scoring.enable_recency_weight:
        return _RankingByHalves(corpus, halves, denied)
    return _RankingByScore(corpus, add_recency(halves, request, corpus), denied)


class _RankingByHalves:
    """Scores of a few sizes; rows of one size stand in the order of the corpus."""

    def __init__(self, corpus: Corpus, halves: bytearray, denied: Sequence[int]) -> None:
        self.corpus = corpus
        self.denied = denied
        self._halves = halves
        for row in corpus.gone:
            halves[row] = 0
        for row in denied:
            halves[row] = _DENIED
        self._blocks = corpus.order.arranged(halves)
        # Nearly all are zeros, which need not be visited one by one.
        sizes = {0, *b"".join(self._blocks).translate(None, b"\0")}
        self._sizes = sorted(sizes - {_DENIED}, reverse=True)

    def __iter__(self) -> Iterator[int]:
        for position, spans in self._spans():
            for start, end in spans:
                yield from self.corpus.order.rows_in(position, start, end)

    def score(self, row: int) -> float:
        return self._halves[row] / 2

    def encoded(self, selected: int, reason: str) -> Iterator[bytes | memoryview]:
        order = self.corpus.order
        for position, spans in self._spans():
            if selected:
                selected, spans = _after(selected, spans)
            if spans:
                yield from order.encoded_in(position, spans, reason, self.corpus)

    def _spans(self) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """Yield, size by size and block by block, the spans of consecutive rows of that size."""
        for size in self._sizes:
            runs = re.compile(re.escape(bytes((size,))) + b"+").finditer
            for position, block in enumerate(self._blocks):
                if size in block:
                    yield position, [run.span() for run in runs(block)]


def _after(count: int, spans: list[tuple[int, int]]) -> tuple[int, list[tuple[int, int]]]:
    """Return the spans without their first `count` rows, and how many rows are still to be skipped."""
    left = []
    for start, end in spans:
        taken = min(count, end - start)
        count -= taken
        if start + taken < end:
            left.append((start + taken, end))
    return count, left


class _RankingByScore:
    """Scores of any size."""

    def __init__(self, corpus: Corpus, scores: Sequence[float], denied: Sequence[int]) -> None:
        self.corpus = corpus
        self.denied = denied
        self._scores = scores
        refused = frozenset(denied)
        self._rows = [row for row in corpus.order if row not in refused]
        # The sort is stable, so rows of equal score stay in the order of the corpus.
        self._rows.sort(key=scores.__getitem__, reverse=True)

    def __iter__(self) -> Iterator[int]:
        return iter(self._rows)

    def score(self, row: int) -> float:
        return self._scores[row]

    def encoded(self, selected: int, reason: str) -> Iterator[bytes | memoryview]:
        return self.corpus.order.encoded(self._rows[selected:], reason, self.corpus)


def select(ranking: Ranking, budget: Budget) -> tuple[list[Selected], str]:
    """Return the selected memories, best first, and the reason why the next one is left out."""
    selected: list[Selected] = []
    used = 0
    for row in islice(ranking, budget.max_items):
        excerpt = cut(ranking.corpus.texts[row], budget.per_item_max_excerpt_tokens)
        tokens = tokens_of(excerpt)
        if used + tokens > budget.max_excerpt_tokens:
            return selected, BUDGET_EXHAUSTED
        used += tokens
        selected.append(Selected(row, ranking.score(row), excerpt, tokens))
    return selected, MAX_ITEMS_REACHED


def cut(text: str, tokens: int) -> str:
    """Return the beginning of a text, at most so many tokens of it."""
    bytes_max = tokens * _TOKEN_BYTES
    # Every character has at least one byte, so this many characters are enough.
    return text.strip()[:bytes_max].encode()[:bytes_max].decode(errors="ignore")


def tokens_of(excerpt: str) -> int:
    """Return an estimate that is the same on every machine."""
    return -(-len(excerpt.encode()) // _TOKEN_BYTES)

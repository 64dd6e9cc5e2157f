"""Ranking and cutting: decides which memories are in the answer, and how much of each."""

from array import array
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from rote.questions import Budget, Request
from rote.retrieval.corpus import Corpus
from rote.retrieval.scoring import add_recency, count_halves

BUDGET_EXHAUSTED = "budget_exhausted"
MAX_ITEMS_REACHED = "max_items_reached"

_TOKEN_BYTES = 4


class Selected(Struct, frozen=True):
    """A memory that is in the answer."""

    row: int
    score: float
    excerpt: str
    tokens: int


class Ranking(Struct, frozen=True):
    """All rows of a corpus that may be in the answer, best first."""

    corpus: Corpus
    denied: Sequence[int]  # in the order of reading
    rows: Sequence[int]
    score: Callable[[int], float]  # of a row


def rank(request: Request, corpus: Corpus, denied: Sequence[int]) -> Ranking:
    halves = count_halves(request.scoring, corpus)
    refused = frozenset(denied)
    rows = [row for row in corpus.order if row not in refused] if refused else corpus.order
    if isinstance(halves, bytearray) and not request.scoring.enable_recency_weight:
        return Ranking(corpus, denied, _sorted_by_byte(rows, halves), lambda row: halves[row] / 2)
    scores = add_recency(halves, request, corpus)
    # The sort is stable, so rows of equal score stay in the order of the corpus.
    score = scores.__getitem__
    return Ranking(corpus, denied, sorted(rows, key=score, reverse=True), score)


def _sorted_by_byte(rows: Iterable[int], bytes: bytearray) -> "array[int]":
    """Return the rows by their bytes, the highest first; rows of equal bytes stay in their order."""
    groups = [array("I") for _ in range(256)]
    adds = [group.append for group in groups]
    for row in rows:
        adds[bytes[row]](row)
    whole = array("I")
    for group in reversed(groups):
        whole += group
    return whole


def select(ranking: Ranking, budget: Budget) -> tuple[list[Selected], str]:
    """Return the selected memories, best first, and the reason why the next one is left out."""
    selected: list[Selected] = []
    used = 0
    for row in ranking.rows[: budget.max_items]:
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

"""Scores: plain arithmetic on doubles in a fixed order, rounded so that it prints as it ranks."""

from collections.abc import Iterable, Iterator
from itertools import compress, count

from msgspec import Struct

from rote.questions import NO_INSTANT, Request, Scoring
from rote.retrieval.corpus import Corpus

_TAG_BONUS = 0.5
_SCORE_DECIMALS = 9
_DAY = 86_400_000_000  # microseconds


class Reasons(Struct, frozen=True):
    """What a memory got its score for."""

    terms: tuple[str, ...]  # that are in its text
    tags: tuple[str, ...]  # that are terms
    recency: float  # what its age adds


def score(request: Request, corpus: Corpus, denied: Iterable[int]) -> dict[int, float]:
    """The scores of all rows that may come back and have one above zero."""
    scoring = request.scoring
    scores = _term_scores(scoring, corpus)
    if scoring.enable_recency_weight and request.now is not None:
        _add_recency(scores, corpus, request.now, scoring.recency_half_life_days)
    for row in denied:
        scores.pop(row, None)
    return scores


def reasons_of(request: Request, corpus: Corpus, row: int) -> Reasons:
    """The same for one row, in words."""
    scoring, text = request.scoring, " ".join(corpus.lowers[row].split())
    recency: dict[int, float] = {}
    if scoring.enable_recency_weight and request.now is not None:
        _add_recency(recency, corpus, request.now, scoring.recency_half_life_days, rows=(row,))
    tags = corpus.tags[row] if scoring.enable_tag_overlap else ()
    return Reasons(
        terms=tuple(term for term in scoring.query_terms if term in text),
        tags=tuple(term for term in scoring.query_terms if term in tags),
        recency=recency.get(row, 0.0),
    )


def _term_scores(scoring: Scoring, corpus: Corpus) -> dict[int, float]:
    """One for each term that is in the text, and the bonus for each that is a tag."""
    scores: dict[int, float] = {}
    for term in scoring.query_terms:
        for row in _rows_with(term, corpus):
            scores[row] = scores.get(row, 0.0) + 1.0
    if scoring.enable_tag_overlap:
        terms = frozenset(scoring.query_terms)
        bonus = {
            tags: len(terms.intersection(tags)) * _TAG_BONUS
            for tags in set(corpus.tags)
            if not terms.isdisjoint(tags)
        }
        if bonus:
            for row in compress(count(), [tags in bonus for tags in corpus.tags]):
                scores[row] = scores.get(row, 0.0) + bonus[corpus.tags[row]]
    return scores


def _rows_with(term: str, corpus: Corpus) -> Iterator[int]:
    """The rows in whose normal text a term is.

    A term without blanks lies within a word, so white space around words does not matter to it.
    """
    word = max(term.split(" "), key=len)
    rows = compress(count(), [word in text for text in corpus.lowers])
    if word == term:
        return rows
    return (row for row in rows if term in " ".join(corpus.lowers[row].split()))


def _add_recency(
    scores: dict[int, float],
    corpus: Corpus,
    now: int,
    half_life_days: int,
    rows: Iterable[int] | None = None,
) -> None:
    instants = corpus.instants
    for row in range(len(corpus)) if rows is None else rows:
        if instants[row] != NO_INSTANT:
            age_days = max(0, now - instants[row]) / _DAY
            value = scores.get(row, 0.0) + 0.5 ** (age_days / half_life_days)
            if rounded := round(value, _SCORE_DECIMALS):
                scores[row] = rounded

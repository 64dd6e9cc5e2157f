"""Scores: plain arithmetic on doubles in a fixed order, rounded so that it prints as it ranks."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, compress, count, islice

from msgspec import Struct

from rote.questions import NO_INSTANT, Request, Scoring
from rote.retrieval.corpus import Corpus
from rote.retrieval.vocabulary import Vocabulary

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
    for row in chain(denied, corpus.gone):
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
    terms, vocabulary = scoring.query_terms, corpus.vocabulary(len(scoring.query_terms))
    counts = Counter[int]()
    for term in terms:
        counts.update(_rows_with(term, corpus, vocabulary))
    scores: dict[int, float] = dict(counts)
    if scoring.enable_tag_overlap:
        for row, count in _tagged(terms, corpus, vocabulary).items():
            scores[row] = scores.get(row, 0.0) + count * _TAG_BONUS
    return scores


def _rows_with(term: str, corpus: Corpus, vocabulary: Vocabulary | None) -> Iterable[int]:
    """The rows in whose normal text a term is, and perhaps some that are gone.

    A term without blanks lies within a word, so white space around words does not matter to it.
    """
    found = [_rows_with_part(part, corpus, vocabulary) for part in term.split(" ")]
    if len(found) == 1:
        return found[0]
    rows = set(found[0]).intersection(*found[1:])
    return [row for row in rows if _has(corpus.lowers[row], term)]


def _has(text: str, term: str) -> bool:
    """Most texts have single blanks between words, and then there is nothing to make normal."""
    return term in text or term in " ".join(text.split())


def _rows_with_part(part: str, corpus: Corpus, vocabulary: Vocabulary | None) -> Collection[int]:
    texts, end = corpus.lowers, corpus.row_count
    known = None if vocabulary is None else vocabulary.rows_with(part)
    if vocabulary is None or known is None:
        return list(compress(count(), [part in text for text in islice(texts, end)]))
    if vocabulary.size == end:
        return known
    return [*known, *(row for row in range(vocabulary.size, end) if part in texts[row])]


def _tagged(
    terms: Sequence[str], corpus: Corpus, vocabulary: Vocabulary | None
) -> Mapping[int, int]:
    """How many of the terms are tags of a row, for those that have one."""
    counts = Counter[int]()
    size = 0
    if vocabulary is not None:
        size = vocabulary.size
        for term in terms:
            counts.update(vocabulary.rows_tagged(term))
    later = corpus.tags[size : corpus.row_count]
    numbers = {tags: len(found) for tags in set(later) if (found := set(terms).intersection(tags))}
    if numbers:
        for row, tags in enumerate(later, size):
            if tags in numbers:
                counts[row] = numbers[tags]
    return counts


def _add_recency(
    scores: dict[int, float],
    corpus: Corpus,
    now: int,
    half_life_days: int,
    rows: Iterable[int] | None = None,
) -> None:
    instants = corpus.instants
    for row in range(corpus.row_count) if rows is None else rows:
        if instants[row] != NO_INSTANT:
            age_days = max(0, now - instants[row]) / _DAY
            value = scores.get(row, 0.0) + 0.5 ** (age_days / half_life_days)
            if rounded := round(value, _SCORE_DECIMALS):
                scores[row] = rounded

"""Scores: plain arithmetic on doubles in a fixed order, rounded so that it prints as it ranks."""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, compress, count, islice
from typing import TypeAlias

from msgspec import Struct

from rote.questions import NO_INSTANT, Request, Scoring
from rote.retrieval.corpus import Corpus
from rote.retrieval.vocabulary import Vocabulary

# What a term adds, in halves: in the text, and as a tag.
_TERM_HALVES, _TAG_HALVES = 2, 1
_BYTE = 255  # above what a row may get where a byte is enough
_SCORE_DECIMALS = 9
_DAY = 86_400_000_000  # microseconds


Halves: TypeAlias = "bytearray | array[int]"


class Reasons(Struct, frozen=True):
    """What a memory got its score for."""

    terms: tuple[str, ...]  # that are in its text
    tags: tuple[str, ...]  # that are terms
    recency: float  # what its age adds


def count_halves(scoring: Scoring, corpus: Corpus) -> Halves:
    """What terms and tags add to the score of each row, in halves."""
    terms, count = scoring.query_terms, corpus.row_count
    # Nearly always a byte is enough.
    is_small = len(terms) * (_TERM_HALVES + _TAG_HALVES) < _BYTE
    halves: Halves = bytearray(count) if is_small else array("I", [0]) * count
    vocabulary = corpus.vocabulary(len(terms))
    for term in terms:
        for row in _rows_with(term, corpus, vocabulary):
            halves[row] += _TERM_HALVES
    if scoring.enable_tag_overlap:
        for row, tags in _tagged(terms, corpus, vocabulary).items():
            halves[row] += tags * _TAG_HALVES
    return halves


def add_recency(halves: Halves, request: Request, corpus: Corpus) -> list[float]:
    """The score of each row, with what its age adds where that counts."""
    scoring, now = request.scoring, request.now
    if not scoring.enable_recency_weight or now is None:
        return [number / 2 for number in halves]
    recencies = _recencies(
        islice(corpus.instants, corpus.row_count), now, scoring.recency_half_life_days
    )
    return [
        round(number / 2 + recency, _SCORE_DECIMALS)
        for number, recency in zip(halves, recencies, strict=True)
    ]


def reasons_of(request: Request, corpus: Corpus, row: int) -> Reasons:
    """The same for one row, in words."""
    scoring, text = request.scoring, " ".join(corpus.lowers[row].split())
    recency = 0.0
    if scoring.enable_recency_weight and request.now is not None:
        (recency,) = _recencies([corpus.instants[row]], request.now, scoring.recency_half_life_days)
        recency = round(recency, _SCORE_DECIMALS)
    tags = corpus.tags[row] if scoring.enable_tag_overlap else ()
    return Reasons(
        terms=tuple(term for term in scoring.query_terms if term in text),
        tags=tuple(term for term in scoring.query_terms if term in tags),
        recency=recency,
    )


def _rows_with(term: str, corpus: Corpus, vocabulary: Vocabulary) -> Iterable[int]:
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


def _rows_with_part(part: str, corpus: Corpus, vocabulary: Vocabulary) -> Iterable[int]:
    texts, size = corpus.lowers, vocabulary.size
    later = [part in text for text in islice(texts, size, corpus.row_count)]
    return chain(vocabulary.rows_with(part, texts), compress(count(size), later))


def _tagged(terms: Sequence[str], corpus: Corpus, vocabulary: Vocabulary) -> Mapping[int, int]:
    """How many of the terms are tags of a row, for those that have one."""
    counts = Counter[int]()
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


def _recencies(instants: Iterable[int], now: int, half_life_days: int) -> list[float]:
    """What the age of each adds: 1 for what is new or yet to come, nothing without a time."""
    return [
        1.0
        if instant >= now
        else 0.0
        if instant == NO_INSTANT
        else 0.5 ** ((now - instant) / _DAY / half_life_days)
        for instant in instants
    ]

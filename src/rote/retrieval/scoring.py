"""Scores: plain arithmetic on doubles in a fixed order, rounded so that it prints as it ranks."""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import compress, count, islice
from operator import add, and_
from typing import TypeAlias

from msgspec import Struct

from rote.questions import NO_INSTANT, Request, Scoring
from rote.retrieval.corpus import Corpus
from rote.retrieval.vocabulary import Vocabulary, marks_of

# The points that a term adds, in halves: in the text, and as a tag.
_TERM_HALVES, _TAG_HALVES = 2, 1
# With this many terms no row gets more than fits into a byte, and the highest number stays free.
_TERMS_IN_BYTE = 254 // (_TERM_HALVES + _TAG_HALVES)
_SCORE_DECIMALS = 9
_DAY = 86_400_000_000  # microseconds


Halves: TypeAlias = "bytearray | array[int]"


class Reasons(Struct, frozen=True):
    """The reasons for the score of a memory."""

    terms: tuple[str, ...]  # those that are in its text
    tags: tuple[str, ...]  # those that are terms
    recency: float  # points for its age


def count_halves(scoring: Scoring, corpus: Corpus) -> Halves:
    """Return the points that terms and tags add to each row, in halves."""
    terms, size = scoring.query_terms, corpus.row_count
    vocabulary = corpus.vocabulary(len(terms))
    halves: Halves = bytearray(size)
    for start in range(0, len(terms), _TERMS_IN_BYTE):
        some = terms[start : start + _TERMS_IN_BYTE]
        marks = sum(_marks(term, corpus, vocabulary) for term in some)
        added = bytearray((marks * _TERM_HALVES).to_bytes(size, "little"))
        # A byte is nearly always enough.
        halves = added if start == 0 else array("I", map(add, halves, added))
    if scoring.enable_tag_overlap:
        for row, tags in _tagged(terms, corpus, vocabulary).items():
            halves[row] += tags * _TAG_HALVES
    return halves


def add_recency(halves: Halves, request: Request, corpus: Corpus) -> list[float]:
    """Return the score of each row, with the points for its age where that counts."""
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
    """Return the same for one row, in words."""
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


def _marks(term: str, corpus: Corpus, vocabulary: Vocabulary) -> int:
    """Return a one for each row whose normal text holds a term, and perhaps for some that are gone.

    A term without blanks lies within a word, so white space around words does not matter to it.
    """
    parts = [_marks_of_part(part, corpus, vocabulary) for part in term.split(" ")]
    marks = reduce(and_, parts)
    if len(parts) == 1:
        return marks
    rows = bytearray(marks.to_bytes(corpus.row_count, "little"))
    for row in list(compress(count(), rows)):
        rows[row] = _has(corpus.lowers[row], term)
    return marks_of(rows)


def _has(text: str, term: str) -> bool:
    """Whether a term is in the normal text. Most texts have single blanks only and are normal already."""
    return term in text or term in " ".join(text.split())


def _marks_of_part(part: str, corpus: Corpus, vocabulary: Vocabulary) -> int:
    texts = corpus.lowers
    later = bytes([part in text for text in islice(texts, vocabulary.size, corpus.row_count)])
    return marks_of(vocabulary.marks(part, texts) + later)


def _tagged(terms: Sequence[str], corpus: Corpus, vocabulary: Vocabulary) -> Mapping[int, int]:
    """Return the number of terms that are tags of a row, for the rows that have one."""
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
    """Return the points for each age: 1 for the present and the future, nothing without a time."""
    return [
        1.0
        if instant >= now
        else 0.0
        if instant == NO_INSTANT
        else 0.5 ** ((now - instant) / _DAY / half_life_days)
        for instant in instants
    ]

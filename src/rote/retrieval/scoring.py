"""Scores: plain arithmetic on doubles in a fixed order, rounded so that it prints as it ranks."""

from array import array
from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import compress, count, islice
from operator import add, and_
from typing import TypeAlias

from msgspec import Struct

from rote.questions import NO_INSTANT, Request, Scoring, normal_text
from rote.retrieval.corpus import Corpus
from rote.retrieval.vocabulary import Words, marks_of

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
    terms = scoring.query_terms
    halves: Halves = bytearray() if len(terms) <= _TERMS_IN_BYTE else array("I")
    for words in corpus.words(len(terms)):
        start = len(halves)
        added: Sequence[int] = bytes(words.size)
        for first in range(0, len(terms), _TERMS_IN_BYTE):
            some = terms[first : first + _TERMS_IN_BYTE]
            marks = _TERM_HALVES * sum(_marks(term, words, corpus, start) for term in some)
            if scoring.enable_tag_overlap:
                marks += _TAG_HALVES * sum(map(words.tagged, some))
            more = marks.to_bytes(words.size, "little")
            added = array("I", map(add, added, more)) if first else more
        halves.extend(added)
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
    scoring, text = request.scoring, normal_text(corpus.texts[row])
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


def _marks(term: str, words: Words, corpus: Corpus, start: int) -> int:
    """Return a one for each row whose normal text holds a term, and perhaps for some that are gone.

    A term without blanks lies within a word, so white space around words does not matter to it.
    """
    parts = term.split(" ")
    marks = reduce(and_, map(words.marks, parts))
    if len(parts) == 1:
        return marks
    rows = bytearray(marks.to_bytes(words.size, "little"))
    for row in list(compress(count(), rows)):
        rows[row] = term in normal_text(corpus.texts[start + row])
    return marks_of(rows)


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

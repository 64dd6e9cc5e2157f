"""The scores of lexical-1: what each memory has of the terms, and what its neighbours lend it."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from rote.questions import NO_INSTANT, Request
from rote.retrieval.ranking import weights
from rote.retrieval.ranking.postings import Posting, Postings
from rote.retrieval.ranking.threads import Threads
from rote.retrieval.words.analyser import analyse

# Tenths of its weight: a memory's own, and what it lends the 1st, 2nd and 3rd after and before it.
OWN = 10
AFTER, BEFORE = (6, 4, 2), (5, 3, 1)


class Telling(Struct, frozen=True):
    """The weight of each term of a question, over the memories of all stores."""

    terms: tuple[str, ...]  # of the question, distinct
    idf: Mapping[str, int]  # of those that some memory has
    average: int  # the length of a memory


class Frequencies(Protocol):
    """Counts of terms in the memories of a store."""

    @property
    def length(self) -> int:
        """Return the number of terms of all memories."""
        ...

    def having(self, term: str, /) -> int:
        """Return the number of memories that have a term."""
        ...


def terms_of(request: Request) -> tuple[str, ...]:
    """Return the terms of a request, each once."""
    texts, language = request.scoring.query_terms, request.scoring.language
    return tuple(dict.fromkeys(term for text in texts for term in analyse(text, language)))


def telling_of(request: Request, stores: Sequence[tuple[int, Frequencies]]) -> Telling:
    """Return how much the terms of a request tell; each store with the number of its memories."""
    terms = terms_of(request)
    count = sum(count for count, _ in stores)
    length = sum(frequencies.length for _, frequencies in stores)
    having = {term: sum(each.having(term) for _, each in stores) for term in terms}
    return Telling(
        terms=terms,
        idf={term: weights.idf(count, number) for term, number in having.items() if number},
        average=max(1, length // max(1, count)),
    )


def score_rows(
    telling: Telling, postings: Postings, threads: Threads, *, excluded: Collection[int]
) -> dict[int, int]:
    """Return the scores, in millionths, of all rows of a store that have one.

    Rows that are `excluded` have none and lend nothing. Without `threads` nobody lends.
    """
    totals: dict[int, int] = {}
    for term, idf in telling.idf.items():
        shares = _shares(postings, postings.of(term), telling.average, threads, excluded)
        for row, share in shares.items():
            totals[row] = totals.get(row, 0) + idf * share
    scores = {row: weights.score(total) for row, total in totals.items() if row not in excluded}
    return {row: score for row, score in scores.items() if score}


def _shares(
    postings: Postings,
    posting: Posting,
    average: int,
    threads: Threads,
    excluded: Collection[int],
) -> dict[int, int]:
    """Return the greatest share of each row in one term: ten times its weight, or less of another's."""
    lengths = postings.lengths
    shares: dict[int, int] = {}
    for row, count in zip(posting.rows, posting.counts, strict=True):
        if row in excluded:
            continue
        weight = weights.weight(count, lengths[row], average)
        shares[row] = max(shares.get(row, 0), OWN * weight)
        place = threads.get(row)
        if place is not None:
            thread, index = place.thread, place.index
            lent = [
                *zip(thread[index + 1 : index + 4], AFTER, strict=False),
                *zip(reversed(thread[max(0, index - 3) : index]), BEFORE, strict=False),
            ]
            for other, tenths in lent:
                shares[other] = max(shares.get(other, 0), tenths * weight)
    return shares


def recency_of(request: Request, instant: int) -> int:
    """Return the millionths for the age of a memory that has a score."""
    scoring, now = request.scoring, request.now
    if not scoring.enable_recency_weight or now is None or instant == NO_INSTANT:
        return 0
    return weights.recency(now - instant, scoring.recency_half_life_days)

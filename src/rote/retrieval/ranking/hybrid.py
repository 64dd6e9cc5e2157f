"""The scores of hybrid-1: half by words, as lexical-1 has them, and half by vectors."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from rote.questions import Request
from rote.retrieval.corpus import Corpus
from rote.retrieval.ranking.threads import Threads
from rote.retrieval.ranking.vectors import similarities
from rote.retrieval.vector_homes import Embedded, hashes_of, vectors_of

# The part of lexical-1's recency that counts.
RECENCY_PART = 20
_HALF = 500_000  # millionths
# Tenths of its similarity: a memory's own, and what each of the 1st and 2nd on either side lends.
_OWN = 10
_LENT = (2, 1)


class Store(Protocol):
    """A store that was asked."""

    @property
    def name(self) -> str: ...

    @property
    def corpus(self) -> Corpus: ...


class Half(Struct, frozen=True):
    """The memories of one store, with the scores that they have by words."""

    store: Store
    words: Mapping[int, int]  # of lexical-1, without recency, of the rows that have one
    excluded: Collection[int]  # rows that have no score and lend nothing


class Side(Struct, frozen=True):
    """The memories of one store that may have a score, as both halves see them."""

    words: Mapping[int, int]
    own: Mapping[int, int]  # the similarity of each row to the question
    threads: Threads  # empty when neighbours lend nothing


def score_by_both(
    request: Request, embedded: Embedded, halves: Sequence[Half]
) -> tuple[list[dict[int, int]], bytes]:
    """Return the scores of the rows of each store, and the vector of the question."""
    query = embedded.embedding.query_vector(request.query)
    sides = []
    for half in halves:
        corpus = half.store.corpus
        own = _own(embedded, half, query)
        sides.append(Side(half.words, own, corpus.threads if request.scoring.context else {}))
    return mix(sides), query


def _own(embedded: Embedded, half: Half, query: bytes) -> dict[int, int]:
    corpus, home = half.store.corpus, embedded.homes[half.store.name]
    hashes = hashes_of(corpus)
    rows = [row for row in corpus.rows() if row not in half.excluded]
    texts = {hashes[row]: corpus.texts[row] for row in rows}
    vectors = vectors_of(embedded.embedding, home, texts, hashes)
    found = similarities(query, [vectors[hashes[row]] for row in rows])
    return dict(zip(rows, found, strict=True))


def mix(sides: Sequence[Side]) -> list[dict[int, int]]:
    """Return the scores, in millionths, of all rows that have one, for each store."""
    similar = [_with_neighbours(side.own, side.threads) for side in sides]
    best_words = max((_best(side.words.values()) for side in sides), default=0)
    best_similar = max((_best(each.values()) for each in similar), default=0)
    scores = []
    for side, own in zip(sides, similar, strict=True):
        found: dict[int, int] = {}
        for row, similarity in own.items():
            score = similarity * _HALF // best_similar if best_similar else 0
            if row in side.words:  # so the best of them is not 0
                score += side.words[row] * _HALF // best_words
            if score:
                found[row] = score
        scores.append(found)
    return scores


def _with_neighbours(own: Mapping[int, int], threads: Threads) -> dict[int, int]:
    found = {row: _OWN * similarity for row, similarity in own.items()}
    for row in found if threads else ():
        place = threads.get(row)
        if place is not None:
            thread, index = place.thread, place.index
            for distance, tenths in enumerate(_LENT, 1):
                if index >= distance:
                    found[row] += tenths * own.get(thread[index - distance], 0)
                if index + distance < len(thread):
                    found[row] += tenths * own.get(thread[index + distance], 0)
    return found


def _best(scores: Collection[int]) -> int:
    return max(scores, default=0)

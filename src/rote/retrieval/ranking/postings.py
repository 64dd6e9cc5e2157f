"""Postings: for each term the memories that have it, and how often."""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from rote.retrieval.ranking.weights import OCCURRENCES_MAX
from rote.retrieval.words.analyser import memory_terms


class Rows(Protocol):
    """The memories that are analysed, as columns."""

    texts: list[str]
    tags: list[tuple[str, ...]]
    instants: "array[int]"

    @property
    def row_count(self) -> int: ...

    def rows(self) -> Iterable[int]: ...


class Posting(Struct, frozen=True, gc=False):
    """The memories that have one term."""

    rows: Sequence[int]
    counts: Sequence[int]  # its occurrences in each, at most OCCURRENCES_MAX


_NONE = Posting((), ())


class Postings(Struct, frozen=True):
    """The terms of some memories, in one language."""

    by_term: dict[str, Posting]
    lengths: Sequence[int]  # by row: the number of its terms
    length: int  # of all together

    def of(self, term: str) -> Posting:
        return self.by_term.get(term, _NONE)

    def having(self, term: str) -> int:
        """Return the number of memories that have a term."""
        return len(self.of(term).rows)


def postings_of(corpus: Rows, language: str) -> Postings:
    """Analyse all memories of a corpus."""
    found: dict[str, tuple[array[int], bytearray]] = {}
    lengths = array("Q", bytes(8 * corpus.row_count))
    for row in corpus.rows():
        counts = Counter(
            memory_terms(corpus.texts[row], corpus.tags[row], corpus.instants[row], language)
        )
        lengths[row] = counts.total()
        for term, count in counts.items():
            rows, occurrences = found.get(term) or found.setdefault(term, (array("Q"), bytearray()))
            rows.append(row)
            occurrences.append(min(count, OCCURRENCES_MAX))
    return Postings(
        {term: Posting(rows, counts) for term, (rows, counts) in found.items()},
        lengths,
        sum(lengths),
    )

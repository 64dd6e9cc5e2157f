"""The terms of a file's rows as segments, so that a sidecar keeps them in the form of the index."""

from array import array
from collections.abc import Iterable, Iterator
from typing import Protocol

from rote.contract import Packed
from rote.contract.index import Note
from rote.errors import Corrupt
from rote.retrieval.order import Column
from rote.retrieval.ranking.postings import Posting, Postings
from rote.retrieval.segments.rows import Memory, Row
from rote.retrieval.segments.segment import ROW, Segment, from_bytes
from rote.retrieval.segments.words import Making
from rote.values.limits import SEGMENT_ROWS_MAX

# Of a row only the terms are kept: everything else is in the corpus.
_ANY = Note(1, 0, "file", ())
_NO_DETAILS = "{}"


class Rows(Protocol):
    """The memories of a file, as columns."""

    @property
    def texts(self) -> Column[str]: ...
    @property
    def tags(self) -> Column[tuple[str, ...]]: ...
    @property
    def instants(self) -> Column[int]: ...
    @property
    def row_count(self) -> int: ...


def packed_rows(corpus: Rows, language: str) -> Iterator[Packed]:
    """Yield the segments of all rows, in their order."""
    for start in range(0, corpus.row_count, SEGMENT_ROWS_MAX):
        making = Making(language)
        for row in range(start, min(corpus.row_count, start + SEGMENT_ROWS_MAX)):
            memory = Memory(corpus.texts[row], corpus.tags[row], corpus.instants[row])
            making.add(_ANY, Row(0, memory, _NO_DETAILS))
        yield making.packed()


def unpacked(segments: Iterable[Packed], row_count: int) -> Postings:
    """Return the terms that segments hold; raise Corrupt when they are not those of so many rows."""
    found: dict[str, tuple[array[int], bytearray]] = {}
    lengths = array("Q")
    for packed in segments:
        base, segment = len(lengths), Segment(packed.body)
        lengths.extend(array("Q", segment.length))
        listed = segment.listed(packed.postings)
        for place, (term, once) in enumerate(zip(listed.terms, listed.singles, strict=True)):
            rows, counts = found.get(term) or found.setdefault(term, (array("Q"), bytearray()))
            more, often = listed.repeated.get(place, (b"", b""))
            numbers = from_bytes(ROW, once)
            rows.extend(map(base.__add__, numbers))
            counts.extend(b"\x01" * len(numbers))
            rows.extend(map(base.__add__, from_bytes(ROW, more)))
            counts.extend(often)
    if len(lengths) != row_count:
        raise Corrupt("the terms are not those of this file; delete the cache")
    return Postings(
        {term: Posting(rows, counts) for term, (rows, counts) in found.items()},
        lengths,
        sum(lengths),
    )

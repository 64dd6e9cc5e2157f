"""The index of words: it makes segments of changes, merges them, and takes erased entities out.

Everything here is pure: a segment depends on its rows alone, not on how it came to be.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import compress
from typing import TypeVar

import msgspec

from rote.contract import Packed
from rote.contract.index import Change, Note
from rote.errors import invariant
from rote.questions import ENGLISH, NO_INSTANT, NO_LANGUAGE
from rote.records.keys import PREFIX
from rote.retrieval.ranking.weights import OCCURRENCES_MAX
from rote.retrieval.segments.rows import Row, rows_of
from rote.retrieval.segments.segment import (
    NO_THREAD,
    OWN_THREAD,
    ROW,
    Numbers,
    RawPosting,
    Segment,
    Table,
    from_bytes,
    to_bytes,
)
from rote.retrieval.words.analyser import memory_terms
from rote.values.limits import SEGMENT_ROWS_MAX

Text = TypeVar("Text", str, "int | float")
_encode_row = msgspec.msgpack.Encoder().encode
_decode_row = msgspec.msgpack.Decoder(Row).decode


class WordsIndex:
    """Implements contract.PackedIndex: the terms of memories in one language."""

    prefix = PREFIX

    def __init__(self, name: str, language: str, *, is_eager: bool) -> None:
        self.name = name
        self.language = language
        self.is_eager = is_eager

    def notes(self, change: Change, /) -> Iterator[bytes]:
        return map(_encode_row, rows_of(change))

    def pack(self, notes: Sequence[Note], /) -> list[Packed]:
        packed, making = [], Making(self.language)
        for note in notes:
            for row in map(_decode_row, note.rows):
                if making.table.size == SEGMENT_ROWS_MAX:
                    packed.append(making.packed())
                    making = Making(self.language)
                making.add(note, row)
        if making.table.size:
            packed.append(making.packed())
        return packed

    def merge(self, segments: Sequence[Packed], /) -> Packed:
        table = Table.empty()
        singles: defaultdict[str, list[bytes]] = defaultdict(list)
        repeats: defaultdict[str, list[bytes]] = defaultdict(list)
        counts: defaultdict[str, list[bytes]] = defaultdict(list)
        for each in segments:
            base = table.size
            segment = Segment(each.body)
            _add_rows(table, segment)
            invariant(table.size <= SEGMENT_ROWS_MAX, "too many rows for one segment")
            listed = segment.listed(each.postings, base)
            for term, rows in zip(listed.terms, listed.singles, strict=True):
                singles[term].append(rows)
            for place, (rows, often) in listed.repeated.items():
                repeats[listed.terms[place]].append(rows)
                counts[listed.terms[place]].append(often)
        join = b"".join
        return table.packed(
            {
                term: (join(rows), join(repeats.get(term, ())), join(counts.get(term, ())))
                for term, rows in singles.items()
            }
        )

    def holds(self, body: bytes, ids: Collection[str], /) -> bool:
        return not frozenset(ids).isdisjoint(Segment(body).entities)

    def without(self, segment: Packed, ids: Collection[str], /) -> Packed:
        read = Segment(segment.body)
        erased = frozenset(ids)
        stays = [id not in erased for id in read.entities]
        kept = bytes(map(stays.__getitem__, read.entity))
        numbers = array("I", bytes(4 * read.size))
        for number, row in enumerate(compress(range(read.size), kept)):
            numbers[row] = number
        table = Table.empty()
        _add_rows(table, read, kept)
        postings = {}
        listed = read.listed(segment.postings)
        for place, (term, once) in enumerate(zip(listed.terms, listed.singles, strict=True)):
            more, often = listed.repeated.get(place, (b"", b""))
            found = _renumbered(once, kept, numbers), _renumbered(more, kept, numbers)
            if found[0] or found[1]:
                rows = from_bytes(ROW, more)
                postings[term] = *found, bytes(compress(often, map(kept.__getitem__, rows)))
        return table.packed(postings)

    def rows(self, segment: Packed, /) -> Iterator[bytes]:
        read = Segment(segment.body)
        terms: list[list[tuple[str, int]]] = [[] for _ in range(read.size)]
        listed = read.listed(segment.postings)
        for place, (term, once) in enumerate(zip(listed.terms, listed.singles, strict=True)):
            more, often = listed.repeated.get(place, (b"", b""))
            for row in from_bytes(ROW, once):
                terms[row].append((term, 1))
            for row, count in zip(from_bytes(ROW, more), often, strict=True):
                terms[row].append((term, count))
        for row in range(read.size):
            thread, turn = read.thread[row], read.turn[row]
            yield msgspec.json.encode(
                (
                    read.version[row],
                    read.branch[row],
                    read.entities[read.entity[row]],
                    read.number[row],
                    read.length[row],
                    read.instant[row],
                    read.expires[row],
                    read.details[read.detail[row] - 1] if read.detail[row] else None,
                    read.threads[thread - 2] if thread > OWN_THREAD else thread,
                    read.turns[turn - 1] if turn else None,
                    terms[row],
                )
            )


class Making:
    """A segment in the making."""

    def __init__(self, language: str) -> None:
        self.table = Table.empty()
        self._language = language
        self._found: defaultdict[str, list[int]] = defaultdict(list)

    def add(self, note: Note, row: Row) -> None:
        table, memory = self.table, row.memory
        details = 0 if row.details is None else _place(table.details, row.details)
        thread = OWN_THREAD if row.number else NO_THREAD
        turn, length, instant = 0, 0, NO_INSTANT
        if memory is None:
            # An entry that is gone is in no thread; the head of entries is in theirs.
            thread = OWN_THREAD if details else NO_THREAD
        else:
            found, number, instant = self._found, table.size, memory.instant
            terms = list(memory_terms(memory.text, memory.tags, instant, self._language))
            for term in terms:
                found[term].append(number)
            length = len(terms)
            if memory.thread is not None:
                thread = _place(table.threads, memory.thread) + 1
            turn = 0 if memory.turn is None else _place(table.turns, memory.turn)
        values = (
            _place(table.entities, note.id) - 1, row.number, note.version, note.branch, length,
            instant, row.expires, details, thread, turn,
        )  # fmt: skip
        for column, value in zip(table.columns, values, strict=True):
            column.append(value)

    def packed(self) -> Packed:
        return self.table.packed({term: _raw(rows) for term, rows in self._found.items()})


def _place(table: dict[Text, int], text: Text) -> int:
    """Return the place of a text in a table, counted from 1."""
    return table.setdefault(text, len(table) + 1)


def _raw(rows: list[int]) -> RawPosting:
    """Return the posting of a term that occurs in rows, each as often as it is given."""
    # Most terms have few rows, and occur once in each.
    if len(rows) == 1:
        return rows[0].to_bytes(2, "little"), b"", b""
    if len(set(rows)) == len(rows):
        return to_bytes(array(ROW, rows)), b"", b""
    counts = Counter(rows)
    more = {row: count for row, count in counts.items() if count > 1}
    return (
        to_bytes(array(ROW, [row for row in counts if row not in more])),
        to_bytes(array(ROW, more)),
        bytes(min(count, OCCURRENCES_MAX) for count in more.values()),
    )


def _renumbered(rows: bytes, kept: bytes, numbers: Sequence[int]) -> bytes:
    found = from_bytes(ROW, rows)
    return to_bytes(array(ROW, [numbers[row] for row in found if kept[row]]))


def _add_rows(table: Table, segment: Segment, kept: bytes | None = None) -> None:
    """Add the rows of a segment, or those that are kept, with the texts that they name."""
    columns = segment.columns
    if kept is not None:
        columns = [array(column.typecode, compress(column, kept)) for column in columns]
    entity, *numbers, details, thread, turn = columns
    moved = (
        _moved(entity, table.entities, segment.entities, 0),
        *numbers,
        _moved(details, table.details, segment.details, 1),
        _moved(thread, table.threads, segment.threads, OWN_THREAD + 1),
        _moved(turn, table.turns, segment.turns, 1),
    )
    for column, more in zip(table.columns, moved, strict=True):
        column.extend(more)


def _moved(column: Numbers, table: dict[Text, int], texts: Sequence[Text], first: int) -> Numbers:
    """Return places of texts as those in another table; numbers below `first` name none."""
    places = {
        place: place if place < first else _place(table, texts[place - first]) + first - 1
        for place in dict.fromkeys(column)
    }
    return array("I", map(places.__getitem__, column))


WORDS = WordsIndex("words/1", ENGLISH, is_eager=True)
WORDS_NONE = WordsIndex("words/1/none", NO_LANGUAGE, is_eager=False)

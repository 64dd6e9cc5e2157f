"""A segment: rows as columns, and for each term the rows that have it.

    body       zlib of MessagePack: tables of texts that rows share, columns, and of a small segment
               the postings; a column of equal numbers has one of them
    postings   of a larger segment, by term: the number of rows in which the term occurs more than
               once (2 bytes), the rows in which it occurs once, those in which it occurs more often
               (2 bytes each), and how often it does there (1 byte each)

All numbers are little-endian. The order of rows is that of the changes, and tables hold each text
once, in the order in which rows name them. So equal rows have equal bytes.
"""

import sys
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from operator import le
from typing import TypeAlias

import msgspec

from rote.contract import Packed
from rote.errors import Corrupt
from rote.records.keys import key_of
from rote.retrieval.segments.rows import NEVER
from rote.retrieval.spaces import ranked_id
from rote.values.limits import (
    SEGMENT_ROW_BYTES,
    SEGMENT_ROWS_MAX,
    SEGMENT_SMALL_ROWS,
    SEGMENT_TIMES,
)

ROW = "H"  # the type of a row's number in postings
_ROW_BYTES = 2
_LEVEL = 1  # of the compression: the fastest
_BREAK = "\n"  # no id of a record, no canonical JSON and no term holds one

Numbers: TypeAlias = "array[int]"
# What names a memory: its entity, with the number of an entry.
Key: TypeAlias = "str | tuple[str, int]"


class Posting(msgspec.Struct, frozen=True, gc=False):
    """The rows of a segment that have one term."""

    singles: Numbers  # that have it once
    repeats: Numbers  # that have it more often
    counts: bytes  # how often these have it, at most OCCURRENCES_MAX


class Column(msgspec.Struct, frozen=True, gc=False):
    name: str
    kind: str  # the type of its numbers


# One number of each for each row. Numbers of texts are places in a table, counted from 1; 0 is none.
COLUMNS = (
    Column("entity", "I"),  # without 0: every row has one
    Column("number", "I"),  # 0, or that of an entry
    Column("version", "Q"),
    Column("branch", "I"),
    Column("length", "I"),  # the terms of the memory
    Column("instant", "q"),
    Column("expires", "q"),  # the last instant; NEVER if it does not
    Column("details", "I"),  # entries have those of the head
    Column("thread", "I"),  # 1: that of its record, also for the head; the table goes on from there
    Column("turn", "I"),
)  # fmt: skip
NO_THREAD, OWN_THREAD = 0, 1


class _Held(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    """The postings of a small segment, all in one."""

    terms: str = ""
    ends: bytes = b""  # of the rows of each term in `singles`
    singles: bytes = b""
    repeated: bytes = b""  # the places of terms that occur more than once in a row
    repeat_ends: bytes = b""
    repeats: bytes = b""
    counts: bytes = b""


class _Body(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    size: int
    entities: str
    details: str
    threads: list[str]
    turns: list[int | float]
    columns: list[bytes]
    held: _Held  # of a larger segment empty


_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(_Body).decode

_NO_ROWS: Numbers = array(ROW)

# The rows of a term that have it once, those that have it more often, and how often: all as bytes.
RawPosting: TypeAlias = tuple[bytes, bytes, bytes]


class Table(msgspec.Struct):
    """The rows of a segment that is being made."""

    entities: dict[str, int]
    details: dict[str, int]
    threads: dict[str, int]
    turns: dict[int | float, int]
    columns: list[Numbers]

    @staticmethod
    def empty() -> "Table":
        return Table({}, {}, {}, {}, [array(column.kind) for column in COLUMNS])

    @property
    def size(self) -> int:
        return len(self.columns[0])

    def packed(self, postings: Mapping[str, RawPosting]) -> Packed:
        """Return the segment of these rows; it has at most SEGMENT_ROWS_MAX of them."""
        terms = sorted(postings)
        is_small = self.size < SEGMENT_SMALL_ROWS
        body = _Body(
            self.size,
            _BREAK.join(self.entities),
            _BREAK.join(self.details),
            list(self.threads),
            list(self.turns),
            [_folded(to_bytes(column), column.itemsize) for column in self.columns],
            _held(terms, postings) if is_small else _Held(),
        )
        return Packed(
            self.size,
            zlib.compress(_encode(body), _LEVEL),
            {} if is_small else {term: _blob(*postings[term]) for term in terms},
        )


def _held(terms: Sequence[str], postings: Mapping[str, RawPosting]) -> _Held:
    found = [postings[term] for term in terms]
    repeated = [place for place, posting in enumerate(found) if posting[2]]
    return _Held(
        _BREAK.join(terms),
        to_bytes(array("I", accumulate(len(singles) // _ROW_BYTES for singles, _, _ in found))),
        b"".join([singles for singles, _, _ in found]),
        to_bytes(array("I", repeated)),
        to_bytes(array("I", accumulate(len(found[place][2]) for place in repeated))),
        b"".join([found[place][1] for place in repeated]),
        b"".join([found[place][2] for place in repeated]),
    )


def _blob(singles: bytes, repeats: bytes, counts: bytes) -> bytes:
    return b"".join((len(counts).to_bytes(2, "little"), singles, repeats, counts))


def raw_posting(blob: bytes) -> RawPosting:
    """Return the parts of one term's postings in a larger segment."""
    count = int.from_bytes(blob[:2], "little")
    end = len(blob) - 3 * count
    if end < 2 or end % _ROW_BYTES:
        raise _damaged()
    return blob[2:end], blob[end : len(blob) - count], blob[len(blob) - count :]


class Listed(msgspec.Struct, frozen=True):
    """All postings of a segment."""

    terms: list[str]  # in order
    singles: list[bytes]  # of each term
    repeated: dict[
        int, tuple[bytes, bytes]
    ]  # by the place of the term: rows, and occurrences in each


class Segment:
    """A segment that is read. It never changes, and threads share it."""

    def __init__(
        self, body: bytes, number: int = 0, postings: Mapping[str, bytes] | None = None
    ) -> None:
        """Raise Corrupt when the bytes are not those of a segment.

        number    in the store
        postings  of a segment that is in no store
        """
        self.stored_number = number
        self._postings = postings
        self.size_bytes = SEGMENT_TIMES * len(body)  # roughly the memory that it takes
        try:
            raw = _decode(zlib.decompress(body))
        except (zlib.error, msgspec.MsgspecError, ValueError):
            raise _damaged() from None
        self._held = raw.held
        self.size = size = raw.size
        self.size_bytes += SEGMENT_ROW_BYTES * max(0, size)
        self.entities = _split(raw.entities)
        self.threads = raw.threads
        self.turns = raw.turns
        if not 0 <= size <= SEGMENT_ROWS_MAX or len(raw.columns) != len(COLUMNS):
            raise _damaged()
        (
            self.entity, self.number, self.version, self.branch, self.length, self.instant,
            self.expires, self.detail, self.thread, self.turn,
        ) = self.columns = [
            _unfolded(data, column.kind, size)
            for data, column in zip(raw.columns, COLUMNS, strict=True)
        ]  # fmt: skip
        self.details = _split(raw.details)
        limits = (len(self.entities) - 1, len(self.details), len(self.threads) + 1, len(self.turns))
        places = (self.entity, self.detail, self.thread, self.turn)
        if size and any(max(column) > most for column, most in zip(places, limits, strict=True)):
            raise _damaged()
        self.has_entries = max(self.number, default=0) > 0
        self.has_threads = max(self.thread, default=0) > 0
        self.longest = max(self.length, default=0)
        self.last_version = max(self.version, default=0)
        self.is_sorted = all(map(le, self.version, self.version[1:]))

    @property
    def is_small(self) -> bool:
        """Whether the body holds the postings."""
        return bool(self._held.terms)

    @cached_property
    def keys(self) -> list[Key]:
        """Return the key of each row."""
        entities = list(map(self.entities.__getitem__, self.entity))
        if not self.has_entries:
            return entities  # type: ignore[return-value]
        return [
            (entity, number) if number else entity
            for entity, number in zip(entities, self.number, strict=True)
        ]

    def has_memory(self, row: int) -> bool:
        """Whether a row is a memory: an entry in a thread, or what is no head of entries."""
        is_own = self.thread[row] == OWN_THREAD
        return is_own if self.number[row] else self.detail[row] > 0 and not is_own

    @cached_property
    def gone(self) -> list[int]:
        """Return the rows without a memory."""
        return [row for row in range(self.size) if not self.has_memory(row)]

    @cached_property
    def expiring(self) -> list[int]:
        """Return the rows that name a last instant."""
        return [row for row, last in enumerate(self.expires) if last != NEVER]

    @cached_property
    def thread_names(self) -> list[str | None]:
        """Return the thread of each row."""
        found = list(map([None, None, *self.threads].__getitem__, self.thread))
        if self.has_entries:
            own: dict[int, str] = {}
            for row, thread in enumerate(self.thread):
                if thread == OWN_THREAD:
                    place = self.entity[row]
                    found[row] = own.get(place) or own.setdefault(place, self._memory_id(place))
        return found

    @cached_property
    def turn_numbers(self) -> list[int | float]:
        """Return the turn of each row."""
        turns = list(map([0, *self.turns].__getitem__, self.turn))
        if self.has_entries:
            return [number or turn for number, turn in zip(self.number, turns, strict=True)]
        return turns

    def memory_id(self, row: int) -> str:
        id, number = self._memory_id(self.entity[row]), self.number[row]
        return f"{id}#{number}" if number else id

    def _memory_id(self, place: int) -> str:
        key = key_of(self.entities[place])
        if key is None:
            raise _damaged()
        return ranked_id(key)

    def posting(self, term: str, blobs: Mapping[str, bytes]) -> Posting | None:
        """Return the rows of a term; `blobs` has the postings of a larger segment."""
        if self.is_small:
            raw = self._raw_held(term)
        else:
            blob = (blobs if self._postings is None else self._postings).get(term)
            raw = None if blob is None else raw_posting(blob)
        if raw is None:
            return None
        singles, repeats, counts = raw
        return Posting(self._rows(singles), self._rows(repeats), counts)

    def listed(self, blobs: Mapping[str, bytes], base: int = 0) -> "Listed":
        """Return all terms with their rows, numbered from `base` on; `blobs` as above."""
        if not self.is_small:
            raw = [raw_posting(blobs[term]) for term in sorted(blobs)]
            return Listed(
                sorted(blobs),
                [self._moved(singles, base) for singles, _, _ in raw],
                {
                    place: (self._moved(repeats, base), counts)
                    for place, (_, repeats, counts) in enumerate(raw)
                    if counts
                },
            )
        body = self._held
        ends, repeated, repeat_ends = self._spans
        singles, repeats = self._moved(body.singles, base), self._moved(body.repeats, base)
        return Listed(
            self._terms,
            [singles[_ROW_BYTES * start : _ROW_BYTES * end] for start, end in pairwise((0, *ends))],
            {
                place: (repeats[_ROW_BYTES * start : _ROW_BYTES * end], body.counts[start:end])
                for place, (start, end) in zip(repeated, pairwise((0, *repeat_ends)), strict=True)
            },
        )

    def _moved(self, rows: bytes, base: int) -> bytes:
        """Return rows with numbers that are higher by `base`."""
        found = self._rows(rows)
        return to_bytes(array(ROW, map(base.__add__, found))) if base else rows

    def _rows(self, data: bytes) -> Numbers:
        """Return rows; raise Corrupt when one of them is not there."""
        if not data:
            return _NO_ROWS
        rows = from_bytes(ROW, data)
        if max(rows) >= self.size:
            raise _damaged()
        return rows

    @cached_property
    def _terms(self) -> list[str]:
        return _split(self._held.terms)

    @cached_property
    def _spans(self) -> tuple[Numbers, Numbers, Numbers]:
        """Return where the rows of terms end, the repeated terms, and where their rows end."""
        raw = self._held
        ends, repeated, repeat_ends = (
            from_bytes("I", data) for data in (raw.ends, raw.repeated, raw.repeat_ends)
        )
        spans = ((ends, len(raw.singles) // _ROW_BYTES), (repeat_ends, len(raw.counts)))
        if (
            len(ends) != len(self._terms)
            or len(repeated) != len(repeat_ends)
            or len(raw.repeats) != _ROW_BYTES * len(raw.counts)
            or len(raw.singles) % _ROW_BYTES
            or not all(map(le, repeated, repeated[1:]))
            or (repeated and repeated[-1] >= len(ends))
            or any(
                (list(each[-1:]) or [0]) != [end] or not all(map(le, each, each[1:]))
                for each, end in spans
            )
        ):
            raise _damaged()
        return ends, repeated, repeat_ends

    def _raw_held(self, term: str) -> RawPosting | None:
        terms = self._terms
        place = bisect_left(terms, term)
        return self._at(place) if place < len(terms) and terms[place] == term else None

    def _at(self, place: int) -> RawPosting:
        raw = self._held
        ends, repeated, repeat_ends = self._spans
        start, end = ends[place - 1] if place else 0, ends[place]
        singles = raw.singles[_ROW_BYTES * start : _ROW_BYTES * end]
        index = bisect_left(repeated, place)
        if index == len(repeated) or repeated[index] != place:
            return singles, b"", b""
        start, end = repeat_ends[index - 1] if index else 0, repeat_ends[index]
        repeats = raw.repeats[_ROW_BYTES * start : _ROW_BYTES * end]
        return singles, repeats, raw.counts[start:end]


def to_bytes(numbers: Numbers) -> bytes:
    if sys.byteorder == "big":
        numbers = array(numbers.typecode, numbers)
        numbers.byteswap()
    return numbers.tobytes()


def from_bytes(kind: str, data: bytes) -> Numbers:
    numbers = array(kind)
    try:
        numbers.frombytes(data)
    except ValueError:
        raise _damaged() from None
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _folded(data: bytes, item_bytes: int) -> bytes:
    first = data[:item_bytes]
    return first if data == first * (len(data) // item_bytes) else data


def _unfolded(data: bytes, kind: str, size: int) -> Numbers:
    numbers = from_bytes(kind, data)
    if len(numbers) == 1 < size:
        numbers *= size
    if len(numbers) != size:
        raise _damaged()
    return numbers


def _split(text: str) -> list[str]:
    return text.split(_BREAK) if text else []


def _damaged() -> Corrupt:
    return Corrupt("a segment of the index is damaged; run `rote doctor --repair`")

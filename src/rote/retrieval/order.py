"""The order of memories when no score decides, and the hashed bytes of dropped ones in that order.

Nearly all memories are dropped, and any question leaves them in this order. The order is cut into
blocks: after a few changes only a few blocks are made anew, and all others are shared.
"""

import re
from array import array
from bisect import bisect_right, insort
from collections.abc import Collection, Iterable, Iterator, Sequence
from io import BytesIO
from itertools import accumulate, chain
from typing import Protocol, TypeVar

import msgspec

_encode = msgspec.json.encode
_encode_lines = msgspec.json.Encoder().encode_lines
_marked = re.compile(rb"[^\0]").finditer

_BLOCK_ROWS = 1_024
# A block that has grown to twice its size is cut, so an index always fits into these bits.
_INDEX_BITS = 16
_INDEX = (1 << _INDEX_BITS) - 1
# When at most one row of so many is marked, the marked rows are visited one by one.
_FEW = 8


class Drop(msgspec.Struct, frozen=True, gc=False):
    """A memory that is not in the answer; members in canonical order."""

    memory_id: str
    reason: str
    record_hash: str
    store_path: str


Cell_co = TypeVar("Cell_co", covariant=True)


class Column(Protocol[Cell_co]):
    """One value for each row."""

    def __getitem__(self, row: int, /) -> Cell_co: ...


class Rows(Protocol):
    """The rows that are put in order."""

    def rank_key(self, row: int) -> tuple[int, str, str, str]:
        """Return the key by which rows of equal score rank."""
        ...

    def drops(self, rows: Sequence[int], reason: str) -> list[Drop]: ...


def encoded(drops: Iterable[Drop]) -> list[bytes]:
    """Return the dropped as canonical JSON, each before a comma."""
    return [piece + b"," for piece in map(_encode, drops)]


# The dropped memories of a block one after the other, and where each begins and ends.
_Pieces = tuple[bytes, "array[int]"]


class _Block:
    """A block of consecutive rows."""

    def __init__(self, number: int, rows: list[int]) -> None:
        self.number = number
        self.rows = rows
        self._pieces: dict[str, _Pieces] = {}

    def pieces(self, reason: str, corpus: Rows) -> _Pieces:
        kept = self._pieces.get(reason)
        if kept is None:
            # An item with a line break is as long as one with a comma, and no item holds a line break.
            lines = _encode_lines(corpus.drops(self.rows, reason))
            ends = array("Q", accumulate(map(len, BytesIO(lines)), initial=0))
            kept = self._pieces[reason] = lines.replace(b"\n", b","), ends
        return kept


class Order:
    """An immutable order of rows; `changed` makes another one."""

    def __init__(self, blocks: list[_Block], spots: "array[int]") -> None:
        self._blocks = blocks
        self._spots = spots  # for each row the number of its block, and its index there
        self._positions = {block.number: position for position, block in enumerate(blocks)}

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(block.rows for block in self._blocks)

    def arranged(self, cells: bytearray) -> list[bytearray]:
        """Return the bytes, given by row, in this order: one array for each block.

        Rows that are not in the order must have a zero.
        """
        if (len(cells) - cells.count(0)) * _FEW > len(cells):
            return [bytearray([cells[row] for row in block.rows]) for block in self._blocks]
        found = [bytearray(len(block.rows)) for block in self._blocks]
        for marked in _marked(cells):
            row = marked.start()
            spot = self._spots[row]
            found[self._positions[spot >> _INDEX_BITS]][spot & _INDEX] = cells[row]
        return found

    def rows_in(self, position: int, start: int, end: int) -> list[int]:
        """Return the rows of a block from one index up to another."""
        return self._blocks[position].rows[start:end]

    def encoded_in(
        self, position: int, spans: Collection[tuple[int, int]], reason: str, corpus: Rows
    ) -> Iterable[bytes | memoryview]:
        """Return some rows of a block as dropped ones, without copying long pieces."""
        block = self._blocks[position]
        data, ends = block.pieces(reason, corpus)
        if len(spans) * _FEW < len(block.rows):
            whole = memoryview(data)
            return [whole[ends[start] : ends[end]] for start, end in spans]
        return [b"".join([data[ends[start] : ends[end]] for start, end in spans])]

    def encoded(self, rows: Iterable[int], reason: str, corpus: Rows) -> Iterator[bytes]:
        """Yield some rows, in any order, as dropped ones."""
        for start, end in _runs(map(self._spots.__getitem__, rows)):
            block = self._blocks[self._positions[start >> _INDEX_BITS]]
            data, ends = block.pieces(reason, corpus)
            yield data[ends[start & _INDEX] : ends[end & _INDEX]]

    def changed(self, corpus: Rows, *, gone: Collection[int], added: Collection[int]) -> "Order":
        """Return the order without some rows and with new ones, which have the highest numbers."""
        touched = {self._positions[self._spots[row] >> _INDEX_BITS] for row in gone}
        parts: list[_Block | list[int]] = []
        for position, block in enumerate(self._blocks):
            if position not in touched:
                parts.append(block)
            elif rest := [row for row in block.rows if row not in gone]:
                parts.append(rest)
        firsts = [corpus.rank_key(_rows(part)[0]) for part in parts]
        for row in added:
            position = max(0, bisect_right(firsts, corpus.rank_key(row)) - 1)
            if not parts:
                parts.append([])
                firsts.append(corpus.rank_key(row))
            part = parts[position]
            if isinstance(part, _Block):
                part = parts[position] = list(part.rows)
            insort(part, row, key=corpus.rank_key)
            firsts[position] = corpus.rank_key(part[0])
        number = 1 + max(self._positions, default=-1)
        return _ordered(parts, number, self._spots + array("Q", bytes(8 * len(added))))


def order_of(rows: list[int], count: int) -> Order:
    """Return the order of rows that are sorted already; `count` is the number of row numbers."""
    return _ordered([rows], 0, array("Q", bytes(8 * count)))


def _ordered(parts: Iterable[_Block | list[int]], number: int, spots: "array[int]") -> Order:
    """Return the order of blocks and lists of rows; new blocks are numbered from `number` on."""
    blocks: list[_Block] = []
    for part in parts:
        if isinstance(part, _Block):
            blocks.append(part)
            continue
        size = len(part) if len(part) < 2 * _BLOCK_ROWS else _BLOCK_ROWS
        for start in range(0, len(part), size or 1):
            block = _Block(number, part[start : start + size])
            blocks.append(block)
            for spot, row in enumerate(block.rows, number << _INDEX_BITS):
                spots[row] = spot
            number += 1
    return Order(blocks, spots)


def _runs(spots: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield runs of consecutive spots: the first, and the one after the last.

    No run covers two blocks, because the indexes of each block begin at zero.
    """
    start = end = -1
    for spot in spots:
        if spot != end:
            if start >= 0:
                yield start, end
            start = end = spot
        end += 1
    if start >= 0:
        yield start, end


def _rows(part: _Block | list[int]) -> list[int]:
    return part.rows if isinstance(part, _Block) else part

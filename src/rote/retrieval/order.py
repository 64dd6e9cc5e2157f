"""The order of memories when no score decides, and the bytes of the dropped in it, as they are hashed.

Nearly all memories are dropped, and they stand in this order whatever is asked. It is cut into
blocks: a few changes make a few blocks anew, and all others are shared.

    place   where a row stands: the position of its block, then its index there; in order as numbers
    spot    the same with the number of the block, which stays while others come and go
"""

from array import array
from bisect import bisect_right, insort
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice
from typing import Protocol

import msgspec

_encode = msgspec.json.encode
_encode_lines = msgspec.json.Encoder().encode_lines

_BLOCK_ROWS = 1_024
# Blocks that have grown to twice their size are cut; an index always has room in these bits.
_INDEX_BITS = 16
_INDEX = (1 << _INDEX_BITS) - 1


class Drop(msgspec.Struct, frozen=True, gc=False):
    """A memory that does not come back; members in canonical order."""

    memory_id: str
    reason: str
    record_hash: str
    store_path: str


class Rows(Protocol):
    """What is ordered."""

    def rank_key(self, row: int) -> tuple[int, str, str, str]:
        """How rows of equal score rank."""
        ...

    def drops(self, rows: Sequence[int], reason: str) -> Iterable[Drop]: ...


def encoded(drops: Iterable[Drop]) -> list[bytes]:
    """The dropped as canonical JSON, each after a comma."""
    return [b"," + piece for piece in map(_encode, drops)]


class _Block:
    """Rows that follow each other."""

    def __init__(self, number: int, rows: list[int]) -> None:
        self.number = number
        self.rows = rows
        self._pieces: dict[str, tuple[memoryview, array[int]]] = {}

    def between(self, start: int, end: int, reason: str, corpus: Rows) -> memoryview:
        """The dropped from one index up to another."""
        kept = self._pieces.get(reason)
        if kept is None:
            # Lines and items after a comma are equally long, and no line break is in an item.
            lines = _encode_lines(list(corpus.drops(self.rows, reason)))
            sizes = (len(line) + 1 for line in lines.split(b"\n"))
            ends = array("Q", accumulate(islice(sizes, len(self.rows)), initial=0))
            data = memoryview(b"," + lines[:-1].replace(b"\n", b","))
            kept = self._pieces[reason] = data, ends
        data, ends = kept
        return data[ends[start] : ends[end]]


class Order:
    """Never changes; `changed` makes another one."""

    def __init__(self, blocks: list[_Block], spots: "array[int]") -> None:
        self._blocks = blocks
        self._spots = spots  # of all rows
        self._positions = {block.number: place for place, block in enumerate(blocks)}

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(block.rows for block in self._blocks)

    def places(self, rows: Iterable[int]) -> list[int]:
        spots, positions = self._spots, self._positions
        return [
            positions[spot >> _INDEX_BITS] << _INDEX_BITS | spot & _INDEX
            for spot in map(spots.__getitem__, rows)
        ]

    def row(self, place: int) -> int:
        return self._blocks[place >> _INDEX_BITS].rows[place & _INDEX]

    def encoded(self, places: Iterable[int], reason: str, corpus: Rows) -> Iterator[memoryview]:
        """The rows at some places as dropped ones; those that follow each other come as one."""
        start = end = 0
        for place in places:
            if place != end:
                if start < end:
                    yield self._between(start, end, reason, corpus)
                start = place
            end = place + 1
        if start < end:
            yield self._between(start, end, reason, corpus)

    def encoded_without(
        self, left_out: Sequence[int], reason: str, corpus: Rows
    ) -> Iterator[memoryview]:
        """All rows but those at some places, which are given in order."""
        waiting = 0
        for position, block in enumerate(self._blocks):
            start = place = position << _INDEX_BITS
            end = start + len(block.rows)
            while waiting < len(left_out) and left_out[waiting] < end:
                place = left_out[waiting]
                if start < place:
                    yield self._between(start, place, reason, corpus)
                start = place + 1
                waiting += 1
            if start < end:
                yield self._between(start, end, reason, corpus)

    def _between(self, start: int, end: int, reason: str, corpus: Rows) -> memoryview:
        """From one place up to another in the same block."""
        first = start & _INDEX
        block = self._blocks[start >> _INDEX_BITS]
        return block.between(first, first + end - start, reason, corpus)

    def changed(self, corpus: Rows, *, gone: Collection[int], added: Collection[int]) -> "Order":
        """The order without some rows and with new ones, whose numbers follow those of all others."""
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
    """Rows that are in order; `count` is how many numbers of rows there are."""
    return _ordered([rows], 0, array("Q", bytes(8 * count)))


def _ordered(parts: Iterable[_Block | list[int]], number: int, spots: "array[int]") -> Order:
    """Blocks as they are, and blocks of what is in none; new ones are numbered from `number` on."""
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


def _rows(part: _Block | list[int]) -> list[int]:
    return part.rows if isinstance(part, _Block) else part

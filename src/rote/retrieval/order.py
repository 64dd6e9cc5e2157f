"""The order of memories when no score decides, and the hashed bytes of dropped ones.

Nearly all memories are dropped, whatever is asked. So what is hashed of each is made once, and a
question only brings it into its order.
"""

import threading
from array import array
from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from operator import eq
from typing import Protocol, TypeVar

import msgspec

_encode_lines = msgspec.json.Encoder().encode_lines
# The rows that are hashed together: their bytes fit into the caches of a processor.
ROWS_AT_ONCE = 1_024

Rows = Sequence[int]


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


class Memories(Protocol):
    """The memories that are put in order."""

    @property
    def row_count(self) -> int: ...

    def rank_key(self, row: int) -> tuple[int, str, str, str]:
        """Return the key by which rows of equal score rank."""
        ...

    def drops(self, rows: Rows, reason: str) -> list[Drop]: ...


def encoded(drops: Sequence[Drop]) -> bytes:
    """Return the dropped as canonical JSON, each before a comma."""
    # No item holds a line break.
    return _encode_lines(drops).replace(b"\n", b",")


class EncodedDrops:
    """The hashed bytes of each row as a dropped one. A corpus and those that follow it share them."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[bytes]] = {}  # by reason, and row
        self._lock = threading.Lock()

    def of(self, rows: Rows, reason: str, memories: Memories) -> Iterator[bytes]:
        """Yield the bytes of some rows, in their order."""
        piece_of = self._known(reason, memories).__getitem__
        for start in range(0, len(rows), ROWS_AT_ONCE):
            yield b"".join(map(piece_of, rows[start : start + ROWS_AT_ONCE]))

    def _known(self, reason: str, memories: Memories) -> list[bytes]:
        with self._lock:
            pieces = self._pieces.setdefault(reason, [])
            for start in range(len(pieces), memories.row_count, ROWS_AT_ONCE):
                rows = range(start, min(start + ROWS_AT_ONCE, memories.row_count))
                lines = _encode_lines(memories.drops(rows, reason))
                pieces += lines.replace(b"\n", b",\n").split(b"\n")[:-1]
            return pieces


def change_order(
    order: "array[int]", memories: Memories, *, gone: Collection[int], added: Collection[int]
) -> "array[int]":
    """Return an order without some rows and with new ones."""
    rows = order[:]
    for row in gone:
        del rows[rows.index(row, bisect_left(rows, memories.rank_key(row), key=memories.rank_key))]
    for row in added:
        insort(rows, row, key=memories.rank_key)
    return rows


def tied(keys: Sequence[int]) -> list[int]:
    """Return the places of those keys in a sorted sequence that are equal to a neighbour."""
    equal = list(map(eq, keys, islice(keys, 1, None)))
    if True not in equal:
        return []
    sides = zip([False, *equal], [*equal, False], strict=True)
    return [place for place, (before, after) in enumerate(sides) if before or after]

"""The layout of rows in threads: a line of cells, on which neighbours in a thread are neighbours.

    free rows     in no thread; they lend nothing
    gap           three cells
    thread        in its order, and a gap
    …

Nobody lends further than a gap is long. So what all cells lend is found by shifting all of them, and
nothing reaches another thread. A thread that changes gets new cells at the end, with a longer gap;
the old ones stay empty. Rows that come at the end of a thread take cells of that gap.
"""

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain, compress
from typing import TYPE_CHECKING, TypeAlias

from rote.values.limits import LAYOUT_EMPTY_SHARE, LAYOUT_ROOM_SHARE

if TYPE_CHECKING:
    from rote.retrieval.segments.living import Living

GAP = 3

Cells: TypeAlias = "array[int]"
# The order in a thread: turn, instant, entity and number; and the row itself.
_Place = tuple[int | float, int, str, int, int]
_Span = tuple[
    int, int, int
]  # the first cell of a thread, the one after its last, and after its room
_NOWHERE = (0, 0, 0)


class Layout:
    """The cells of living rows. It never changes once it is made."""

    def __init__(self) -> None:
        self.cells: list[Cells] = []  # by part: for each row its cell, or one that stays empty
        self.rows: Cells = array("I")  # for each cell its row; for one in a gap any
        self.gaps: Cells = array("I")  # the cells in gaps
        self.free = 0  # the first so many cells are those of free rows
        self._spans: dict[str, _Span] = {}  # of threads
        self._empty = 0  # cells that threads have left

    @cached_property
    def filled(self) -> bytes:
        """Return 1 for each cell that has a row, 0 for one in a gap."""
        filled = bytearray(b"\x01") * len(self.rows)
        for cell in self.gaps:
            filled[cell] = 0
        return bytes(filled)

    @staticmethod
    def of(living: "Living", growing: Collection[str] = ()) -> "Layout":
        """Return the layout of rows, with room in threads that are growing."""
        made = Layout()
        free, threads = _grouped(living)
        made.rows, made.free = array("I", free), len(free)
        made._add_gap()
        for name, places in threads.items():
            places.sort()
            room = _room(places) if name in growing else 0
            made._spans[name] = made._add((place[-1] for place in places), room=room)
        cells = array("I", made.gaps[:1]) * sum(part.segment.size for part in living.parts)
        for start, end, _ in ((0, made.free, 0), *made._spans.values()):
            for cell in range(start, end):
                cells[made.rows[cell]] = cell
        made.cells = [cells[part.base : part.base + part.segment.size] for part in living.parts]
        return made

    def changed(self, living: "Living", states: Mapping[int, int]) -> "Layout":
        """Return the layout after some rows have come (1) or gone (0)."""
        lone: list[int] = []
        touched: dict[str, list[int]] = {}
        left: set[str] = set()  # threads that a row has gone from
        for row, state in states.items():
            part, number = living.place(row)
            name = part.segment.thread_names[number] if part.segment.has_threads else None
            added = lone if name is None else touched.setdefault(name, [])
            if state:
                added.append(row)
            elif name is not None:
                left.add(name)
        places = {name: sorted(_place(living, row) for row in touched[name]) for name in touched}
        spans = {
            name: self._spans.get(name, _NOWHERE)
            for name in touched
            if name in left or not self._has_room(living, name, places[name])
        }
        empty = self._empty + sum(end - start + GAP for start, _, end in spans.values())
        if empty * LAYOUT_EMPTY_SHARE > len(self.rows):
            return Layout.of(living, touched)
        made = Layout()
        made.rows, made.gaps, made.free = self.rows[:], self.gaps[:], self.free
        made._spans, made._empty = dict(self._spans), empty
        new = [made._add((row,)) for row in lone]
        for name, later in places.items():
            if name not in spans:
                new.append(made._extend(name, [place[-1] for place in later]))
                continue
            start, end, _ = spans[name]
            stayed = (row for row in self.rows[start:end] if living.is_living(row))
            later = sorted((*(_place(living, row) for row in stayed), *later))
            new.append(made._add((place[-1] for place in later), room=_room(later)))
            made._spans[name] = new[-1]
        made._point(living, self, new)
        return made

    def _has_room(self, living: "Living", name: str, places: Sequence[_Place]) -> bool:
        """Whether rows come at the end of a thread, and its gap has cells for them."""
        start, end, limit = self._spans.get(name, _NOWHERE)
        is_last = start < end and _place(living, self.rows[end - 1]) < places[0]
        return is_last and len(places) <= limit - end

    def _add(self, rows: Iterable[int], room: int = 0) -> _Span:
        """Add a thread at the end, and return its span."""
        start = len(self.rows)
        self.rows.extend(rows)
        end = len(self.rows)
        self._add_gap(room)
        return start, end, end + room

    def _add_gap(self, room: int = 0) -> None:
        self.gaps.extend(range(len(self.rows), len(self.rows) + room + GAP))
        self.rows.extend((0,) * (room + GAP))

    def _extend(self, name: str, rows: Sequence[int]) -> _Span:
        """Add rows at the end of a thread that has room for them; return their span."""
        start, end, limit = self._spans[name]
        first = bisect_left(self.gaps, end)  # gaps are in order
        del self.gaps[first : first + len(rows)]
        self.rows[end : end + len(rows)] = array("I", rows)
        self._spans[name] = start, end + len(rows), limit
        return end, end + len(rows), limit

    def _point(self, living: "Living", before: "Layout", spans: Iterable[_Span]) -> None:
        """Note the cells of rows that were added to another layout."""
        empty = self.gaps[:1]
        known = len(before.cells)
        self.cells = [
            *before.cells,
            *(empty * part.segment.size for part in living.parts[known:]),
        ]
        own = set(range(known, len(self.cells)))
        for cell in chain.from_iterable(range(start, end) for start, end, _ in spans):
            row = self.rows[cell]
            place = living.part_of(row)
            if place not in own:
                own.add(place)
                self.cells[place] = self.cells[place][:]
            self.cells[place][row - living.parts[place].base] = cell


def _room(places: Sequence[_Place]) -> int:
    return len(places) // LAYOUT_ROOM_SHARE


def _grouped(living: "Living") -> tuple[list[int], dict[str, list[_Place]]]:
    """Return the living rows that are in no thread, and those of each thread."""
    free: list[int] = []
    threads: defaultdict[str, list[_Place]] = defaultdict(list)
    for part in living.parts:
        segment, base = part.segment, part.base
        rows = range(base, base + segment.size)
        if not segment.has_threads:
            free.extend(compress(rows, part.living))
            continue
        entities = map(segment.entities.__getitem__, segment.entity)
        places = zip(
            segment.turn_numbers, segment.instant, entities, segment.number, rows, strict=True
        )
        named = zip(segment.thread_names, places, strict=True)
        for name, place in compress(named, part.living):
            if name is None:
                free.append(place[-1])
            else:
                threads[name].append(place)
    return free, threads


def _place(living: "Living", row: int) -> _Place:
    part, number = living.place(row)
    segment = part.segment
    return (
        segment.turn_numbers[number],
        segment.instant[number],
        segment.entities[segment.entity[number]],
        segment.number[number],
        row,
    )

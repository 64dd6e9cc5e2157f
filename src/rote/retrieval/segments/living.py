"""The memories that are there on a line: of each the newest row, unless that says that it is gone.

    Living           the rows of some segments on a line, whatever the time
      .extended(…)   the same with later segments
      .at(now)       without the memories that have expired by then

All of these never change, and share what they have in common. Threads share them, too.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, chain, compress, pairwise
from operator import mul

from rote.retrieval.ranking import weights
from rote.retrieval.segments.layout import Layout
from rote.retrieval.segments.rows import NEVER
from rote.retrieval.segments.segment import Key, Segment
from rote.values.limits import LIVING_LATE_MAX

# The newest version that counts of each branch of a line, by the branch's number.
Line = Mapping[int, int]


class Part:
    """A segment, and those of its rows that are living. Its rows are numbered from 0 on."""

    def __init__(self, segment: Segment, base: int, living: bytes) -> None:
        self.segment = segment
        self.base = base  # the number of its first row among those of all parts
        self.living = living  # 1 for a row that is living, else 0
        self.count = sum(living)
        self.is_whole = self.count == segment.size - len(segment.gone)  # all its memories are
        self.length = sum(compress(segment.length, living))
        self._weights: tuple[int, list[int]] = (0, [])

    def weights(self, average: int) -> list[int]:
        """Return the weight of a term that a row has once, by row; 0 where it is not living."""
        kept = self._weights
        if kept[0] != average:
            lengths = self.segment.length
            known = {each: weights.weight(1, each, average) for each in set(lengths)}
            found = list(map(known.__getitem__, lengths))
            if not self.is_whole:
                found = list(map(mul, found, self.living))
            kept = self._weights = average, found
        return kept[1]


class Newest:
    """The newest row of each memory: of most, and of those that were written lately."""

    def __init__(self, most: Mapping[Key, int], late: Mapping[Key, int], known: "_Entries") -> None:
        self._most = most
        self._late = late
        self._known = known  # of most
        self._later = _Entries(late)

    @staticmethod
    def of(rows: Mapping[Key, int]) -> "Newest":
        return Newest(rows, {}, _Entries(rows))

    def get(self, key: Key) -> int | None:
        return self._late.get(key, self._most.get(key))

    def entries(self, entity: str) -> list[int]:
        """Return the rows of the entries of a record."""
        numbers = {*self._known.numbers(entity), *self._later.numbers(entity)}
        rows = (self.get((entity, number)) for number in numbers)
        return [row for row in rows if row is not None]

    def changed(self, rows: Mapping[Key, int]) -> "Newest":
        """Return this with other rows of some memories."""
        late = {**self._late, **rows}
        if len(late) > LIVING_LATE_MAX:
            return Newest.of({**self._most, **late})
        return Newest(self._most, late, self._known)


class _Entries:
    """The numbers of entries by record, listed when they are first asked for."""

    def __init__(self, rows: Mapping[Key, int]) -> None:
        self._rows = rows
        self._found: dict[str, list[int]] | None = None

    def numbers(self, entity: str) -> Sequence[int]:
        if self._found is None:
            self._found = _numbers(self._rows)
        return self._found.get(entity, ())


def _numbers(keys: Iterable[Key]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for key in keys:
        if not isinstance(key, str):
            found.setdefault(key[0], []).append(key[1])
    return found


class Living:
    """The living rows of some segments."""

    def __init__(
        self,
        parts: Sequence[Part],
        newest: Newest,
        deadlines: Mapping[int, int],
        make_layout: Callable[["Living"], Layout],
    ) -> None:
        self.parts = parts
        self.count = sum(part.count for part in parts)
        self.length = sum(part.length for part in parts)
        self._bases = [part.base for part in parts]
        self._newest = newest
        self._deadlines = deadlines  # the last instants of records, by the row that tells
        self._timed: tuple[int, int, Living] | None = None
        self._layout: Layout | None = None
        self._make_layout = make_layout

    @staticmethod
    def of(segments: Sequence[Segment], line: Line) -> "Living":
        """Return the living rows of segments, which are in the order of versions."""
        bases = list(accumulate((each.size for each in segments), initial=0))
        newest: dict[Key, int] = {}
        for segment, (base, end) in zip(segments, pairwise(bases), strict=True):
            counted = _on_line(segment, line)
            pairs = zip(segment.keys, range(base, end), strict=True)
            newest.update(pairs if counted is None else compress(pairs, counted))
        if not are_ordered(segments):
            newest = _newest_by_version(segments, line)
        living = bytearray(bases[-1])
        for row in newest.values():
            living[row] = 1
        for segment, base in zip(segments, bases, strict=False):
            for row in segment.gone:
                living[base + row] = 0
        parts = [
            Part(segment, base, bytes(living[base:end]))
            for segment, (base, end) in zip(segments, pairwise(bases), strict=True)
        ]
        deadlines = {
            base + row: segment.expires[row]
            for segment, base in zip(segments, bases, strict=False)
            for row in segment.expiring
            if newest.get(segment.keys[row]) == base + row
        }
        return Living(parts, Newest.of(newest), deadlines, Layout.of)

    @property
    def layout(self) -> Layout:
        """Return where the rows are in their threads."""
        if self._layout is None:
            self._layout = self._make_layout(self)
            self._make_layout = Layout.of  # holds nothing
        return self._layout

    def at(self, now: int) -> "Living":
        """Return the rows of the memories that have not expired."""
        timed = self._timed
        if timed is None or not timed[0] < now <= timed[1]:
            passed = max(
                (last for last in self._deadlines.values() if last < now), default=-NEVER - 1
            )
            coming = min((last for last in self._deadlines.values() if last >= now), default=NEVER)
            gone = [row for row, last in self._deadlines.items() if last < now]
            expired = {row: 0 for head in gone for row in self._headed(head)}
            found = self._changed(self.parts, expired, self._newest, {}) if expired else self
            timed = self._timed = passed, coming, found
        return timed[2]

    def extended(self, segments: Sequence[Segment], line: Line) -> "Living":
        """Return the rows with those of segments that are later than all that are here."""
        late: dict[Key, int] = {}
        states: dict[int, int] = {}
        deadlines = dict(self._deadlines)
        bases = list(accumulate((each.size for each in segments), initial=self._size))
        for segment, base in zip(segments, bases, strict=False):
            counted = _on_line(segment, line)
            rows = range(segment.size)
            for row in rows if counted is None else compress(rows, counted):
                key = segment.keys[row]
                before = late.get(key, self._newest.get(key))
                if before is not None:
                    deadlines.pop(before, None)
                    if states.pop(before, None) is None and self._is_known(before):
                        states[before] = 0
                if segment.has_memory(row):
                    states[base + row] = 1
                if segment.expires[row] != NEVER:
                    deadlines[base + row] = segment.expires[row]
                late[key] = base + row
        parts = [
            *self.parts,
            *(
                Part(segment, base, bytes(segment.size))
                for segment, base in zip(segments, bases, strict=False)
            ),
        ]
        return self._changed(parts, states, self._newest.changed(late), deadlines)

    @property
    def _size(self) -> int:
        return self.parts[-1].base + self.parts[-1].segment.size if self.parts else 0

    def _changed(
        self,
        parts: Sequence[Part],
        states: Mapping[int, int],
        newest: Newest,
        deadlines: Mapping[int, int],
    ) -> "Living":
        """Return parts with other states of some rows."""
        bases = [part.base for part in parts]
        changes: dict[int, bytearray] = {}
        for row, state in states.items():
            place = bisect_right(bases, row) - 1
            if place not in changes:
                changes[place] = bytearray(parts[place].living)
            changes[place][row - bases[place]] = state
        changed = [
            Part(part.segment, part.base, bytes(changes[place])) if place in changes else part
            for place, part in enumerate(parts)
        ]
        return Living(changed, newest, deadlines, self._layout_after(states))

    def _layout_after(self, states: Mapping[int, int]) -> Callable[["Living"], Layout]:
        """Return what makes the layout of rows that follow these."""
        layout = self._layout
        if layout is not None:
            return lambda living: layout.changed(living, states)
        if self._make_layout is Layout.of:
            return lambda living: self.layout.changed(living, states)
        # Those before would be held as long as nobody asks for a layout.
        return Layout.of

    def place(self, row: int) -> tuple[Part, int]:
        """Return the part of a row, and its number there."""
        part = self.parts[self.part_of(row)]
        return part, row - part.base

    def part_of(self, row: int) -> int:
        return bisect_right(self._bases, row) - 1

    def is_living(self, row: int) -> bool:
        part, number = self.place(row)
        return part.living[number] == 1

    def _is_known(self, row: int) -> bool:
        """Whether a row is one of those here, and living."""
        return row < self._size and self.is_living(row)

    def _headed(self, row: int) -> Iterable[int]:
        """Return the living rows of a record, by the row with the number 0."""
        part, number = self.place(row)
        segment = part.segment
        rows = (row, *self._newest.entries(segment.entities[segment.entity[number]]))
        return filter(self.is_living, rows)

    def details_of(self, entity: str) -> str:
        """Return the details of all entries of a record, as its head tells them."""
        row = self._newest.get(entity)
        if row is None:
            return ""
        part, number = self.place(row)
        place = part.segment.detail[number]
        return part.segment.details[place - 1] if place else ""


def are_ordered(segments: Sequence[Segment]) -> bool:
    """Whether the versions of rows never fall, from the first segment to the last."""
    return all(each.is_sorted for each in segments) and all(
        first.version[-1] <= second.version[0] for first, second in pairwise(segments)
    )


def in_order(segments: Iterable[Segment]) -> list[Segment]:
    """Return the segments that have rows, in the order of versions where they have one."""
    return sorted(
        (each for each in segments if each.size),
        key=lambda each: (each.version[0], each.version[-1]),
    )


def _on_line(segment: Segment, line: Line) -> list[bool] | None:
    """Return for each row whether it is on a line; None when all of them are."""
    branches = set(segment.branch)
    if all(line.get(branch, -1) >= segment.last_version for branch in branches):
        return None
    return [
        line.get(branch, -1) >= version
        for branch, version in zip(segment.branch, segment.version, strict=True)
    ]


def _newest_by_version(segments: Sequence[Segment], line: Line) -> dict[Key, int]:
    """Return the newest row of each memory where rows are in no order."""
    keys = list(chain.from_iterable(each.keys for each in segments))
    versions = list(chain.from_iterable(each.version for each in segments))
    counted = chain.from_iterable(_on_line(each, line) or [True] * each.size for each in segments)
    rows = sorted(compress(range(len(keys)), counted), key=versions.__getitem__)
    return {keys[row]: row for row in rows}

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
        self.is_whole = self.count == segment.size
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


class Living:
    """The living rows of some segments."""

    def __init__(
        self,
        parts: Sequence[Part],
        newest: tuple[Mapping[Key, int], Mapping[Key, int]],
        deadlines: Mapping[int, int],
        make_layout: Callable[["Living"], Layout],
    ) -> None:
        self.parts = parts
        self.count = sum(part.count for part in parts)
        self.length = sum(part.length for part in parts)
        self._bases = [part.base for part in parts]
        self._newest = newest  # the newest row of each memory; the second of those written lately
        self._deadlines = deadlines  # the last instant of each row that has one
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
        deadlines: dict[int, int] = {}
        found = Living(parts, (newest, {}), deadlines, Layout.of)
        for part in parts:
            segment = part.segment
            for row in segment.expiring:
                if newest.get(segment.keys[row]) == part.base + row:
                    found._set_deadlines(deadlines, part.base + row)
        return found

    @property
    def layout(self) -> Layout:
        """Return where the rows are in their threads."""
        if self._layout is None:
            self._layout = self._make_layout(self)
        return self._layout

    def at(self, now: int) -> "Living":
        """Return the rows of the memories that have not expired."""
        timed = self._timed
        if timed is None or not timed[0] < now <= timed[1]:
            expired = {row: 0 for row, last in self._deadlines.items() if last < now}
            passed = max(map(self._deadlines.__getitem__, expired), default=-NEVER - 1)
            coming = min((last for last in self._deadlines.values() if last >= now), default=NEVER)
            found = self._changed(self.parts, expired, self._newest, {}) if expired else self
            timed = self._timed = passed, coming, found
        return timed[2]

    def extended(self, segments: Sequence[Segment], line: Line) -> "Living":
        """Return the rows with those of segments that are later than all that are here."""
        old, late = self._newest[0], dict(self._newest[1])
        states: dict[int, int] = {}
        heads: dict[str, int | None] = {}  # of the entities that have changed, as they were
        bases = list(accumulate((each.size for each in segments), initial=self._size))
        for segment, base in zip(segments, bases, strict=False):
            counted = _on_line(segment, line)
            rows = range(segment.size)
            for row in rows if counted is None else compress(rows, counted):
                key = segment.keys[row]
                entity = key if isinstance(key, str) else key[0]
                heads.setdefault(entity, late.get(entity, old.get(entity)))
                before = late.get(key, old.get(key))
                if before is not None:
                    states[before] = 0
                states[base + row] = int(segment.detail[row] != 0)
                late[key] = base + row
        parts = [*self.parts]
        for segment, base in zip(segments, bases, strict=False):
            parts.append(Part(segment, base, bytes(segment.size)))
        newest = ({**old, **late}, {}) if len(late) > LIVING_LATE_MAX else (old, late)
        deadlines = dict(self._deadlines)
        found = self._changed(parts, states, newest, deadlines)
        if deadlines or any(segment.expiring for segment in segments):
            found._move_deadlines(deadlines, states, heads)
        return found

    @property
    def _size(self) -> int:
        return self.parts[-1].base + self.parts[-1].segment.size if self.parts else 0

    def _changed(
        self,
        parts: Sequence[Part],
        states: Mapping[int, int],
        newest: tuple[Mapping[Key, int], Mapping[Key, int]],
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
        layout = self._layout
        make = Layout.of if layout is None else lambda living: layout.changed(living, states)
        return Living(changed, newest, deadlines, make)

    def _newest_of(self, key: Key) -> int | None:
        old, late = self._newest
        return late.get(key, old.get(key))

    def place(self, row: int) -> tuple[Part, int]:
        """Return the part of a row, and its number there."""
        part = self.parts[self.part_of(row)]
        return part, row - part.base

    def part_of(self, row: int) -> int:
        return bisect_right(self._bases, row) - 1

    def is_living(self, row: int) -> bool:
        part, number = self.place(row)
        return part.living[number] == 1

    def _move_deadlines(
        self, deadlines: dict[int, int], states: Iterable[int], heads: Mapping[str, int | None]
    ) -> None:
        """Forget the deadlines of rows and entities that have changed, and take those that they have."""
        for row in states:
            deadlines.pop(row, None)
        for entity, head in heads.items():
            if head is not None:
                for row in self._under(entity, head):
                    deadlines.pop(row, None)
            newest = self._newest_of(entity)
            if newest is not None:
                self._set_deadlines(deadlines, newest)

    def _set_deadlines(self, deadlines: dict[int, int], head: int) -> None:
        """Note when a memory expires, or all entries of a record, by the row that says it."""
        part, number = self.place(head)
        last = part.segment.expires[number]
        if last != NEVER:
            for row in self._under(part.segment.entities[part.segment.entity[number]], head):
                deadlines[row] = last

    def _under(self, entity: str, head: int) -> list[int]:
        """Return the living rows whose last instant a row says."""
        part, number = self.place(head)
        if part.segment.detail[number]:
            return [head]
        entries = range(1, part.segment.length[number] + 1)
        rows = [self._newest_of((entity, each)) for each in entries]
        return [row for row in rows if row is not None and self.is_living(row)]


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

"""Pass 3 of verify: every declared packed index against the log.

The rows of all segments are those that the changes in the log give, in any order. Both sides are added
up as digests, so neither has to be held.
"""

from collections.abc import Iterable
from hashlib import sha256

from rote.contract.index import Packed, PackedIndex
from rote.engines import Reader
from rote.engines.rows import SegmentRow
from rote.errors import Busy
from rote.kernel.log.events import erasures
from rote.kernel.proving.inspection import Inspection
from rote.kernel.reading.index_changes import changes_below, changes_between
from rote.kernel.reading.segments import SegmentKeeper, are_still, load
from rote.kernel.state.space_reader import SpaceReader
from rote.values.limits import CONTENTION_ATTEMPTS_MAX, INDEX_BATCH_COMMITS


def inspect_segments(inspection: Inspection, reads: Reader, index: PackedIndex) -> None:
    """Compare a packed index with the log; start over when something was erased meanwhile."""
    space_reads = SpaceReader(inspection.space, reads)
    for _ in range(CONTENTION_ATTEMPTS_MAX):
        head = space_reads.sync()
        version = 0 if head is None else head.version
        fault = _fault_in(space_reads, index)
        if fault is None or not any(erasures(reads, inspection.number, after=version)):
            break
    if fault is not None:
        inspection.fault("index", f"{index.name} {fault}")


def _fault_in(reads: SpaceReader, index: PackedIndex) -> str | None:
    indexed, segments, stored = _stored(reads, index)
    if not indexed:
        return None  # what is there is of someone who builds it, and nobody reads it yet
    head = reads.rows.head(reads.number)
    if indexed > (0 if head is None else head.version):
        return "claims to be ahead of the log"
    if any(row.until > indexed for row in segments):
        return "has rows from beyond what it covers"
    if sum(row.size for row in segments) != stored.count:
        return "has segments of another size than they say"
    return None if stored == _expected(reads, index, until=indexed) else "does not match the log"


class _Sum:
    """A sum of rows: equal for equal rows, in whatever order they come."""

    def __init__(self) -> None:
        self.count = 0
        self._digests = 0

    def add(self, index: PackedIndex, segments: Iterable[Packed]) -> None:
        for segment in segments:
            for row in index.rows(segment):
                self.count += 1
                self._digests += int.from_bytes(sha256(row).digest())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Sum) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # it changes


def _stored(reads: SpaceReader, index: PackedIndex) -> tuple[int, list[SegmentRow], _Sum]:
    """Return the version up to which an index is complete, its segments then, and all their rows."""
    for _ in range(CONTENTION_ATTEMPTS_MAX):
        segments = reads.rows.segments(reads.number, index.name)
        indexed = reads.rows.indexed(reads.number, index.name)
        rows = _Sum()
        for segment in segments:
            rows.add(index, load(reads, index.name, [segment]) or ())
        if are_still(reads, index.name, segments, indexed):
            return indexed, segments, rows
    raise Busy("others write to this index all the time; try again")


def _expected(reads: SpaceReader, index: PackedIndex, *, until: int) -> _Sum:
    """Return the rows that the log requires up to a version."""
    keeper, rows = SegmentKeeper(index), _Sum()
    after = min(max(reads.space.oldest - 1, 0), until)
    if after:
        for changes in changes_below(reads, keeper, until=after):
            rows.add(index, index.pack(keeper.notes(changes)))
    while after < until:
        last = min(after + INDEX_BATCH_COMMITS, until)
        changes = changes_between(reads, keeper, after=after, until=last)
        rows.add(index, index.pack(keeper.notes(changes)))
        after = last
    return rows

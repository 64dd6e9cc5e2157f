"""The segments of packed indexes: writing, reading, merging and erasing. Their bytes are the index's.

pending changes    wait with the values before and after. Once these are many bytes, only notes of
                   the changes wait
many of them       are packed into a small segment, in the transaction of a commit. After a commit of
                   very much the index is behind, and catches up beside others (segment_building.py)
small segments     are merged after the commit. What is merged never changes, so it is read and
                   computed without a lock; a short transaction then puts the result in their
                   place, if all of them are still there
erased entities    segments that hold one are replaced, in the transaction of the erasure
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import chain, islice

from msgspec import UNSET, UnsetType

from rote.contract.index import Change, Note, Packed, PackedIndex
from rote.engines import Abandoning
from rote.engines.rows import SegmentRow
from rote.errors import Unavailable
from rote.kernel.log.entries import Entry
from rote.kernel.state.index_coverage import IndexChange, Pending
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader, SpaceWriter
from rote.patch import Operation
from rote.values import Json, decode_canonical
from rote.values.limits import (
    PACKED_CHANGE_BYTES_MAX,
    PACKED_COMMIT_BYTES_MAX,
    PACKED_COMMIT_ROWS_MAX,
    PACKED_PENDING_BYTES_MAX,
    PACKED_PENDING_MAX,
    PAGE_MAX,
    SEGMENT_MERGE_ROWS,
    SEGMENT_MERGES_MAX,
    SEGMENT_SMALL_MAX,
    SEGMENT_SMALL_ROWS,
    SEGMENTS_READ_AT_ONCE,
)

_NUMBER_BYTES = 6  # few, since engines repeat it for every term; enough that no number comes twice


class SegmentKeeper:
    """Implements index_changes.Keeper for a packed index."""

    needs_before = True

    def __init__(self, index: PackedIndex) -> None:
        self.index = index
        self.name = index.name
        self.prefix = index.prefix
        self.is_eager = index.is_eager

    @property
    def pending_max(self) -> int:
        return PACKED_PENDING_MAX

    def weigh(self, change: IndexChange) -> int:
        """Return the bytes of the values that wait with a change."""
        before, size = change.before, change.entry.size_bound
        if before is UNSET or change.patches is not None:
            return size  # a patched value shares most of the one before
        return size + before.size_bound

    def is_little(self, pending: Pending) -> bool:
        """Whether changes are few enough to stay pending: a question gets notes of all of them."""
        return pending.count <= PACKED_PENDING_MAX and pending.size <= PACKED_PENDING_BYTES_MAX

    def lightened(self, pending: Pending) -> Pending | None:
        """Return notes of changes; None when they are too many to be made and packed in a commit."""
        sizes = [self._read_bytes(each) for each in pending if type(each) is not Note]
        if sum(sizes) > PACKED_COMMIT_BYTES_MAX or max(sizes, default=0) > PACKED_CHANGE_BYTES_MAX:
            return None
        noted = self.noted(pending, rows_max=PACKED_COMMIT_ROWS_MAX)
        return None if noted is None or noted.size > PACKED_COMMIT_BYTES_MAX else noted

    def _read_bytes(self, change: IndexChange) -> int:
        """Return about the bytes that are read for the notes of a change."""
        patches = change.patches
        return self.weigh(change) if patches is None else sum(map(len, patches))

    def noted(self, pending: Pending, *, rows_max: int | None = None) -> Pending | None:
        """Return notes of pending changes; None when a change has too many rows."""
        parts: list[tuple[IndexChange, ...]] = []
        part: Pending | None = pending
        while part is not None and not part.is_noted:
            parts.append(part.last)
            part = part.earlier
        noted = part or Pending(is_noted=True)
        notes = []
        for change in chain.from_iterable(reversed(parts)):
            note = self._note(change, rows_max)
            if rows_max is not None and len(note.rows) > rows_max:
                return None
            if note.rows:
                notes.append(note)
        if not notes:
            return noted
        count, size = sum(len(note.rows) for note in notes), sum(note.size_bytes for note in notes)
        return Pending(noted.count + count, noted.size + size, tuple(notes), noted, is_noted=True)

    def notes(self, changes: Iterable[IndexChange | Note]) -> list[Note]:
        return [each if isinstance(each, Note) else self._note(each) for each in changes]

    def _note(self, change: IndexChange, rows_max: int | None = None) -> Note:
        """Return the note of a change, with no more than one row too many."""
        rows = islice(self.index.notes(_shown(change)), None if rows_max is None else rows_max + 1)
        return Note(change.version, change.branch, change.id, tuple(rows))

    def take_in(
        self, writes: SpaceWriter, changes: Iterable[IndexChange | Note], until: int
    ) -> None:
        notes = self.notes(changes)
        # Packing loads the index of words, which takes long: not for nothing while the lock is held.
        for packed in self.index.pack(notes) if notes else ():
            put(writes, self.name, packed, until=until)
        self.note(writes, until)

    def note(self, writes: SpaceWriter, until: int) -> None:
        """Note that the segments are complete up to a version."""
        writes.rows.derive(writes.number, self.name, rows=(), ended=(), indexed=until)


def _shown(change: IndexChange) -> Change:
    """Return a change as a packed index gets it."""
    assert change.before is not UNSET
    operations: list[Operation] | None = None
    if change.patches is not None:
        operations = [each for data in change.patches for each in decode_canonical(data)]
    return Change(
        change.version,
        change.branch,
        change.id,
        _value(change.before),
        _value(change.entry),
        operations,
    )


def _value(entry: Entry) -> Json | UnsetType:
    if not entry.exists:
        return UNSET
    is_decoded = entry.document is not UNSET
    return entry.document if is_decoded else decode_canonical(entry.canonical_value())


def put(writes: SpaceWriter, name: str, packed: Packed, *, until: int) -> int:
    """Write a segment under a new number, and return that."""
    token = writes.space.wiring.tokens.token()
    number = int.from_bytes(sha256(token).digest()[:_NUMBER_BYTES])
    row = SegmentRow(number, packed.size, until, packed.body)
    writes.rows.put_segment(writes.number, name, row, sorted(packed.postings.items()))
    return number


def in_order(rows: Iterable[SegmentRow]) -> list[SegmentRow]:
    """Return segments with the oldest first."""
    return sorted(rows, key=lambda row: (row.until, row.number))


def are_still(reads: SpaceReader, name: str, rows: Sequence[SegmentRow], until: int) -> bool:
    """Whether these segments are there, and no others that cover a version up to `until`."""
    numbers = {row.number for row in rows}
    there = reads.rows.segments(reads.number, name)
    others = [row for row in there if row.number not in numbers]
    return len(there) - len(others) == len(numbers) and all(row.until > until for row in others)


def load(reads: SpaceReader, name: str, rows: Sequence[SegmentRow]) -> list[Packed] | None:
    """Return the content of segments; None when one of them is gone."""
    numbers = [row.number for row in rows]
    bodies = reads.rows.segment_bodies(reads.number, name, numbers)
    postings = {number: dict(_postings(reads, name, number)) for number in numbers}
    # Only now: who finds the segment here has read all of its postings.
    there = {row.number for row in reads.rows.segments(reads.number, name)}
    if not bodies.keys() & there >= set(numbers):
        return None
    return [Packed(row.size, bodies[row.number], postings[row.number]) for row in rows]


def _postings(reads: SpaceReader, name: str, number: int) -> Iterator[tuple[str, bytes]]:
    after = ""
    while True:
        page = reads.rows.postings_of(reads.number, name, number, after=after, limit=PAGE_MAX)
        yield from page
        if len(page) < PAGE_MAX:
            return
        after = page[-1][0]


# -- merging ---------------------------------------------------------------------------------------


def merge_all(space: OpenSpace, index: PackedIndex) -> None:
    """Merge small segments until few are left."""
    for _ in range(SEGMENT_MERGES_MAX):
        if not merge_small(space, index):
            break


def merge_small(space: OpenSpace, index: PackedIndex) -> bool:
    """Merge the oldest small segments into one, if there are enough of them; return whether it did.

    When someone else replaces one of them meanwhile, nothing is done: the index answers as well
    without it.
    """
    reads = space.reader()
    is_built = reads.rows.indexed(reads.number, index.name) > 0
    chosen = _to_merge(reads.rows.segments(reads.number, index.name)) if is_built else []
    parts = load(reads, index.name, chosen) if chosen else None
    return bool(parts) and _replace(space, index.name, chosen, index.merge(parts or ()))


def _to_merge(rows: Iterable[SegmentRow]) -> list[SegmentRow]:
    small = in_order(row for row in rows if row.size < SEGMENT_SMALL_ROWS)
    if len(small) < SEGMENT_SMALL_MAX and sum(row.size for row in small) < SEGMENT_MERGE_ROWS:
        return []
    chosen: list[SegmentRow] = []
    size = 0
    for row in small:
        if size >= SEGMENT_MERGE_ROWS or len(chosen) >= SEGMENT_SMALL_MAX:
            break
        chosen.append(row)
        size += row.size
    return chosen


def _replace(space: OpenSpace, name: str, old: Sequence[SegmentRow], new: Packed) -> bool:
    """Put a segment in the place of others, unless one of them is gone; return whether it did."""
    numbers = [row.number for row in old]
    with Abandoning(space.engine), space.engine.writer(space.number) as rows:
        writes = SpaceWriter(space, rows)
        there = {row.number for row in rows.segments(space.number, name)}
        if not there.issuperset(numbers):
            return False
        rows.drop_segments(space.number, name, numbers)
        put(writes, name, new, until=max(row.until for row in old))
    return True


# -- erasing ---------------------------------------------------------------------------------------


def forget_in_segments(writes: SpaceWriter, ids: Collection[str]) -> None:
    """Remove all rows of entities from every packed index.

    An index that cannot be read is dropped, because it is damaged or not declared here. Whoever asks
    it builds it again.
    """
    packed = writes.space.wiring.packed
    for name in writes.rows.indexes(writes.number):
        rows = writes.rows.segments(writes.number, name)
        index = packed.get(name)
        if rows and (index is None or not _are_readable(writes, index, rows, ids)):
            writes.rows.drop_derived(writes.number, name)


def _are_readable(
    writes: SpaceWriter, index: PackedIndex, rows: Sequence[SegmentRow], ids: Collection[str]
) -> bool:
    """Remove the rows of entities from segments; return whether all of these can be read."""
    try:
        for start in range(0, len(rows), SEGMENTS_READ_AT_ONCE):
            _forget_in(writes, index, rows[start : start + SEGMENTS_READ_AT_ONCE], ids)
    except Unavailable:
        raise
    except Exception:  # damaged bytes can raise anything
        return False
    return True


def _forget_in(
    writes: SpaceWriter, index: PackedIndex, rows: Sequence[SegmentRow], ids: Collection[str]
) -> None:
    numbers = [row.number for row in rows]
    bodies = writes.rows.segment_bodies(writes.number, index.name, numbers)
    for row in rows:
        if index.holds(bodies[row.number], ids):
            loaded = load(writes, index.name, [row])
            assert loaded is not None
            left = index.without(loaded[0], ids)
            writes.rows.drop_segments(writes.number, index.name, [row.number])
            if left.size:
                put(writes, index.name, left, until=row.until)

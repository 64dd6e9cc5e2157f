"""Bringing a packed index up to the log, while others commit.

What is missing is read and packed without a lock, a bounded piece at a time. A short transaction then
writes the piece, if all that it was made from still holds.

After a compaction the index begins anew with all facts that are left. Until the last of their pieces
is written, the index is complete up to version 0 and nobody reads its segments. So several may build
at once, and one may die: whoever is the first to be done drops the segments of all others.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

from msgspec import Struct

from rote.contract.index import Note
from rote.engines import Abandoning
from rote.errors import Corrupt
from rote.kernel.reading.index_changes import (
    NO_ENTRIES,
    changes_below,
    changes_between,
    entries_after,
)
from rote.kernel.reading.segments import SegmentKeeper, put
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader, SpaceWriter
from rote.values.limits import (
    INDEX_BATCH_COMMITS,
    INDEX_SPAN_COMMITS,
    PACKED_COMMIT_BYTES_MAX,
    SEGMENT_MERGE_ROWS,
)


class _Ground(Struct, frozen=True):
    """The state that must still be when a piece is written."""

    done: int  # the version up to which the index is complete
    oldest: int  # the horizon
    erasures: int  # that were met


def bring_on(space: OpenSpace, keeper: SegmentKeeper) -> bool:
    """Index the next piece of the log; return whether it did.

    It did not when something was erased or compacted meanwhile, or others were faster.
    """
    reads = space.reader()
    ground = _ground(reads, keeper)
    try:
        if ground.done + 1 < ground.oldest:
            return _build(reads, keeper, ground)
        return _add(reads, keeper, ground)
    except Corrupt:
        if _ground(reads, keeper) == ground:
            raise
        return False


def _ground(reads: SpaceReader, keeper: SegmentKeeper) -> _Ground:
    reads.sync()
    done = reads.rows.indexed(reads.number, keeper.name)
    return _Ground(done, reads.space.oldest, reads.space.erasures)


def _add(reads: SpaceReader, keeper: SegmentKeeper, ground: _Ground) -> bool:
    """Add the next commits of the log to an index."""
    notes, until = _next_notes(reads, keeper, ground.done)
    packed = keeper.index.pack(notes)
    space = reads.space
    with Abandoning(space.engine), space.engine.writer(space.number) as rows:
        writes = SpaceWriter(space, rows)
        if _ground(writes, keeper) != ground:
            return False
        if not ground.done:
            rows.drop_derived(space.number, keeper.name)  # nothing of it counts
        for each in packed:
            put(writes, keeper.name, each, until=until)
        keeper.note(writes, until)
    return True


def _next_notes(reads: SpaceReader, keeper: SegmentKeeper, done: int) -> tuple[list[Note], int]:
    """Return notes of changes above a version, as many as are packed at once, and their last version."""
    found: list[Note] = []
    size, until, known = 0, done, NO_ENTRIES
    commits = reads.rows.commits(reads.number, after=done, limit=INDEX_BATCH_COMMITS)
    for start in range(0, len(commits), INDEX_SPAN_COMMITS):
        last = commits[start : start + INDEX_SPAN_COMMITS][-1].version
        changes = changes_between(reads, keeper, after=until, until=last, known=known)
        # Those of one span only: they are in memory with all their values.
        until, known = last, entries_after(changes)
        notes = keeper.notes(changes)
        found += notes
        size += sum(note.size_bytes for note in notes)
        if size >= PACKED_COMMIT_BYTES_MAX:
            break
    return found, until


def _build(reads: SpaceReader, keeper: SegmentKeeper, ground: _Ground) -> bool:
    """Build an index from all facts that a compaction has left below its horizon."""
    if ground.done:
        return False  # others must not lose what they read
    space, name, until = reads.space, keeper.name, ground.oldest - 1
    own: list[int] = []
    pages = changes_below(reads, keeper, until=until)
    pieces = _pieces(keeper.notes(page) for page in pages)
    for piece in chain(pieces, [None]):
        packed = keeper.index.pack(piece) if piece else []
        with Abandoning(space.engine), space.engine.writer(space.number) as rows:
            writes = SpaceWriter(space, rows)
            there = {row.number for row in rows.segments(space.number, name)}
            if _ground(writes, keeper) != ground or not there.issuperset(own):
                rows.drop_segments(space.number, name, own)
                return False
            own += [put(writes, name, each, until=until) for each in packed]
            if piece is None:
                rows.drop_segments(space.number, name, sorted(there.difference(own)))
            keeper.note(writes, until if piece is None else 0)
    return True


def _pieces(pages: Iterable[list[Note]]) -> Iterator[list[Note]]:
    """Yield pages together, as many notes as are packed at once, by version."""
    piece: list[Note] = []
    size = 0
    for page in pages:
        piece += page
        size += sum(note.size_bytes for note in page)
        if size >= PACKED_COMMIT_BYTES_MAX or len(piece) >= SEGMENT_MERGE_ROWS:
            yield sorted(piece, key=lambda note: note.version)
            piece, size = [], 0
    if piece:
        yield sorted(piece, key=lambda note: note.version)

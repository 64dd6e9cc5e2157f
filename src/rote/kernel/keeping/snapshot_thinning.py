"""Dropping superseded snapshots of small documents.

Every patch of a small document is stored with a snapshot. That makes the newest state cheap to read,
and a long history large. Below the newest fact one snapshot in INLINE_SNAPSHOT_EVERY facts is enough:
the other values are replayed from it. Snapshots of large documents are few and stay. So do those that
a compaction has made, because there is nothing below them to replay from.
"""

from collections.abc import Callable, Iterator

from msgspec import structs

from rote.contract.operations import PATCH
from rote.engines import Abandoning
from rote.engines.rows import EntityRow, FactRow
from rote.kernel.log.branches import NEWEST
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader, SpaceWriter
from rote.values.limits import (
    INLINE_SNAPSHOT_BYTES_MAX,
    INLINE_SNAPSHOT_EVERY,
    PAGE_MAX,
    VERIFY_PAGE_ROWS,
)


def thin(space: OpenSpace, *, advance: Callable[[int], None]) -> int:
    """Drop superseded snapshots in bounded transactions; return their number.

    Call `advance` with the number of entities looked at so far.
    """
    dropped = looked_at = 0
    after: tuple[int, str] | None = None
    while True:
        pointers = space.engine.reader().entity_rows(space.number, after=after, limit=PAGE_MAX)
        for pointer in pointers:
            for page in _superseded(space.reader(), pointer):
                dropped += _rewrite(space, page)
        looked_at += len(pointers)
        advance(looked_at)
        if len(pointers) < PAGE_MAX:
            return dropped
        after = (pointers[-1].branch, pointers[-1].id)


def _rewrite(space: OpenSpace, page: list[FactRow]) -> int:
    """Write facts of one entity without their snapshots; return how many.

    None are written when the entity was erased since they were read. Those up to a horizon that has
    moved since are left out.
    """
    id, salt = page[0].id, page[0].salt
    with Abandoning(space.engine), space.engine.writer(space.number) as rows:
        writes = SpaceWriter(space, rows)
        # After an erasure the entity has another salt, or none.
        if writes.rows.salts(writes.number, [id]).get(id) != salt:
            return 0
        writes.sync()
        above = [row for row in page if row.version > space.oldest]
        writes.rows.rewrite_facts(writes.number, above)
    return len(above)


def _superseded(reads: SpaceReader, pointer: EntityRow) -> Iterator[list[FactRow]]:
    """Yield pages of the facts of an entity on its branch that need no snapshot, newest first."""
    line = ((pointer.branch, NEWEST),)
    before: tuple[int, int] | None = None
    replayed: int | None = None  # facts since the last snapshot that stays; none before the newest
    while True:
        rows = reads.rows.history(
            reads.number,
            pointer.id,
            line,
            before=before,
            after=reads.space.oldest,
            limit=VERIFY_PAGE_ROWS,
        )
        going = []
        for row in rows:
            if row.salt is None:
                break  # erased, and so is everything below it
            if replayed is None:
                replayed = 0
                continue
            is_small = row.value is not None and len(row.value) <= INLINE_SNAPSHOT_BYTES_MAX
            stays = row.op != PATCH or (row.value is not None and not is_small)
            stays = stays or (is_small and replayed + 1 >= INLINE_SNAPSHOT_EVERY)
            replayed = 0 if stays else replayed + 1
            if is_small and not stays:
                going.append(structs.replace(row, value=None))
        if going:
            yield going
        if len(rows) < VERIFY_PAGE_ROWS or rows[-1].salt is None:
            return
        before = (rows[-1].version, rows[-1].index)

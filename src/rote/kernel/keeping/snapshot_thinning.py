"""Superseded snapshots: those of small documents, once a later fact has taken their place.

A patch of a small document carries its whole result, which makes the newest state cheap to read and
a long history long. Behind the newest fact one of INLINE_SNAPSHOT_EVERY is enough: the others are
replayed from it. Snapshots of large documents are few by themselves and stay, and so do those that
a compaction has made: there is nothing below them.
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
    """Take superseded snapshots away, in bounded transactions; how many. Tells how many entities
    it has looked at."""
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
    """How many lost their snapshot: none if the entity was erased since they were read, and none of
    those that are below a line that was drawn since."""
    id, salt = page[0].id, page[0].salt
    with Abandoning(space.engine), space.engine.writer(space.number) as rows:
        writes = SpaceWriter(space, rows)
        # An entity that was erased has another salt afterwards, or none.
        if writes.rows.salts(writes.number, [id]).get(id) != salt:
            return 0
        writes.sync()
        above = [row for row in page if row.version > space.oldest]
        writes.rows.rewrite_facts(writes.number, above)
    return len(above)


def _superseded(reads: SpaceReader, pointer: EntityRow) -> Iterator[list[FactRow]]:
    """The facts of an entity on its branch, newest first, whose snapshots may go, page by page."""
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

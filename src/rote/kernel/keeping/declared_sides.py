"""Side rows of the layers above, by the rules that they declared: an erasure may change them, and a
compaction may have to wait for them."""

from collections.abc import Callable, Iterator

from rote.contract import SideRow, SideRule
from rote.kernel.committing.side_rows import seen
from rote.kernel.log.seals import side_record
from rote.kernel.state.space_reader import SpaceReader, SpaceWriter
from rote.values import canonical
from rote.values.limits import PAGE_MAX


def forget_in_sides(
    writes: SpaceWriter, id: str, *, at: str, has_written: Callable[[int], bool]
) -> None:
    """Write rows anew that an erasure changes; their owners find that the fence has moved on."""
    for rule, row in _declared(writes):
        body = rule.erased(row, id, at=at, has_written=has_written)
        if body is not None:
            moved = side_record(writes.space.did, row.kind, row.key, row.fence + 1, canonical(body))
            writes.rows.put_side(writes.number, moved)


def refuse_below_pins(reads: SpaceReader, *, before: int, now: int) -> None:
    """Raise Busy when a row says that history below a version is still read."""

    def side(kind: str, key: str) -> SideRow | None:
        row = reads.rows.side(reads.number, kind, key)
        return None if row is None else seen(row)

    for rule, row in _declared(reads):
        busy = rule.pinning(row, before=before, now=now, side=side)
        if busy is not None:
            raise busy


def _declared(reads: SpaceReader) -> Iterator[tuple[SideRule, SideRow]]:
    for kind, rule in reads.space.wiring.side_rules.items():
        after = (kind, "")
        while rows := reads.rows.sides(reads.number, kind, after=after, limit=PAGE_MAX):
            for row in rows:
                yield rule, seen(row)
            after = (kind, rows[-1].key)

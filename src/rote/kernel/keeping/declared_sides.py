"""Side rows of the layers above, under the rules that these declare (contract.SideRule).

An erasure may change such rows, and such a row may refuse a compaction.
"""

from collections.abc import Iterator

from rote.contract import Erased, SideRow, SideRule
from rote.kernel.committing.side_rows import seen
from rote.kernel.log.seals import side_record
from rote.kernel.state.space_reader import SpaceReader, SpaceWriter
from rote.values import canonical
from rote.values.limits import PAGE_MAX


def forget_in_sides(writes: SpaceWriter, erased: Erased, *, in_copy: bool = False) -> None:
    """Write the rows that an erasure changes. Their fence grows, so owners with the old one are refused.

    In a copy, rows that move follow those of the source, which come after the commits.
    """
    for rule, row in _declared(writes):
        if in_copy and not rule.is_final:
            continue
        body = rule.erased(row, erased)
        if body is not None:
            moved = side_record(writes.space.did, row.kind, row.key, row.fence + 1, canonical(body))
            writes.rows.put_side(writes.number, moved)


def refuse_below_pins(reads: SpaceReader, *, before: int, now: int) -> None:
    """Raise Busy when a row still needs history below a version."""

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

"""Side rows of the layers above, under the rules that these declare (contract.SideRule).

An erasure may change such rows, such a row may refuse a compaction, and gc drops those that are over.
"""

from collections.abc import Iterator, Sequence

from rote.contract import Erased, SideRow, SideRule
from rote.engines import Abandoning
from rote.kernel.committing.side_rows import seen
from rote.kernel.log.seals import side_record
from rote.kernel.state.open_space import OpenSpace
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


def drop_over(space: OpenSpace, *, now: int) -> None:
    """Drop the rows that their rules say are over, a page in a transaction."""
    for kind, rule in space.wiring.side_rules.items():
        after = (kind, "")
        while page := space.reader().rows.sides(space.number, kind, after=after, limit=PAGE_MAX):
            after = (kind, page[-1].key)
            if not _over(rule, space.reader(), [row.key for row in page], now):
                continue
            with Abandoning(space.engine), space.engine.writer(space.number) as rows:
                writes = SpaceWriter(space, rows)
                for key in _over(rule, writes, [row.key for row in page], now):
                    rows.drop_side(space.number, kind, key)


def _over(rule: SideRule, reads: SpaceReader, keys: Sequence[str], now: int) -> list[str]:
    """Return the keys of the rows of a rule that are there and over."""

    def side(kind: str, key: str) -> SideRow | None:
        row = reads.rows.side(reads.number, kind, key)
        return None if row is None else seen(row)

    found = [(key, side(rule.kind, key)) for key in keys]
    return [key for key, row in found if row is not None and rule.is_over(row, now=now, side=side)]


def _declared(reads: SpaceReader) -> Iterator[tuple[SideRule, SideRow]]:
    for kind, rule in reads.space.wiring.side_rules.items():
        after = (kind, "")
        while rows := reads.rows.sides(reads.number, kind, after=after, limit=PAGE_MAX):
            for row in rows:
                yield rule, seen(row)
            after = (kind, rows[-1].key)

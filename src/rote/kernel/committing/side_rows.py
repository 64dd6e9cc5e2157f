"""Side rows: small mutable rows beside the chain, moved by compare-and-set on a fence."""

from rote.contract import CHECKPOINT, SideRow
from rote.contract.commands import DropSide, GetSide, ListSides, PutSide
from rote.engines import Abandoning
from rote.engines.rows import SideRecord
from rote.errors import Corrupt, Denied, InvalidInput
from rote.kernel.log.page_sizes import page_size
from rote.kernel.log.seals import COMPACTION, KEY, SCRUB, side_record
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader, SpaceWriter
from rote.values import canonical, decode_canonical

# Kinds that only the kernel writes.
KERNEL_KINDS = frozenset({KEY, SCRUB, COMPACTION, CHECKPOINT})


def get_side(space: OpenSpace, command: GetSide) -> SideRow | None:
    kind, key = command.kind, command.key
    check_names(kind, key)
    reads = space.reader()
    row = reads.rows.side(reads.number, kind, key)
    return None if row is None else sealed_row(space, row, kind, key)


def list_sides(space: OpenSpace, command: ListSides) -> tuple[SideRow, ...]:
    kind, after = command.kind, command.after
    canonical([kind, after])
    reads = space.reader()
    limit = page_size(command.limit)
    rows = reads.rows.sides(reads.number, kind, after=(kind, after), limit=limit)
    if reads.rows.is_audit:
        return tuple(sealed_row(space, row, row.kind, row.key) for row in rows)
    # The recovery of runs passes over rows that were damaged.
    return tuple(seen(row) for row in rows)


def put_side(space: OpenSpace, command: PutSide) -> SideRow:
    """Write the row if it still has this fence; raise Denied otherwise."""
    kind, key, fence = command.kind, command.key, command.fence
    check_own(kind, key, fence)
    row = side_record(space.did, kind, key, fence + 1, canonical(command.body))
    with Abandoning(space.engine), space.engine.writer(space.number) as rows:
        writes = SpaceWriter(space, rows)
        _check_fence(writes, kind, key, fence)
        writes.rows.put_side(writes.number, row)
    return seen(row)


def drop_side(space: OpenSpace, command: DropSide) -> None:
    kind, key, fence = command.kind, command.key, command.fence
    check_own(kind, key, fence)
    with Abandoning(space.engine), space.engine.writer(space.number) as rows:
        writes = SpaceWriter(space, rows)
        _check_fence(writes, kind, key, fence)
        writes.rows.drop_side(writes.number, kind, key)


def check_own(kind: str, key: str, fence: int) -> None:
    """Raise InvalidInput for a row that callers of the kernel may not write."""
    check_names(kind, key)
    if kind in KERNEL_KINDS:
        raise InvalidInput(f"side rows of kind {kind!r} are the kernel's own")
    if type(fence) is not int or fence < 0:
        raise InvalidInput("a fence is an integer from 0 on")


def check_names(kind: str, key: str) -> None:
    for text in (kind, key):
        if type(text) is not str or not text:
            raise InvalidInput("the kind and the key of a side row are non-empty texts")
        canonical(text)


def _check_fence(reads: SpaceReader, kind: str, key: str, fence: int) -> None:
    row = reads.rows.side(reads.number, kind, key)
    actual = 0 if row is None else row.fence
    if actual != fence:
        raise Denied(
            f"{kind} {key!r} has moved on (fence {actual}, not {fence}); read it again",
            kind=kind,
            key=key,
            expected_fence=fence,
            actual_fence=actual,
        )


def seen(row: SideRecord) -> SideRow:
    return SideRow(row.kind, row.key, row.fence, decode_canonical(row.body))


def sealed_row(space: OpenSpace, row: SideRecord | None, kind: str, key: str) -> SideRow:
    """Return the row; raise Corrupt when its seal does not match.

    A copy makes a new seal for it, and the recovery of a run relies on it, so damage must be found
    here.
    """
    if row is None or row != side_record(space.did, kind, key, row.fence, row.body):
        raise Corrupt(f"the side row {kind} {key!r} was changed; run `rote verify`")
    return seen(row)

"""Side rows: small mutable rows beside the chain, moved by compare-and-set on a fence."""

from collections.abc import Sequence

from rote.contract import CHECKPOINT, Erased, OnlyIf, SideRow, SideRowPage, SideRule
from rote.contract.commands import DropSide, DropSides, GetSide, ListSides, PutSide
from rote.engines import Abandoning
from rote.engines.rows import SideRecord
from rote.errors import Conflict, Corrupt, Denied, InvalidInput, LimitExceeded, ReadConflict
from rote.kernel.committing.conditions import check_form, check_newest
from rote.kernel.log.events import erasures
from rote.kernel.log.page_sizes import answer_pace, page_size
from rote.kernel.log.seals import ATTEMPT, COMPACTION, KEY, SCRUB, side_record
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader, SpaceWriter
from rote.values import canonical, decode_canonical
from rote.values.limits import PAGE_BYTES_MAX, PAGE_MAX, ROWS_READ_FIRST
from rote.values.times import MICROS_MIN

# Kinds that only the kernel writes.
KERNEL_KINDS = frozenset({KEY, ATTEMPT, SCRUB, COMPACTION, CHECKPOINT})


def get_side(space: OpenSpace, command: GetSide) -> SideRow | None:
    kind, key = command.kind, command.key
    check_names(kind, key)
    reads = space.reader()
    row = reads.rows.side(reads.number, kind, key)
    return None if row is None else sealed_row(space, row, kind, key)


def list_sides(space: OpenSpace, command: ListSides) -> SideRowPage:
    kind, after = command.kind, command.after
    canonical([kind, after])
    reads = space.reader()
    pace = answer_pace(PAGE_BYTES_MAX, limit=page_size(command.limit), first=ROWS_READ_FIRST)
    found: list[SideRow] = []
    while wanted := pace.wanted:
        rows = reads.rows.sides(reads.number, kind, after=(kind, after), limit=wanted)
        fitting = pace.took([len(row.body) for row in rows])
        found += [_listed(reads, row) for row in rows[:fitting]]
        if fitting == len(rows) < wanted:
            return SideRowPage(tuple(found), None)
        after = found[-1].key
    return SideRowPage(tuple(found), after)


def _listed(reads: SpaceReader, row: SideRecord) -> SideRow:
    # The recovery of runs passes over rows that were damaged.
    return sealed_row(reads.space, row, row.kind, row.key) if reads.rows.is_audit else seen(row)


def put_side(space: OpenSpace, command: PutSide) -> SideRow:
    """Write the row if it still has this fence; raise Denied otherwise."""
    kind, key, fence = command.kind, command.key, command.fence
    check_own(kind, key, fence)
    check_form(command.only_if)
    row = side_record(space.did, kind, key, fence + 1, canonical(command.body))
    with Abandoning(space.engine), space.engine.writer(space.number) as rows:
        writes = SpaceWriter(space, rows)
        writes.rows.head(writes.number)  # NotFound when the space was erased
        _check_fence(writes, kind, key, fence)
        _check_newest(writes, command.only_if)
        if command.unerased_since is not None:
            _check_unerased(writes, seen(row), command.unerased_since)
        writes.rows.put_side(writes.number, row)
    return seen(row)


def drop_side(space: OpenSpace, command: DropSide) -> None:
    kind, key, fence = command.kind, command.key, command.fence
    check_own(kind, key, fence)
    check_form(command.only_if)
    with Abandoning(space.engine), space.engine.writer(space.number) as rows:
        writes = SpaceWriter(space, rows)
        _check_fence(writes, kind, key, fence)
        _check_newest(writes, command.only_if)
        writes.rows.drop_side(writes.number, kind, key)


def drop_sides(space: OpenSpace, command: DropSides) -> None:
    """Drop the rows that still have their fences, in one transaction."""
    if len(command.rows) > PAGE_MAX:
        raise LimitExceeded("the number of side rows", size=len(command.rows), limit=PAGE_MAX)
    for key, fence in command.rows:
        check_own(command.kind, key, fence)
    with Abandoning(space.engine), space.engine.writer(space.number) as rows:
        writes = SpaceWriter(space, rows)
        for key, fence in command.rows:
            row = writes.rows.side(writes.number, command.kind, key)
            if row is not None and row.fence == fence:
                writes.rows.drop_side(writes.number, command.kind, key)


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


def _check_newest(writes: SpaceWriter, only_if: OnlyIf | None) -> None:
    if only_if is not None:
        writes.sync()
        check_newest(only_if, writes.newest(only_if.branch, [only_if.id])[only_if.id])


def _check_unerased(reads: SpaceReader, row: SideRow, since: int) -> None:
    """Raise Conflict when a row would bring back what was erased after a version."""
    rule = reads.space.wiring.side_rules.get(row.kind)
    if type(since) is not int or rule is None:
        raise InvalidInput("unerased_since is a version, of a row of a kind that has a rule")
    erased = {id: version for version, id in erasures(reads.rows, reads.number, after=since)}
    held: list[str] = []
    waiting = [sorted(erased)]
    while waiting:  # halves, because a rule reads the whole row each time
        ids = waiting.pop()
        if not ids or not _is_changed(rule, row, ids):
            continue
        if len(ids) == 1:
            held += ids
        else:
            waiting += [ids[len(ids) // 2 :], ids[: len(ids) // 2]]
    if held:
        raise Conflict(
            tuple(
                ReadConflict.of_entity(
                    id, branch="main", expected_version=since, actual=(erased[id], None)
                )
                for id in held
            )
        )


def _is_changed(rule: SideRule, row: SideRow, ids: Sequence[str]) -> bool:
    """Whether an erasure of these entities would change the row."""
    erased = Erased(frozenset(ids), at="", since=MICROS_MIN, has_written=lambda version: False)
    return rule.erased(row, erased) is not None


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

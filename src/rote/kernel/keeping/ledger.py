"""What erasures and compactions must know about runs, whose ledger is side rows."""

from collections.abc import Callable, Iterator

from msgspec import structs

from rote.contract import SideRow
from rote.contract.runs import (
    COMMIT_ABORTED,
    COMMIT_PENDING,
    LEASE,
    RUN,
    VALIDATION_FAILED,
    RunBody,
    lease_in,
    pending_in,
    run_in,
)
from rote.errors import Busy
from rote.kernel.committing.side_rows import seen
from rote.kernel.log.seals import side_record
from rote.kernel.state.space_reader import SpaceReader, SpaceWriter
from rote.values import canonical
from rote.values.limits import PAGE_MAX


def forget_in_ledger(
    writes: SpaceWriter, id: str, *, at: str, has_written: Callable[[int], bool]
) -> None:
    """Abort pending commits that hold an erased entity, and leave no digest of what those that were
    made have written. Their owners find that the row has moved on."""
    for row, entry in _entries(writes):
        payload = pending_in(entry)
        if payload is not None and payload.holds(id):
            after = entry.aborted(VALIDATION_FAILED, at)
        elif entry.version is not None and has_written(entry.version):
            after = entry
        elif entry.state == COMMIT_ABORTED and entry.payload_fingerprint is not None:
            # Of what it would have written nothing is left that could tell whether this was in it.
            after = entry
        else:
            continue
        body = canonical(structs.replace(after, payload_fingerprint=None).body())
        moved = side_record(writes.space.did, RUN, row.key, row.fence + 1, body)
        writes.rows.put_side(writes.number, moved)


def refuse_below_runs(reads: SpaceReader, *, before: int, now: int) -> None:
    """Busy when a run that is not over reads what is below the line."""
    for _, entry in _entries(reads):
        if entry.has_ended or entry.snapshot_version >= before:
            continue
        if _is_in_the_way(reads, entry, now):
            raise Busy(
                f"the run {entry.run_id} reads version {entry.snapshot_version}, and the compaction"
                f" would let go of what is below {before}; wait for it, or run `rote recover`",
                run_id=entry.run_id,
                snapshot_version=entry.snapshot_version,
            )


def _is_in_the_way(reads: SpaceReader, entry: RunBody, now: int) -> bool:
    """Whether it lives, or is pending and can be recovered. In a copy there are no leases: its runs go
    on in the store that it was made of."""
    row = reads.rows.side(reads.number, LEASE, entry.owner)
    if row is None:
        return False
    return entry.state == COMMIT_PENDING or lease_in(seen(row)).until >= now


def _entries(reads: SpaceReader) -> Iterator[tuple[SideRow, RunBody]]:
    after = (RUN, "")
    while rows := reads.rows.sides(reads.number, RUN, after=after, limit=PAGE_MAX):
        for record in rows:
            row = seen(record)
            yield row, run_in(row)
        after = (RUN, rows[-1].key)

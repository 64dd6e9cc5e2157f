"""Rules for the rows of runs when an entity is erased or history compacted; declared at wiring."""

from collections.abc import Callable

from msgspec import structs

from rote.contract import Erased, SideRow
from rote.errors import Busy
from rote.runs.run_rows import (
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
from rote.values import Json

Side = Callable[[str, str], SideRow | None]


class RunRule:
    """Implements contract.SideRule for the ledger."""

    kind = RUN
    travels = True
    is_final = False

    def erased(self, row: SideRow, erased: Erased) -> Json | None:
        """Abort a pending commit that holds an erased entity, and leave no digest of what a run has
        written that wrote it."""
        run = run_in(row)
        pending = pending_in(run)
        if pending is not None and pending.holds(erased.ids):
            run = run.aborted(VALIDATION_FAILED, erased.at)
        elif not (run.version is not None and erased.has_written(run.version)) and not (
            # Of what an aborted run would have written nothing is left that could tell.
            run.state == COMMIT_ABORTED and run.payload_fingerprint is not None
        ):
            return None
        return structs.replace(run, payload_fingerprint=None).body()

    def pinning(self, row: SideRow, *, before: int, now: int, side: Side) -> Busy | None:
        """Return why a run that is not over must be waited for, if it reads below a version."""
        run = run_in(row)
        if run.has_ended or run.snapshot_version >= before or not _lives(run, now, side):
            return None
        return Busy(
            f"the run {run.run_id} reads version {run.snapshot_version}, and the compaction"
            f" would let go of what is below {before}; wait for it, or run `rote recover`",
            run_id=run.run_id,
            snapshot_version=run.snapshot_version,
        )

    def is_over(self, row: SideRow, *, now: int, side: Side) -> bool:
        return False


def _lives(run: RunBody, now: int, side: Side) -> bool:
    """Whether a run goes on, or is pending and can be recovered. In a copy there are no leases: its
    runs go on in the store that it was made of."""
    lease = side(LEASE, run.owner)
    if lease is None:
        return False
    return run.state == COMMIT_PENDING or lease_in(lease).until >= now


class LeaseRule:
    """Implements contract.SideRule for leases, which live with one store."""

    kind = LEASE
    travels = False
    is_final = False

    def erased(self, row: SideRow, erased: Erased) -> Json | None:
        return None

    def pinning(self, row: SideRow, *, before: int, now: int, side: Side) -> Busy | None:
        return None

    def is_over(self, row: SideRow, *, now: int, side: Side) -> bool:
        return False


SIDE_RULES = (RunRule(), LeaseRule())

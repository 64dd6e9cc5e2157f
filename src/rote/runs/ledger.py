"""The ledger: every run and what became of it, as side rows that move by compare-and-set.

A row moves only for who has read it as it is, so of two who want to end a run one does.
"""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, structs

from rote.contract import Port, SideRow, all_sides, all_spaces
from rote.contract.commands import GetSide, GetTimes, PutSide
from rote.errors import Denied, InvalidInput, invariant
from rote.runs.run_rows import BUFFER_OPEN, COMMIT_APPLIED, RUN, RunBody, run_in
from rote.values import format_time


class RunRecord(Struct, frozen=True, kw_only=True):
    """A run as the ledger tells it."""

    run_id: str
    workflow_id: str
    mode: str
    validate: str  # what had to hold at its commit
    state: str  # buffer_open, commit_pending, commit_applied or commit_aborted
    discarded: bool  # ended without a commit: by an exception, or because its owner was gone
    replayed: bool  # it took its replies from a recording
    reason_code: str | None  # why it was aborted
    commit_id: str
    version: int | None  # of its commit; None when there was nothing to write
    started_at: str
    ended_at: str | None  # None while it goes on

    def to_dict(self) -> dict[str, Any]:
        return structs.asdict(self)


class RunRow(Struct, frozen=True):
    """A row of the ledger as it was read, or written."""

    space: str
    fence: int
    body: RunBody

    def record(self) -> RunRecord:
        run = self.body
        return RunRecord(
            run_id=run.run_id,
            workflow_id=run.workflow_id,
            mode=run.mode,
            validate=run.validate,
            state=run.state,
            discarded=run.discarded,
            replayed=run.replayed,
            reason_code=run.reason_code,
            commit_id=run.commit_id,
            version=run.version,
            started_at=run.started_at,
            ended_at=run.at,
        )


class Ledger:
    """The runs of a store."""

    def __init__(self, port: Port) -> None:
        self._port = port

    def check_unused(self, run_id: str, *, besides: str | None = None) -> None:
        """Refuse a run id that was ever used, in any space but one: its traces are there."""
        spaces = [space.did for space in all_spaces(self._port) if space.did != besides]
        if any(self._port.answer(space, GetSide(RUN, run_id)) for space in spaces):
            raise _used(run_id)

    def open(self, space: str, run: RunBody) -> RunRow:
        """A new run; a run id that was ever used in its space is refused."""
        try:
            side = self._port.answer(space, PutSide(RUN, run.run_id, run.body(), 0))
        except Denied:
            raise _used(run.run_id) from None
        return RunRow(space, side.fence, run)

    def move(self, row: RunRow, **changes: Any) -> RunRow:
        """The row with some members changed; Denied when it is not as it was read any more."""
        run = structs.replace(row.body, **changes)
        return self.put(row, run)

    def put(self, row: RunRow, run: RunBody, *, unerased_since: int | None = None) -> RunRow:
        invariant(not row.body.has_ended, "a run that has ended was to be moved")
        command = PutSide(RUN, run.run_id, run.body(), row.fence, unerased_since)
        side = self._port.answer(row.space, command)
        return RunRow(row.space, side.fence, run)

    def discard(self, row: RunRow) -> RunRow:
        return self.move(row, state=BUFFER_OPEN, discarded=True, at=self.now(), payload=None)

    def close_empty(self, row: RunRow, payload_fingerprint: str) -> RunRow:
        """End a run that has written nothing."""
        return self.move(
            row, state=COMMIT_APPLIED, at=self.now(), payload_fingerprint=payload_fingerprint
        )

    def abort(
        self, row: RunRow, reason_code: str, conflicts: tuple[dict[str, Any], ...] = ()
    ) -> RunRow:
        return self.put(row, row.body.aborted(reason_code, self.now(), conflicts))

    def read(self, space: str, run_id: str) -> RunRow | None:
        side = self._port.answer(space, GetSide(RUN, run_id))
        return None if side is None else self.row_of(space, side)

    def rows(self, space: str) -> Iterator[RunRow]:
        """All runs of a space, by run id."""
        return (self.row_of(space, side) for side in self.sides(space))

    def sides(self, space: str) -> Iterator[SideRow]:
        """Their rows, also those that cannot be read."""
        return all_sides(self._port, space, RUN)

    def row_of(self, space: str, side: SideRow) -> RunRow:
        return RunRow(space, side.fence, run_in(side))

    def now(self) -> str:
        return format_time(self._port.answer("", GetTimes(shared=False)).now)


def _used(run_id: str) -> InvalidInput:
    return InvalidInput(
        f"the run id {run_id!r} was used before; take another, or leave it out",
        argument="run_id",
        run_id=run_id,
    )

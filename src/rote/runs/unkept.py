"""The life of a run in a store that was opened read only: it has no row in the ledger and no lease."""

from msgspec import structs

from rote.contract.run_modes import Mode
from rote.errors import Denied
from rote.runs.ledger import RunRow
from rote.runs.life import RunLife
from rote.runs.modes import OFF, READ_ONLY
from rote.runs.run_rows import COMMIT_APPLIED, RunBody


class UnkeptLife(RunLife):
    """The steps of runs that write nothing, in memory alone."""

    is_kept = False

    def check_mode(self, mode: Mode) -> None:
        if mode not in (OFF, READ_ONLY):
            raise Denied(
                f"the store was opened read only; start the run in mode {READ_ONLY}, or open the"
                " store without read_only",
                mode=mode,
                read_only=True,
            )

    def open(self, space: str, run: RunBody, *, is_named: bool) -> RunRow:
        return RunRow(space, 0, run)

    def discard(self, row: RunRow) -> RunRow:
        return _ended(row, discarded=True, at=self.now())

    def close_empty(self, row: RunRow, fingerprint: str) -> RunRow:
        return _ended(row, state=COMMIT_APPLIED, at=self.now(), payload_fingerprint=fingerprint)

    def leave(self, row: RunRow) -> None:
        """Do nothing: nobody waits for its end."""

    def recover(self) -> list[RunRow]:
        raise Denied("the store was opened read only; nothing is recovered", read_only=True)


def _ended(row: RunRow, **changes: object) -> RunRow:
    return RunRow(row.space, row.fence, structs.replace(row.body, **changes))

"""Making the commit of a run: what it read is validated, its operations are applied, and the ledger says
so, in one transaction."""

from typing import Any

from rote.contract import AnswerRead, Commit, Guard, Port, SpaceInfo
from rote.contract.commands import MakeCommit
from rote.runs.ledger import RunRow
from rote.runs.run_rows import COMMIT_APPLIED, RUN, pending_in

KEY_PREFIX = "rote:run:"


def commit_run(port: Port, space: SpaceInfo, line: RunRow) -> Commit:
    """Apply a pending run. Conflict when what it read does not hold, Denied when its row of the ledger has
    moved on, and what else a commit may raise; then nothing was written."""
    run = line.entry
    pending = pending_in(run)
    assert pending is not None
    body: Any = run.body()
    applied = {**body, "state": COMMIT_APPLIED, "payload": None}
    command = MakeCommit(
        pending.operations,
        run.branch,
        pending.reads,
        [
            AnswerRead(read.call, read.digest, read.ranges, run.base_version, run.branch, run.now)
            for read in pending.answers
        ],
        key=KEY_PREFIX + run.commit_id,
        guards=[Guard(RUN, run.run_id, line.fence, applied, stamped=True)],
        unerased_since=run.base_version,
    )
    return port.answer(space.did, command)

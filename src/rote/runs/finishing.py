"""How a pending run ends: applied once, or aborted, or in the hands of whoever took it over."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from msgspec import Struct

from rote.contract import Commit, Port, SpaceInfo
from rote.contract.commands import GetLog
from rote.errors import (
    Conflict,
    Denied,
    InvalidInput,
    LimitExceeded,
    NotFound,
    PayloadMismatch,
    ReadConflict,
    RoteError,
    RunAborted,
    Unavailable,
)
from rote.runs.committing import commit_run
from rote.runs.identities import payload_fingerprint
from rote.runs.ledger import Ledger, RunRow
from rote.runs.run_rows import (
    COMMIT_APPLIED,
    COMMIT_PENDING,
    PAYLOAD_MISMATCH,
    STORAGE_APPLY_FAILED,
    VALIDATION_FAILED,
)
from rote.values.limits import RUN_CONFLICTS_KEPT, TAKEOVER_LOOK_SECONDS, TAKEOVER_LOOKS_MAX


class Finish(Struct, frozen=True):
    """What became of a run."""

    line: RunRow
    commit: Commit | None = None
    error: RunAborted | None = None  # when it was aborted


class Finisher:
    """Ends pending runs of a store."""

    def __init__(self, port: Port, ledger: Ledger) -> None:
        self._port = port
        self._ledger = ledger

    def finish(self, space: SpaceInfo, line: RunRow, *, is_recovery: bool = False) -> Finish:
        """Apply a run that is pending and ours, or abort it. Unavailable when the store cannot answer:
        then it is still pending, or whatever the ledger says when it can."""
        try:
            commit = commit_run(self._port, space, line)
        except Denied:
            return self.look(space, line)
        except Unavailable:
            raise
        except RoteError as error:
            reason_code = STORAGE_APPLY_FAILED if is_recovery else _reason_code(error)
            return self.abort(space, line, error, reason_code)
        found = self._ledger.read(space.did, line.entry.run_id)
        return Finish(line if found is None else found, commit)

    def abort(self, space: SpaceInfo, line: RunRow, error: RoteError, reason_code: str) -> Finish:
        """Say in the ledger that nothing was applied, and why."""
        conflicts = error.conflicts if isinstance(error, Conflict) else ()
        kept = tuple(asdict(conflict) for conflict in conflicts[:RUN_CONFLICTS_KEPT])
        try:
            line = self._ledger.abort(line, reason_code, kept)
        except Denied:
            return self.look(space, line)
        aborted = _aborted(line, f"nothing was applied: {error}", conflicts)
        aborted.__cause__ = error
        return Finish(line, error=aborted)

    def look(self, space: SpaceInfo, line: RunRow) -> Finish:
        """What the ledger says of a run that is not ours any more. Whoever took it over may be about to
        end it, so it is waited for, for a while."""
        waiting = threading.Event()
        for _ in range(TAKEOVER_LOOKS_MAX):
            found = self._ledger.read(space.did, line.entry.run_id) or line
            if found.entry.has_ended:
                break
            waiting.wait(TAKEOVER_LOOK_SECONDS)
        if found.entry.state == COMMIT_APPLIED and found.entry.version is not None:
            return Finish(found, self.commit_at(space, found.entry.version))
        if found.entry.reason_code == VALIDATION_FAILED:
            what = "what it reads or writes was erased while its commit was on the way"
        elif found.entry.state == COMMIT_PENDING:
            what = "another process took it over and has not ended it yet: ask `rote runs show`"
        else:
            what = (
                "another process took it over, because its lease had run out, and did not apply it"
            )
        return Finish(found, error=_aborted(found, what, ()))

    def commit_at(self, space: SpaceInfo, version: int) -> Commit:
        return self._port.answer(space.did, GetLog(version - 1, 1))[0]

    def repeat(
        self, space: SpaceInfo, run_id: str, operations: Sequence[Mapping[str, Any]]
    ) -> Commit | None:
        """The commit of a run that was applied, for who sends it again and means the same; RunAborted
        (payload_mismatch) for who means something else. Nothing changes."""
        line = self._ledger.read(space.did, run_id)
        if line is None or line.entry.state != COMMIT_APPLIED:
            raise NotFound(f"no run {run_id!r} was applied in this space", run_id=run_id)
        entry = line.entry
        fingerprint = payload_fingerprint(entry.branch, operations)
        # Of what was erased since, nothing is left to compare with.
        if entry.payload_fingerprint not in (fingerprint, None):
            raise RunAborted(
                PAYLOAD_MISMATCH,
                message=f"the run {run_id} was applied with other operations; nothing was changed",
            )
        return None if entry.version is None else self.commit_at(space, entry.version)


def _reason_code(error: RoteError) -> str:
    match error:
        case PayloadMismatch():
            return PAYLOAD_MISMATCH
        case Conflict() | InvalidInput() | NotFound() | LimitExceeded():
            return VALIDATION_FAILED
        case _:
            return STORAGE_APPLY_FAILED


def _aborted(line: RunRow, what: str, conflicts: tuple[ReadConflict, ...]) -> RunAborted:
    code = line.entry.reason_code or STORAGE_APPLY_FAILED
    return RunAborted(code, message=f"run {line.entry.run_id}: {code}; {what}", conflicts=conflicts)

"""The life of a run: every step that its row in the ledger takes, and who may take it.

    open ──> buffer_open ──> commit_pending ──> commit_applied
                  │                └──────────> commit_aborted
                  ├ discarded                   by an exception, or because its owner is gone
                  ├ commit_applied              with nothing to write
                  └ commit_aborted              its policy rejects it

A step is a write of the row under its fence, so of two who want to end a run one does. The owner takes
each step; an owner whose lease has run out is given up, and whoever recovers takes its runs over. A
run that its owner cannot end now is left: this store ends it as soon as it can, and others do after
its lease. A lease is let go of only when its runs have ended.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from msgspec import Struct, structs

from rote.contract import AnswerRead, Commit, Guard, Port, all_sides, all_spaces
from rote.contract.commands import DropSide, GetHead, GetLog, MakeCommit, PutSide
from rote.contract.run_modes import Mode
from rote.errors import (
    Busy,
    Conflict,
    Corrupt,
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
from rote.runs.answers import RunQuestions
from rote.runs.identities import payload_fingerprint
from rote.runs.leases import Leases, owned
from rote.runs.ledger import Ledger, RunRow
from rote.runs.run_rows import (
    BUFFER_OPEN,
    COMMIT_APPLIED,
    COMMIT_PENDING,
    LEASE,
    PAYLOAD_MISMATCH,
    RUN,
    STORAGE_APPLY_FAILED,
    VALIDATION_FAILED,
    PendingCommit,
    RunBody,
    lease_in,
    pending_in,
)
from rote.space.sources import shared_now
from rote.values.limits import (
    ANSWER_ROUNDS_MAX,
    LEASE_ATTEMPTS_MAX,
    RUN_CONFLICTS_KEPT,
    TAKEOVER_LOOK_SECONDS,
    TAKEOVER_LOOKS_MAX,
)

KEY_PREFIX = "rote:run:"


class Ending(Struct, frozen=True):
    """The end of a run."""

    row: RunRow
    commit: Commit | None = None
    error: RunAborted | None = None  # when it was aborted


class RunLife:
    """The steps of the runs of one store."""

    def __init__(self, port: Port, ledger: Ledger, leases: Leases) -> None:
        self._port = port
        self._ledger = ledger
        self._leases = leases
        self._left: dict[tuple[str, str], RunRow] = {}  # by space and run id

    is_kept = True  # whether the ledger has the runs, and retrievals leave receipts

    def now(self) -> str:
        return self._ledger.now()

    def check_mode(self, mode: Mode) -> None:
        """Raise Denied for a mode that is not possible here; all are."""

    # -- open --------------------------------------------------------------------------------------

    def open(self, space: str, run: RunBody, *, is_named: bool) -> RunRow:
        """Write the row of a new run, under a lease. An id that the caller chose is looked for in all
        spaces."""
        if is_named:
            self._ledger.check_unused(run.run_id)
        row = self._open(space, run)
        try:
            if is_named:
                # Once more: of two that begin at once in two spaces at least one finds the other.
                self._ledger.check_unused(run.run_id, besides=space)
        except InvalidInput:
            self.discard(row)
            raise
        except BaseException:
            self.leave(row)
            raise
        return row

    def _open(self, space: str, run: RunBody) -> RunRow:
        row: RunRow | None = None

        def write(owner: str) -> None:
            nonlocal row, run
            run = structs.replace(run, owner=owner)
            row = self._ledger.open(space, run) if row is None else self._ledger.put(row, run)

        try:
            owned(self._leases, space, run.run_id, write)
            assert row is not None
            return row
        except (InvalidInput, Denied):
            raise
        except BaseException:
            # It may be in the ledger all the same, and must not stay there as if it went on.
            self.leave(RunRow(space, 0, run))
            raise

    # -- buffer_open to its end --------------------------------------------------------------------

    def discard(self, row: RunRow) -> RunRow:
        """End a run whose buffer is gone; when the ledger cannot say so now, it will later."""
        try:
            return self._end(row, lambda: self._ledger.discard(row))
        except Unavailable:
            self.leave(row)
            return row

    def close_empty(self, row: RunRow, fingerprint: str) -> RunRow:
        """End a run that has written nothing; one whose lease was lost has lost nothing."""
        return self._end(row, lambda: self._ledger.close_empty(row, fingerprint))

    def reject(self, row: RunRow, reason_code: str) -> RunRow:
        """End a run that its policy rejects."""
        return self._end(row, lambda: self._ledger.abort(row, reason_code))

    def _end(self, row: RunRow, move: Callable[[], RunRow]) -> RunRow:
        """Move a run to its end; a run that others have moved is what they made of it."""
        try:
            done = move()
        except Denied:
            done = self._ledger.read(row.space, row.body.run_id) or row
        self._let_go(row, done)
        return done

    # -- commit_pending, then applied or aborted ---------------------------------------------------

    def commit(self, row: RunRow, pending: PendingCommit, fingerprint: str) -> Ending:
        """Make a run pending, durably; then apply it, or abort it."""
        try:
            ending = self._commit(row, pending, fingerprint)
        except Unavailable as error:
            ending = self._give_up(row, error)
        self._let_go(row, ending.row)
        return ending

    def _commit(self, row: RunRow, pending: PendingCommit, fingerprint: str) -> Ending:
        body = structs.replace(
            row.body, state=COMMIT_PENDING, payload=pending.text(), payload_fingerprint=fingerprint
        )
        since = row.body.base_version
        for _ in range(ANSWER_ROUNDS_MAX):
            try:
                return self._finish(self._ledger.put(row, body, unerased_since=since))
            except Denied:
                return self._look(row)
            except Conflict as error:
                # What it holds was erased since, and must not be stored again. An answer in whose
                # ranges something was erased may still be the same, and then holds nothing of it.
                head = self._port.answer(row.space, GetHead()).version
                if not self._is_unerased(row, pending, error, head):
                    return self._abort(row, error, VALIDATION_FAILED)
                since = head
        raise Busy("others erase in this space all the time; try again")

    def _is_unerased(
        self, row: RunRow, pending: PendingCommit, error: Conflict, version: int
    ) -> bool:
        """Whether a run holds nothing of what was erased: its answers are the same at a version."""
        if pending.names([conflict.id for conflict in error.conflicts if conflict.id]):
            return False
        digest = RunQuestions().digest
        return all(
            digest(self._port, row.space, read, version) == read.digest
            for read in answers_of(row.body, pending)
        )

    def _give_up(self, row: RunRow, error: Unavailable) -> Ending:
        """Abort a run because the store failed, unless the ledger can say what became of it. When it
        can say nothing, the run is still pending, and the caller hears why."""
        try:
            found = self._ledger.read(row.space, row.body.run_id) or row
            if found.body.has_ended or found.body.owner != row.body.owner:
                return self._look(found)
            return self._abort(found, error, STORAGE_APPLY_FAILED)
        except RoteError:
            raise error from None

    def _finish(self, row: RunRow, *, is_recovery: bool = False) -> Ending:
        """Apply a run that is pending and ours, or abort it. Unavailable when the store cannot answer:
        then it is still pending, or whatever the ledger says when it can."""
        try:
            commit = self._port.answer(row.space, commit_of(row))
        except Unavailable:
            raise
        except RoteError as error:
            if isinstance(error, Denied) and not _is_claim_lost(error):
                return self._look(row)
            reason_code = STORAGE_APPLY_FAILED if is_recovery else _reason_code(error)
            return self._abort(row, error, reason_code)
        return Ending(self._ledger.read(row.space, row.body.run_id) or row, commit)

    def _abort(self, row: RunRow, error: RoteError, reason_code: str) -> Ending:
        """Say in the ledger that nothing was applied, and why."""
        conflicts = error.conflicts if isinstance(error, Conflict) else ()
        kept = tuple(asdict(conflict) for conflict in conflicts[:RUN_CONFLICTS_KEPT])
        try:
            row = self._ledger.abort(row, reason_code, kept)
        except Denied:
            return self._look(row)
        aborted = _aborted(row, f"nothing was applied: {error}", conflicts)
        aborted.__cause__ = error
        return Ending(row, error=aborted)

    def _look(self, row: RunRow) -> Ending:
        """Return what the ledger says of a run that is not ours any more. Whoever took it over may be
        about to end it, so that is waited for, for a while."""
        waiting = threading.Event()
        for _ in range(TAKEOVER_LOOKS_MAX):
            found = self._ledger.read(row.space, row.body.run_id) or row
            if found.body.has_ended:
                break
            waiting.wait(TAKEOVER_LOOK_SECONDS)
        if found.body.state == COMMIT_APPLIED and found.body.version is not None:
            return Ending(found, self._commit_at(found.space, found.body.version))
        if found.body.reason_code == VALIDATION_FAILED:
            what = "what it reads or writes was erased while its commit was on the way"
        elif found.body.state == COMMIT_PENDING:
            what = "another process took it over and has not ended it yet: ask `rote runs show`"
        else:
            what = (
                "another process took it over, because its lease had run out, and did not apply it"
            )
        return Ending(found, error=_aborted(found, what, ()))

    def _commit_at(self, space: str, version: int) -> Commit:
        return self._port.answer(space, GetLog(version - 1, 1))[0]

    def repeat(
        self, space: str, run_id: str, operations: Sequence[Mapping[str, Any]]
    ) -> Commit | None:
        """Return the commit of a run that was applied, to who sends it again and means the same;
        RunAborted (payload_mismatch) for another meaning. Nothing changes."""
        row = self._ledger.read(space, run_id)
        if row is None or row.body.state != COMMIT_APPLIED:
            raise NotFound(f"no run {run_id!r} was applied in this space", run_id=run_id)
        run = row.body
        fingerprint = payload_fingerprint(run.branch, operations)
        # Of what was erased since, nothing is left to compare with.
        if run.payload_fingerprint not in (fingerprint, None):
            raise RunAborted(
                PAYLOAD_MISMATCH,
                message=f"the run {run_id} was applied with other operations; nothing was changed",
            )
        return None if run.version is None else self._commit_at(space, run.version)

    def _let_go(self, row: RunRow, done: RunRow) -> None:
        """Release the lease of a run that has ended, or is another's; leave a run that is neither."""
        if done.body.has_ended or done.body.owner != row.body.owner:
            self._leases.release(row.space, row.body.run_id)
        else:
            self.leave(row)

    # -- runs of this store that it could not end --------------------------------------------------

    def leave(self, row: RunRow) -> None:
        """Note a run of this store that is to be ended when the store can answer again; its lease is
        kept."""
        if not row.body.has_ended:
            # Without a lock: it is also called when garbage is collected, in the middle of anything.
            self._left[row.space, row.body.run_id] = row

    def attend(self) -> None:
        """End the runs that were left, if that can be done now."""
        failures: list[RoteError] = []
        self._attend(failures)
        if failures:
            raise failures[0]

    def _attend(self, failures: list[RoteError]) -> list[RunRow]:
        ended: list[RunRow] = []
        for key in list(self._left):
            row = self._left.pop(key, None)
            if row is None:
                continue  # another thread attends to it
            try:
                done = self._end_left(row)
            except BaseException as error:
                self.leave(row)
                if isinstance(error, Unavailable) or not isinstance(error, RoteError):
                    raise
                failures.append(error)
                continue
            self._leases.release(row.space, row.body.run_id)
            ended += [] if done is None else [done]
        return ended

    def _end_left(self, left: RunRow) -> RunRow | None:
        found = self._ledger.read(left.space, left.body.run_id)
        if found is None or found.body.has_ended:
            return found
        if found.body.owner != left.body.owner:
            return None
        if found.body.state == BUFFER_OPEN:
            return self._ledger.discard(found)
        return self._finish(_checked(found), is_recovery=True).row

    # -- runs of owners that are gone --------------------------------------------------------------
    #
    #   claim     the lease that has run out, so that its owner learns that it was given up
    #   open      discarded: nobody else knows what was in its buffer
    #   pending   taken over by moving its row, which makes the old owner's commit impossible; then
    #             applied or aborted. Its policy has been asked, and is not asked again.
    #   drop      the lease, when all its runs have ended. After a stop in between, the lease is still
    #             there, and the next recovery does the rest.

    def recover(self) -> list[RunRow]:
        """End the runs of owners that are gone, and return them. Where one cannot be ended, the others
        are; then the failure is raised."""
        failures: list[RoteError] = []
        ended = self._attend(failures)
        for space in all_spaces(self._port, leased=True):
            ended += self._recover_in(space.did, failures)
        if failures:
            raise failures[0]
        return ended

    def _recover_in(self, space: str, failures: list[RoteError]) -> list[RunRow]:
        owners = self._claim_all(space, failures)
        if not owners:
            return []
        ended: list[RunRow] = []
        unended: set[str] = set()  # owners of runs that could not be ended
        for side in self._ledger.sides(space):
            owner = ""
            try:
                row = self._ledger.row_of(space, side)
                owner = row.body.owner
                if owner in owners and not row.body.has_ended:
                    done = self._take_over(space, side.key, owner)
                    ended += [] if done is None else [done]
            except Unavailable:
                raise
            except RoteError as error:
                failures.append(error)
                # Nobody knows whose run it was when it cannot be read.
                unended.update([owner] if owner else owners)
        for owner, fence in owners.items():
            if owner not in unended:
                self._drop_lease(space, owner, fence)
        return ended

    def _claim_all(self, space: str, failures: list[RoteError]) -> dict[str, int]:
        """Claim the leases of owners that are gone; return their fences by owner."""
        owners: dict[str, int] = {}
        now: int | None = None
        for side in list(all_sides(self._port, space, LEASE)):
            now = shared_now(self._port) if now is None else now
            try:
                lease = lease_in(side)
                if lease.until < now and not self._leases.is_own(side.key):
                    body = structs.replace(lease, claimed=True).body()
                    claimed = self._port.answer(space, PutSide(LEASE, side.key, body, side.fence))
                    owners[side.key] = claimed.fence
            except Denied:
                continue  # its owner is back, or others were here first
            except Corrupt as error:
                failures.append(error)
        return owners

    def _drop_lease(self, space: str, owner: str, fence: int) -> None:
        try:
            self._port.answer(space, DropSide(LEASE, owner, fence))
        except Denied:
            pass  # others have claimed it once more, and find nothing to do

    def _take_over(self, space: str, run_id: str, owner: str) -> RunRow | None:
        """End one run of an owner that was given up; None when somebody else does."""
        for _ in range(LEASE_ATTEMPTS_MAX):
            row = self._ledger.read(space, run_id)
            if row is None or row.body.has_ended or row.body.owner != owner:
                return None
            try:
                if row.body.state == BUFFER_OPEN:
                    return self._ledger.discard(row)
                return self._finish_taken(row)
            except Denied:
                continue  # its owner was quick, and is too late all the same
        return None

    def _finish_taken(self, row: RunRow) -> RunRow:
        taken = _checked(row)

        def take(owner: str) -> None:
            nonlocal taken, row
            row = structs.replace(row, body=structs.replace(row.body, owner=owner))
            taken = self._ledger.put(taken, row.body)

        try:
            owned(self._leases, row.space, row.body.run_id, take)
            done = self._finish(taken, is_recovery=True)
        except Denied:
            raise
        except BaseException:
            self.leave(row)
            raise
        self._leases.release(row.space, row.body.run_id)
        return done.row


def commit_of(row: RunRow) -> MakeCommit:
    """Return the command that applies a pending run: what it read is validated, its operations are
    applied, and its row says so, in one transaction."""
    run = row.body
    pending = pending_in(run)
    assert pending is not None
    body: Any = run.body()
    applied = {**body, "state": COMMIT_APPLIED, "payload": None}
    return MakeCommit(
        pending.operations,
        run.branch,
        pending.reads,
        answers_of(run, pending),
        key=KEY_PREFIX + run.commit_id,
        guards=[Guard(RUN, run.run_id, row.fence, applied, stamped=True), *pending.guards],
        unerased_since=run.base_version,
    )


def answers_of(run: RunBody, pending: PendingCommit) -> list[AnswerRead]:
    """Return the answers that a run relies on, as they are asked again."""
    return [
        AnswerRead(read.call, read.digest, read.ranges, run.base_version, run.branch, run.now)
        for read in pending.answers
    ]


def _checked(row: RunRow) -> RunRow:
    """Return a pending run as it was when it was written; Corrupt when its row was changed since."""
    run = row.body
    pending = pending_in(run)
    operations = [] if pending is None else pending.operations
    if payload_fingerprint(run.branch, operations) != run.payload_fingerprint:
        raise Corrupt(
            f"what run {run.run_id!r} would write is not what it was; run `rote verify`",
            run_id=run.run_id,
        )
    return row


def _is_claim_lost(error: Denied) -> bool:
    """Return whether a row that the commit claims was moved by others, such as the lease of a message;
    not the row of the run itself."""
    return bool(error.details.get("kind", RUN) != RUN)


def _reason_code(error: RoteError) -> str:
    match error:
        case PayloadMismatch():
            return PAYLOAD_MISMATCH
        case Conflict() | InvalidInput() | NotFound() | LimitExceeded() | Denied():
            return VALIDATION_FAILED
        case _:
            return STORAGE_APPLY_FAILED


def _aborted(row: RunRow, what: str, conflicts: tuple[ReadConflict, ...]) -> RunAborted:
    code = row.body.reason_code or STORAGE_APPLY_FAILED
    return RunAborted(code, message=f"run {row.body.run_id}: {code}; {what}", conflicts=conflicts)

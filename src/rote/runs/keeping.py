"""Keeping the books of runs: each step of a run's life, as the ledger and its lease have it.

Whatever happens, a run is in the ledger as it is, or will be put there by whoever recovers it: first by
this store as soon as it can, and when it is gone too, by others after its lease. A lease is let go of
only when its runs have ended.
"""

from collections.abc import Callable

from msgspec import structs

from rote.contract import SpaceInfo
from rote.errors import Denied, InvalidInput, RoteError, Unavailable
from rote.runs.finishing import Finish, Finisher
from rote.runs.leases import Leases, owned
from rote.runs.ledger import Ledger, RunRow
from rote.runs.recovery import Recovery
from rote.runs.run_rows import COMMIT_PENDING, STORAGE_APPLY_FAILED, PendingCommit, RunBody


class Keeping:
    """The books of one store."""

    def __init__(
        self, *, ledger: Ledger, leases: Leases, finisher: Finisher, recovery: Recovery
    ) -> None:
        self._ledger = ledger
        self._leases = leases
        self._finisher = finisher
        self._recovery = recovery

    def now(self) -> str:
        return self._ledger.now()

    def open(self, space: SpaceInfo, entry: RunBody, *, is_named: bool) -> RunRow:
        """A new run under a lease. An id that somebody chose is looked for in all spaces."""
        if is_named:
            self._ledger.check_unused(entry.run_id)
        line = self._open(space, entry)
        try:
            if is_named:
                # Once more: of two that begin at once in two spaces at least one finds the other.
                self._ledger.check_unused(entry.run_id, besides=space.did)
        except InvalidInput:
            self.discard(space, line)
            raise
        except BaseException:
            self.leave(space, line)
            raise
        return line

    def _open(self, space: SpaceInfo, entry: RunBody) -> RunRow:
        line: RunRow | None = None

        def write(owner: str) -> None:
            nonlocal line, entry
            entry = structs.replace(entry, owner=owner)
            ledger = self._ledger
            line = ledger.open(space.did, entry) if line is None else ledger.put(line, entry)

        try:
            owned(self._leases, space.did, entry.run_id, write)
            assert line is not None
            return line
        except (InvalidInput, Denied):
            raise
        except BaseException:
            # It may be in the ledger all the same, and is not to stay there as if it went on.
            self.leave(space, RunRow(space.did, 0, entry))
            raise

    def leave(self, space: SpaceInfo, line: RunRow) -> None:
        """A run could not be ended: the ledger will say how it ended as soon as it can."""
        if not line.entry.has_ended:
            self._recovery.leave(space, line)

    def discard(self, space: SpaceInfo, line: RunRow) -> RunRow:
        """Its buffer is gone already; when the ledger cannot say so now, it will later."""
        try:
            return self._end(space, line, lambda: self._ledger.discard(line))
        except Unavailable:
            self.leave(space, line)
            return line

    def close_empty(self, space: SpaceInfo, line: RunRow, payload_fingerprint: str) -> RunRow:
        """The end of a run that has written nothing; one whose lease was lost has lost nothing."""
        return self._end(space, line, lambda: self._ledger.close_empty(line, payload_fingerprint))

    def abort(self, space: SpaceInfo, line: RunRow, reason_code: str) -> RunRow:
        """The end of a run that its policy rejects."""
        return self._end(space, line, lambda: self._ledger.abort(line, reason_code))

    def _end(self, space: SpaceInfo, line: RunRow, move: Callable[[], RunRow]) -> RunRow:
        """Move a run to its end; one that others have moved is what they made of it."""
        try:
            done = move()
        except Denied:
            done = self._ledger.read(space.did, line.entry.run_id) or line
        self._let_go(space, line, done)
        return done

    def commit(
        self, space: SpaceInfo, line: RunRow, payload: PendingCommit, payload_fingerprint: str
    ) -> Finish:
        """Pending, durably; then applied or aborted."""
        try:
            finish = self._commit(space, line, payload, payload_fingerprint)
        except Unavailable as error:
            finish = self._give_up(space, line, error)
        self._let_go(space, line, finish.line)
        return finish

    def _commit(
        self, space: SpaceInfo, line: RunRow, payload: PendingCommit, payload_fingerprint: str
    ) -> Finish:
        try:
            pending = self._ledger.move(
                line,
                state=COMMIT_PENDING,
                payload=payload.text(),
                payload_fingerprint=payload_fingerprint,
            )
        except Denied:
            return self._finisher.look(space, line)
        return self._finisher.finish(space, pending)

    def _give_up(self, space: SpaceInfo, line: RunRow, error: Unavailable) -> Finish:
        """The store failed. If it can say now what became of the run, that counts; if it can say that
        nothing did, the run is aborted. Otherwise it is pending still, and the caller hears why."""
        try:
            found = self._ledger.read(space.did, line.entry.run_id) or line
            if found.entry.has_ended or found.entry.owner != line.entry.owner:
                return self._finisher.look(space, found)
            return self._finisher.abort(space, found, error, STORAGE_APPLY_FAILED)
        except RoteError:
            raise error from None

    def _let_go(self, space: SpaceInfo, line: RunRow, done: RunRow) -> None:
        """Nobody has to look after a run that has ended, nor we after one that is another's."""
        if done.entry.has_ended or done.entry.owner != line.entry.owner:
            self._leases.release(space.did, line.entry.run_id)
        else:
            self.leave(space, line)

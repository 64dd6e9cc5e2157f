"""Recovery: runs whose owners are gone are ended by whoever comes.

    claim      the lease that has run out, so that its owner learns that it was given up
    open       discarded: nobody else knows what was in its buffer
    pending    taken over by moving its row, which makes the old owner's commit impossible, then applied
               or aborted; its policy has been asked, and is not asked again
    drop       the lease, when all its runs are ended

Who stops in between leaves the lease, and the next one does the rest.
"""

from msgspec import structs

from rote.contract import Port, SpaceInfo, all_sides, all_spaces
from rote.contract.commands import DropSide, PutSide
from rote.errors import Corrupt, Denied, RoteError, Unavailable
from rote.runs.finishing import Finisher
from rote.runs.identities import payload_fingerprint
from rote.runs.leases import Leases, owned, shared_now
from rote.runs.ledger import Ledger, RunRow
from rote.runs.run_rows import BUFFER_OPEN, LEASE, RunBody, lease_in, pending_in
from rote.values.limits import LEASE_ATTEMPTS_MAX


class Recovery:
    """Recovers the runs of one store."""

    def __init__(self, port: Port, *, ledger: Ledger, leases: Leases, finisher: Finisher) -> None:
        self._port = port
        self._ledger = ledger
        self._leases = leases
        self._finisher = finisher
        self._left: dict[tuple[str, str], tuple[SpaceInfo, RunRow]] = {}  # by space and run id

    def recover(self) -> list[RunRow]:
        """The runs that were ended here. Where one cannot be, the others are ended, and then that is
        told."""
        failures: list[RoteError] = []
        ended = self._attend(failures)
        for space in all_spaces(self._port):
            ended += self._recover_in(space, failures)
        if failures:
            raise failures[0]
        return ended

    def _recover_in(self, space: SpaceInfo, failures: list[RoteError]) -> list[RunRow]:
        owners = self._claim_all(space, failures)
        if not owners:
            return []
        ended: list[RunRow] = []
        unended: set[str] = set()  # owners of runs that could not be ended
        for row in self._ledger.rows(space.did):
            owner = ""
            try:
                line = self._ledger.line_of(space.did, row)
                owner = line.entry.owner
                if owner in owners and not line.entry.has_ended:
                    done = self._take_over(space, row.key, owner)
                    ended += [] if done is None else [done]
            except Unavailable:
                raise
            except RoteError as error:
                failures.append(error)
                # Nobody knows whose run it was when it cannot be read.
                unended.update([owner] if owner else owners)
        for owner, fence in owners.items():
            if owner not in unended:
                self._drop(space, owner, fence)
        return ended

    def _claim_all(self, space: SpaceInfo, failures: list[RoteError]) -> dict[str, int]:
        """Owners that are gone, with the fences of their leases."""
        owners: dict[str, int] = {}
        now: int | None = None
        for row in list(all_sides(self._port, space.did, LEASE)):
            now = shared_now(self._port) if now is None else now
            try:
                lease = lease_in(row)
                if lease.until < now and not self._leases.is_own(row.key):
                    body = structs.replace(lease, claimed=True).body()
                    command = PutSide(LEASE, row.key, body, row.fence)
                    claimed = self._port.answer(space.did, command)
                    owners[row.key] = claimed.fence
            except Denied:
                continue  # its owner is back, or others were here first
            except Corrupt as error:
                failures.append(error)
        return owners

    def _drop(self, space: SpaceInfo, owner: str, fence: int) -> None:
        try:
            self._port.answer(space.did, DropSide(LEASE, owner, fence))
        except Denied:
            pass  # others have claimed it once more, and find nothing to do

    def _take_over(self, space: SpaceInfo, run_id: str, owner: str) -> RunRow | None:
        """End one run of an owner that was given up; None when somebody else does."""
        for _ in range(LEASE_ATTEMPTS_MAX):
            line = self._ledger.read(space.did, run_id)
            if line is None or line.entry.has_ended or line.entry.owner != owner:
                return None
            try:
                if line.entry.state == BUFFER_OPEN:
                    return self._ledger.discard(line)
                return self._finish(space, line)
            except Denied:
                continue  # its owner was quick, and is too late all the same
        return None

    def _finish(self, space: SpaceInfo, line: RunRow) -> RunRow:
        taken = _checked(line)

        def take(owner: str) -> None:
            nonlocal taken, line
            line = structs.replace(line, entry=structs.replace(line.entry, owner=owner))
            taken = self._ledger.put(taken, line.entry)

        try:
            owned(self._leases, space.did, line.entry.run_id, take)
            done = self._finisher.finish(space, taken, is_recovery=True)
        except Denied:
            raise
        except BaseException:
            self.leave(space, line)
            raise
        self._leases.release(space.did, line.entry.run_id)
        return done.line

    # -- runs of this store that it could not end --------------------------------------------------

    def leave(self, space: SpaceInfo, line: RunRow) -> None:
        """A run of this store is to be ended when the store can answer again. Its lease is kept."""
        # Without a lock: it is also called when garbage is collected, in the middle of anything.
        self._left[space.did, line.entry.run_id] = (space, line)

    def attend(self) -> None:
        """End those, if that can be done now."""
        failures: list[RoteError] = []
        self._attend(failures)
        if failures:
            raise failures[0]

    def _attend(self, failures: list[RoteError]) -> list[RunRow]:
        ended: list[RunRow] = []
        for key in list(self._left):
            left = self._left.pop(key, None)
            if left is None:
                continue  # another thread attends to it
            space, line = left
            try:
                done = self._end_left(space, line.entry)
            except BaseException as error:
                self.leave(space, line)
                if isinstance(error, Unavailable) or not isinstance(error, RoteError):
                    raise
                failures.append(error)
                continue
            self._leases.release(space.did, line.entry.run_id)
            ended += [] if done is None else [done]
        return ended

    def _end_left(self, space: SpaceInfo, left: RunBody) -> RunRow | None:
        found = self._ledger.read(space.did, left.run_id)
        if found is None or found.entry.has_ended:
            return found
        if found.entry.owner != left.owner:
            return None
        if found.entry.state == BUFFER_OPEN:
            return self._ledger.discard(found)
        return self._finisher.finish(space, _checked(found), is_recovery=True).line


def _checked(line: RunRow) -> RunRow:
    """A pending run as it was when it was written; Corrupt when its row was changed since."""
    entry = line.entry
    payload = pending_in(entry)
    operations = [] if payload is None else payload.operations
    if payload_fingerprint(entry.branch, operations) != entry.payload_fingerprint:
        raise Corrupt(
            f"what run {entry.run_id!r} would write is not what it was; run `rote verify`",
            run_id=entry.run_id,
        )
    return line

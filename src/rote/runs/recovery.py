"""Recovery: runs whose owners are gone are ended by whoever comes.

    claim      the lease that has run out, so that its owner learns that it was given up
    open       discarded: nobody else knows what was in its buffer
    pending    taken over by moving its row, which makes the old owner's commit impossible, then applied
               or aborted; its policy has been asked, and is not asked again
    drop       the lease, when all its runs are ended

Who stops in between leaves the lease, and the next one does the rest.
"""

import threading
from collections.abc import Iterator

from msgspec import structs

from rote.contract import Port, SideRow, SpaceInfo
from rote.contract.runs import BUFFER_OPEN, LEASE, lease_in
from rote.errors import Denied
from rote.runs.finishing import Finisher
from rote.runs.leases import Leases, owned
from rote.runs.ledger import Ledger, Line
from rote.values.limits import LEASE_ATTEMPTS_MAX, PAGE_MAX


class Recovery:
    """Recovers the runs of one store."""

    def __init__(self, port: Port, *, ledger: Ledger, leases: Leases, finisher: Finisher) -> None:
        self._port = port
        self._ledger = ledger
        self._leases = leases
        self._finisher = finisher
        self._lock = threading.Lock()
        self._left: dict[str, tuple[SpaceInfo, Line]] = {}

    def recover(self) -> list[Line]:
        """The runs that were ended here."""
        ended = self.attend()
        now: int | None = None
        for space in self._port.spaces():
            for row in list(_leases(self._port, space.did)):
                now = self._port.shared_now() if now is None else now
                if lease_in(row).until < now and not self._leases.is_own(row.key):
                    ended += self._take_over_all(space, row)
        return ended

    def _take_over_all(self, space: SpaceInfo, row: SideRow) -> list[Line]:
        """End all runs of an owner."""
        lease = structs.replace(lease_in(row), claimed=True)
        try:
            claimed = self._port.put_side(space.did, LEASE, row.key, lease.body(), fence=row.fence)
        except Denied:
            return []  # its owner is back, or others were here first
        ended = [
            done
            for line in list(self._ledger.lines(space.did))
            if line.entry.owner == row.key and not line.entry.has_ended
            if (done := self.take_over(space, line)) is not None
        ]
        try:
            self._port.drop_side(space.did, LEASE, row.key, fence=claimed.fence)
        except Denied:
            pass  # others have claimed it once more, and find nothing to do
        return ended

    def take_over(self, space: SpaceInfo, line: Line) -> Line | None:
        """End one run of an owner that was given up; None when somebody else does."""
        for _ in range(LEASE_ATTEMPTS_MAX):
            try:
                if line.entry.state == BUFFER_OPEN:
                    return self._ledger.discard(line)
                return self._finish(space, line)
            except Denied:
                found = self._ledger.read(space.did, line.entry.run_id)
                is_same = found is not None and found.entry.owner == line.entry.owner
                if found is None or found.entry.has_ended or not is_same:
                    return None
                line = found  # its owner was quick, and is too late all the same
        return None

    def _finish(self, space: SpaceInfo, line: Line) -> Line:
        taken = line

        def take(owner: str) -> None:
            nonlocal taken
            taken = self._ledger.move(taken, owner=owner)

        owner = owned(self._leases, space.did, take)
        try:
            done = self._finisher.finish(space, taken, is_recovery=True)
        except BaseException:
            self.leave(space, taken)
            raise
        self._leases.release(space.did, owner)
        return done.line

    # -- runs of this store that it could not end --------------------------------------------------

    def leave(self, space: SpaceInfo, line: Line) -> None:
        """A run of this store is to be ended when the store can answer again. Its lease is kept."""
        with self._lock:
            self._left[line.entry.run_id] = (space, line)

    def attend(self) -> list[Line]:
        """End those, if that can be done now."""
        with self._lock:
            left, self._left = self._left, {}
        ended: list[Line] = []
        for run_id, (space, line) in left.items():
            try:
                done = self._end_left(space, run_id, line.entry.owner)
            except BaseException:
                self.leave(space, line)
                raise
            self._leases.release(space.did, line.entry.owner)
            ended += [] if done is None else [done]
        return ended

    def _end_left(self, space: SpaceInfo, run_id: str, owner: str) -> Line | None:
        found = self._ledger.read(space.did, run_id)
        if found is None or found.entry.has_ended:
            return found
        if found.entry.owner != owner:
            return None
        if found.entry.state == BUFFER_OPEN:
            return self._ledger.discard(found)
        return self._finisher.finish(space, found, is_recovery=True).line


def _leases(port: Port, space: str) -> Iterator[SideRow]:
    after = ""
    while rows := port.sides(space, LEASE, after=after, limit=PAGE_MAX):
        yield from rows
        after = rows[-1].key

"""Leases: that the owner of runs is alive.

The runs that a store has going in a space have one owner, a token, and one lease, a side row that says
until when the owner is to be believed alive. One thread of the store renews them. Whoever finds a lease
that has run out claims it first, so that its owner, should it wake up, learns that it was given up, and
then takes over the runs. What makes that safe is the fence of each run's row, never the lease.
"""

import threading
from collections.abc import Callable

from msgspec import Struct

from rote.contract import Port, TokenSource
from rote.contract.commands import DropSide, GetSide, PutSide
from rote.errors import Denied, InvalidInput, NotFound, RoteError, Unavailable
from rote.runs.run_rows import LEASE, Lease, lease_in
from rote.space.sources import shared_now
from rote.values.limits import LEASE_ATTEMPTS_MAX, LEASE_RENEWALS, LEASE_SECONDS_MAX

_SECOND = 1_000_000


def check_lease_seconds(seconds: object) -> float:
    if type(seconds) not in (int, float) or not 0 < seconds <= LEASE_SECONDS_MAX:  # type: ignore[operator]
        raise InvalidInput(
            f"lease_seconds is a number above 0 and up to {LEASE_SECONDS_MAX:,}",
            argument="lease_seconds",
        )
    return float(seconds)  # type: ignore[arg-type]


class _Held(Struct):
    """A lease of this store in one space."""

    owner: str
    fence: int
    until: int
    runs: set[str]  # that go on under it


class Leases:
    """The leases of one store; any thread may ask for one."""

    def __init__(
        self, port: Port, *, tokens: TokenSource, seconds: float, attend: Callable[[], None]
    ) -> None:
        """attend  what else is to be done as often as leases are renewed"""
        self._port = port
        self._tokens = tokens
        self._seconds = seconds
        self._attend = attend
        self._held: dict[str, _Held] = {}  # by space
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self, space: str, run_id: str) -> str:
        """The owner of one more run in a space."""
        with self._lock:
            held = self._held.get(space)
            now = shared_now(self._port)
            if held is not None and held.until - now < self._micros // LEASE_RENEWALS:
                held = self._renew(space, held, now)
            if held is None:
                held = self._begin(space, now)
            held.runs.add(run_id)
            if self._thread is None and not self._ended.is_set():
                self._thread = threading.Thread(
                    target=self._keep_renewing, name="rote-leases", daemon=True
                )
                self._thread.start()
            return held.owner

    def release(self, space: str, run_id: str) -> None:
        """One run less, however often it is said. The lease stays for the next one, until it would be
        renewed for nobody."""
        with self._lock:
            held = self._held.get(space)
            if held is not None:
                held.runs.discard(run_id)

    def confirm(self, space: str, owner: str) -> bool:
        """Whether nobody had claimed the lease up to now: who claims it later finds what was written
        for its owner before."""
        row = self._port.answer(space, GetSide(LEASE, owner))
        if row is not None and not lease_in(row).claimed:
            return True
        with self._lock:
            held = self._held.get(space)
            if held is not None and held.owner == owner:
                del self._held[space]  # the next run has another
        return False

    def is_own(self, owner: str) -> bool:
        with self._lock:
            return any(held.owner == owner for held in self._held.values())

    def close(self) -> None:
        """Let go of what no run needs; what others still need runs out by itself."""
        self._ended.set()
        with self._lock:
            for space, held in list(self._held.items()):
                try:
                    if not held.runs:
                        self._drop(space, held)
                except RoteError:
                    continue  # it runs out

    @property
    def _micros(self) -> int:
        return max(1, int(self._seconds * _SECOND))

    def _begin(self, space: str, now: int) -> _Held:
        owner, until = self._tokens.token().hex(), now + self._micros
        row = self._port.answer(space, PutSide(LEASE, owner, Lease(until).body(), 0))
        held = self._held[space] = _Held(owner, row.fence, until, set())
        return held

    def _renew(self, space: str, held: _Held, now: int) -> _Held | None:
        """The lease with new time; None when others have claimed it, and with it all its runs."""
        body = Lease(now + self._micros).body()
        for _ in range(LEASE_ATTEMPTS_MAX):
            try:
                command = PutSide(LEASE, held.owner, body, held.fence)
                row = self._port.answer(space, command)
            except Denied:
                # A renewal of ours whose answer was lost looks like this too.
                there = self._port.answer(space, GetSide(LEASE, held.owner))
                if there is None or lease_in(there).claimed:
                    break
                held.fence = there.fence
            else:
                held.fence, held.until = row.fence, lease_in(row).until
                return held
        del self._held[space]
        return None

    def _drop(self, space: str, held: _Held) -> None:
        del self._held[space]
        try:
            self._port.answer(space, DropSide(LEASE, held.owner, held.fence))
        except Denied:
            return  # others were here, and have dropped it or will

    def _keep_renewing(self) -> None:
        try:
            self._renew_until_none_is_held()
        finally:
            # However it ended, the next run has another.
            if self._thread is threading.current_thread():
                self._thread = None

    def _renew_until_none_is_held(self) -> None:
        while not self._ended.wait(self._seconds / LEASE_RENEWALS):
            with self._lock:
                for space, held in list(self._held.items()):
                    try:
                        if held.runs:
                            self._renew(space, held, shared_now(self._port))
                        else:
                            self._drop(space, held)
                    except NotFound:
                        self._held.pop(space, None)  # the space was erased, with its runs
                    except RoteError:
                        continue  # there is time for another attempt
                if not self._held:
                    self._thread = None
                    return
            try:
                self._attend()
            except RoteError:
                continue  # it is attended to again the next time


def owned(leases: Leases, space: str, run_id: str, write: Callable[[str], None]) -> None:
    """Do a write that names the owner of a run, so that whoever recovers that owner's runs finds it. It
    must be able to replace what it wrote for an owner that was given up.

    InvalidInput or Denied: it was refused. After anything else the run may be in the ledger: its lease
    is kept, and it is to be left to the recovery of this store.
    """
    for _ in range(LEASE_ATTEMPTS_MAX):
        owner = leases.hold(space, run_id)
        try:
            write(owner)
        except (InvalidInput, Denied):
            leases.release(space, run_id)
            raise
        if leases.confirm(space, owner):
            return
    raise Unavailable(
        "leases of runs end before they can be used; is lease_seconds too short, or a clock wrong?"
    )

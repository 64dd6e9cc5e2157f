"""The replica: what a client holds of a space, confirmed and pending. Any thread may ask.

    view(branch) ──> reads              make(…) ──> a layer, and its Pending
    verdicts, steps ──> the stack       changed ──> whoever waits looks again

Nothing is read from the store, and no user's function called, while `changed` is held.
"""

import os
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from weakref import WeakSet

from rote.contract import Clock, Commit, Head, Port, View
from rote.contract.sync import Sync
from rote.contract.verdicts import Verdict
from rote.errors import (
    Diverged,
    LimitExceeded,
    RoteError,
    SessionExpired,
    SessionRevoked,
    Unavailable,
    Withdrawn,
)
from rote.sessions.changed import Changed
from rote.sessions.confirmed import ConfirmedPort
from rote.sessions.deadlines import deadline_of
from rote.sessions.events import Events
from rote.sessions.held import Held, held_by
from rote.sessions.journal import Journal, Known
from rote.sessions.layers import Fetch, Layer
from rote.sessions.moves import Moves
from rote.sessions.pending import Fate, Maker, Pending, fate_of
from rote.sessions.stack import Stack
from rote.sessions.views import ViewPort, fetch_from
from rote.space.commits import commit_at
from rote.space.transaction_port import TransactionPort
from rote.values.session_limits import SESSION_EVENTS_MAX, SESSION_TRANSACTIONS_MAX

# Errors after which nobody may go on with a session.
_FINAL = (SessionRevoked, SessionExpired, Diverged)
LineState = Literal["connecting", "online", "offline", "ended"]


class Replica:
    """The confirmed state of one session, and its own commits over it."""

    def __init__(
        self,
        port: Port,
        space: str,
        *,
        watches: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        is_remote: bool = False,
        journal: Journal | None = None,
    ) -> None:
        """watches  queries by name: what they show is held
        clock    of this client; None: that of the store, in this process
        journal  keeps what a crash must not take
        """
        self.port = port
        self.space = space
        self.watches = watches or {}
        self._process = os.getpid()
        self._clock = clock
        self._is_remote = is_remote
        self.confirmed = self._confirmed(Head(0, None, None), held_by(self.watches))
        self.changed = Changed()
        self.state: LineState = "connecting"
        self.error: RoteError | None = None  # why it has ended
        self.last_failure: RoteError | None = None  # of a line
        self.events = Events(self.changed)
        self.stack = Stack(Head(0, None, None), events=self.events, fetch=self._fetch)
        self.is_begun = False  # whether there is a confirmed state
        self._has_lost = False  # whether it has ended with commits that were not decided
        self.moves = Moves()
        self._transactions: WeakSet[TransactionPort] = WeakSet()
        self._rejected: deque[Fate] = deque(maxlen=SESSION_EVENTS_MAX)  # no flush has told yet
        # Commits that a function makes again, with the version that it must see.
        self._to_make_again: list[tuple[Fate, int]] = []
        self._made_again: Fate | None = None
        self.making: int | None = None  # the version that a commit has seen which is being made
        self.is_folded = False  # whether exactly these watches are held at the confirmed version
        self.journal = journal
        self._erased = 0  # the version of the newest erasure that is known

    def restore(self, known: Known) -> None:
        """Go on with what a journal knows."""
        with self.changed:
            head = known.head or self.stack.head
            self.confirmed = self._confirmed(head, known.held)
            self.is_begun = known.head is not None
            self.is_folded = self.is_begun and known.is_watched
            fates = [(self.new_fate(layer, None), version) for layer, version in known.commits]
            self.stack.restore(head, known.decided, known.verdicts, fates)

    def _confirmed(self, head: Head, held: Held) -> ConfirmedPort:
        check = self._check_online if self._is_remote else None
        return ConfirmedPort(self.port, head, held, clock=self._clock, check=check)

    def _check_online(self) -> None:
        if self.state not in {"online", "connecting"}:
            raise Unavailable(
                "this session is offline, and none of its watches shows this; name it in watch=, or"
                " read it once the session is online"
            )

    def _fetch(self, view: View) -> Fetch:
        return fetch_from(self.confirmed, self.space, view)

    # -- looking -----------------------------------------------------------------------------------

    def view(self, branch: str) -> ViewPort:
        """Return the view of a branch as it is now."""
        self.check_process()
        with self.changed:
            stack = self.stack
            fold = stack.fold(branch)
            return ViewPort(
                self.confirmed, self.space, branch, stack.head, fold=fold, until=stack.made
            )

    def begin(self, branch: str, *, is_counted: bool = True) -> tuple[TransactionPort, ViewPort]:
        """Return the port of a transaction on the view as it is now, and the view.

        is_counted  whether it is a user's, who may forget to end it
        """
        self.check_process()
        with self.changed:
            self.check_not_ended()
            view = self.view(branch)
            port = TransactionPort(view, self.space, branch)
            size = len(self._transactions) + 1
            if is_counted and size > SESSION_TRANSACTIONS_MAX:
                raise LimitExceeded(
                    "the open transactions of a session",
                    size=size,
                    limit=SESSION_TRANSACTIONS_MAX,
                    advice="end some",
                )
            self._transactions.add(port)
        return port, view

    def end_transaction(self, port: TransactionPort) -> None:
        if self.is_forked:
            return
        with self.changed:
            self._transactions.discard(port)

    def basis(self) -> int:
        """Return the lowest version that a later commit may have seen; the caller holds `changed`."""
        seen = [port.view.version or 0 for port in self._transactions]
        if self.making is not None:
            seen.append(self.making)
        return min([self.stack.basis(), *seen])

    @property
    def is_forked(self) -> bool:
        """Whether this is a child of the process that has opened the session, with its threads and line."""
        return self._process != os.getpid()

    def check_process(self) -> None:
        # Before any lock: in a forked process nobody would release it.
        if self.is_forked:
            raise Unavailable("the session was opened before a fork; open it again in this process")

    def check_not_ended(self) -> None:
        if self.state == "ended":
            raise self.error or Unavailable("this session has ended; open another one")

    # -- its commits -------------------------------------------------------------------------------

    def new_fate(self, layer: Layer, maker: Maker | None) -> Fate:
        """Return the fate of a new commit, with the Pending that its caller gets."""
        pending = Pending(
            layer, self.changed, store=self.port.open_store,
            load=self._load, withdraw=self._withdraw, check=self.check_process, maker=maker,
        )  # fmt: skip
        return fate_of(pending)

    def _load(self, version: int) -> Commit:
        return commit_at(self.port, self.space, version)

    def _withdraw(self, fate: Fate) -> bool:
        with self.changed:
            if fate.maker is not None:
                fate.maker.attempts = 0
            error = Withdrawn("it was taken back before it was sent")
            laid = self.stack.waiting(fate.layer.local)
            for waiting, version in self._to_make_again:
                if waiting is fate:
                    self._to_make_again.remove((waiting, version))
                    self._give_up(fate, error)
                    return True
            if laid is None or laid.layer.was_sent or laid.layer.is_dead:
                return False
            self.refuse(fate.layer.local, error)
            return True

    def _give_up(self, fate: Fate, error: BaseException) -> None:
        fate.reject(error)
        self._rejected.append(fate)
        self.changed.notify_all()

    # -- what is made again ------------------------------------------------------------------------

    def next_to_make_again(self) -> Fate | None:
        """Take a commit that was rejected at a version that is confirmed now; the caller holds
        `changed`."""
        for place, (fate, version) in enumerate(self._to_make_again):
            if version <= self.stack.head.version:
                del self._to_make_again[place]
                self._made_again = fate
                return fate
        return None

    def made_again(self, fate: Fate, error: BaseException | None) -> None:
        """Note that a commit was made again; with an error that it will not be."""
        with self.changed:
            self._made_again = None
            if error is not None and fate.status == "pending":
                fate.maker = None
                self._give_up(fate, error)
            self.changed.notify_all()

    # -- what the store says; the caller is the thread that receives -------------------------------

    def decide(self, verdict: Verdict) -> None:
        with self.changed:
            laid = self.stack.decide(verdict)
            dead = self.stack.take_dead()
            if laid is not None and self.journal is not None:
                self.journal.decide(verdict, dead)
            if verdict.accepted:
                self.moves.accepted(verdict.local, verdict.version)
            if laid is not None and laid.layer.is_dead and laid.fate.status == "pending":
                # A function has made it, and makes it again.
                self._to_make_again.append((laid.fate, verdict.version))
            self._rejected_now()
            self.changed.notify_all()

    def refuse(self, local: int, error: RoteError) -> None:
        """Take a commit off the stack that cannot be decided; the caller holds `changed`."""
        self.stack.reject(local, error, self.stack.head.version)
        dead = self.stack.take_dead()
        if self.journal is not None:
            self.journal.bury(dead)
        self._rejected_now()
        self.changed.notify_all()

    def step(self, head: Head, told: Sync | None = None) -> None:
        """Move the confirmed state.

        told  what the watches say; None: there are none
        """
        held = self.confirmed.held
        after = held if told is None else held.after(told)
        if self.journal is not None:
            erased = 0 if told is None else told.erased
            with self.changed:
                basis = self.basis()
            # Without a step of watches nobody says whether something was erased.
            is_erasing = told is None or erased > self._erased
            self.journal.step(head, told, after, basis=basis, is_erasing=is_erasing)
            self._erased = max(erased, self._erased)
        with self.changed:
            self.is_folded = True
            written = () if told is None else after.written
            self.moves.step(written, head.version, is_read=len(self._transactions) > 0)
            self.confirmed = self._confirmed(head, after)
            self.stack.step(head)
            self.is_begun = True
            self.changed.notify_all()

    def set_state(self, state: LineState) -> None:
        with self.changed:
            if self.state not in (state, "ended"):
                self.state = state
                if state != "connecting":
                    self.events.add(state, error=self.error)
                self.changed.notify_all()

    def end(self, error: RoteError | None) -> None:
        """Nothing comes any more; what is not decided is unknown."""
        with self.changed:
            if self.state == "ended":
                return
            self.error = error
            if self.journal is not None and isinstance(error, _FINAL):
                self.journal.end(error)
            reason = error or Unavailable("the session was closed before it was decided")
            self._has_lost = self.stack.lose(reason) or len(self._to_make_again) > 0
            for fate, _ in self._to_make_again:
                fate.lose(reason)
            self._to_make_again.clear()
            self.set_state("ended")
            self.events.close()
            self.changed.notify_all()

    def _rejected_now(self) -> None:
        self._rejected += self.stack.take_rejected()

    # -- waiting -----------------------------------------------------------------------------------

    def flush(self, timeout: float | None, *, until: int | None = None) -> list[Pending]:
        """Wait until all commits up to a local, or made before, are decided and integrated; return the
        rejected ones that no flush has returned yet."""
        self.check_process()
        deadline = deadline_of(timeout)
        with self.changed:
            until = self.stack.made if until is None else until
            while True:
                if self.error is not None or self._has_lost:
                    self.check_not_ended()  # what was lost is off the stack, and not settled
                if self._is_settled(until):
                    break
                self.check_not_ended()
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    waiting = [pending.local for pending in self.stack.pending()]
                    raise Unavailable(
                        f"commits {waiting} of this session are not decided and integrated yet;"
                        " they stay pending",
                        code="timeout",
                        locals=waiting,
                    )
                self.changed.wait(left)
            told = [fate.pending for fate in self._rejected if fate.first <= until]
            later = [fate for fate in self._rejected if fate.first > until]
            self._rejected = deque(later, maxlen=SESSION_EVENTS_MAX)
            return told

    def not_told(self, rejected: Sequence[Pending]) -> None:
        """Take back what a flush has returned to nobody."""
        with self.changed:
            self._rejected.extendleft(fate_of(pending) for pending in reversed(rejected))

    def is_flushed(self, until: int) -> bool:
        """Whether a flush of the commits up to a local waits for nothing; the caller holds `changed`."""
        return self.state == "ended" or self._is_settled(until)

    def _is_settled(self, until: int) -> bool:
        is_made_again = self._to_make_again or self._made_again is not None
        return not is_made_again and self.stack.is_settled(until)

    def await_begin(self, timeout: float) -> bool:
        """Wait for the first confirmed state; return whether it is there. Raise why it never comes."""
        deadline = deadline_of(timeout)
        with self.changed:
            while not self.is_begun:
                self.check_not_ended()
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self.changed.wait(left)
            return True

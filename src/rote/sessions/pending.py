"""Pending: an own commit of a session, from its call until the store has decided it."""

import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Literal

from rote.contract import Commit, OpenStore
from rote.errors import Conflict, Unavailable, invariant
from rote.sessions.changed import Changed, Check
from rote.sessions.deadlines import deadline_of
from rote.sessions.layers import Layer
from rote.space.arguments import check_timeout

Status = Literal["pending", "committed", "integrated", "rejected", "unknown"]


class Maker:
    """A function that makes a commit, and makes it again after a Conflict, so many times."""

    def __init__(self, make: "Callable[[Maker, Fate | None], Fate | None]", attempts: int) -> None:
        """make  takes itself, and the fate that its commit has from then on; None: a new one"""
        self.make = make
        self.attempts = attempts


class Fate:
    """The state of an own commit; whoever changes it holds the condition, and notifies it."""

    def __init__(self, layer: Layer, pending: "Pending", *, maker: Maker | None) -> None:
        """maker  makes it again; None: nobody does"""
        self.layer = layer
        self.first = layer.local  # the first commit that had this fate
        self.pending = pending
        self.maker = maker
        self.status: Status = "pending"
        self.version: int | None = None  # when it was accepted
        self.commit: Commit | None = None
        self.error: BaseException | None = None

    def accept(self, version: int, commit: Commit | None) -> None:
        self.status, self.version, self.commit = "committed", version, commit

    def reject(self, error: BaseException) -> None:
        """End, unless it is to be made again."""
        is_made_again = self.maker is not None and self.maker.attempts > 0
        if not is_made_again or not isinstance(error, Conflict):
            self.status, self.error = "rejected", error

    def lose(self, error: BaseException) -> None:
        """End; nobody here will know what becomes of it."""
        self.status, self.error = "unknown", error


class Pending:
    """An own commit. It shows in the session at once; the store decides it later."""

    def __init__(
        self,
        layer: Layer,
        changed: Changed,
        *,
        store: OpenStore,
        load: Callable[[int], Commit],
        withdraw: Callable[[Fate], bool],
        check: Callable[[], None],
        maker: Maker | None = None,
    ) -> None:
        """changed   held by who changes its fate
        store     in which it is decided
        load      returns the commit of a version
        withdraw  takes it back, if it was not sent; whether it has
        check     raises in a process that has forked off: nobody decides it there
        maker     who makes it again
        """
        self._fate = Fate(layer, self, maker=maker)
        self._changed = changed
        self._store = store
        self._load = load
        self._withdraw = withdraw
        self._check = check

    @property
    def local(self) -> int:
        """Its number in the session, from 1."""
        return self._fate.layer.local

    @property
    def branch(self) -> str:
        return self._fate.layer.sent.branch

    @property
    def operations(self) -> list[dict[str, Any]]:
        return deepcopy(list(self._fate.layer.sent.operations))

    @property
    def depends(self) -> tuple[int, ...]:
        """The locals of the commits that it has seen: if one is rejected, so is this one."""
        return self._fate.layer.names

    @property
    def status(self) -> str:
        """The state: pending, committed, integrated, rejected or unknown."""
        return self._fate.status

    @property
    def commit(self) -> Commit | None:
        """The commit that the store has made; None when it is not accepted, or not known whole yet."""
        return self._fate.commit

    @property
    def error(self) -> BaseException | None:
        """The reason why it was rejected, or why nobody knows what became of it."""
        return self._fate.error

    def wait(self, timeout: float | None = None) -> Commit:
        """Wait until it is decided, and return its commit; raise why it was rejected.

        Unavailable with the code `timeout` when that takes longer: it stays pending.
        """
        self._await(timeout)
        fate = self._fate
        if fate.error is not None:
            raise fate.error.with_traceback(None)  # that of this call alone
        if fate.commit is None:
            invariant(fate.version is not None, "an accepted commit has a version")
            fate.commit = self._load(fate.version or 0)
        return fate.commit

    def cancel(self, timeout: float | None = None) -> bool:
        """Take it back, and return whether it is never applied.

        One that was sent cannot be taken back any more: its verdict is awaited. Unavailable with the
        code `timeout` when that takes longer.
        """
        self._check()
        if not self._withdraw(self._fate):
            self._await(timeout)
            if self.status == "unknown" and self.error is not None:
                raise self.error
        return self.status == "rejected"

    def _is_over(self) -> bool:
        return self.status != "pending"

    def _await(self, timeout: float | None) -> None:
        check_timeout(timeout)
        self._check()
        deadline = deadline_of(timeout)
        with self._changed:
            while not self._is_over():
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise Unavailable(
                        f"commit {self.local} of this session is not decided yet; it stays pending",
                        code="timeout",
                        local=self.local,
                    )
                self._changed.wait(left)

    def __repr__(self) -> str:
        return f"Pending({self.local} {self.status})"


def fate_of(pending: Pending) -> Fate:
    return pending._fate


def store_of(pending: Pending) -> OpenStore:
    return pending._store


def decided(pending: Pending) -> tuple[Changed, Check]:
    """Return what changes when a commit is decided, and whether it is."""
    return pending._changed, pending._is_over

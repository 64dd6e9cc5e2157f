"""A store as users hold it: it opens spaces, copies and backs them up."""

import os
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rote.contract import (
    Caller,
    CopyReport,
    Local,
    Port,
    SpaceErasure,
    SpaceInfo,
    Tell,
    all_spaces,
)
from rote.contract.commands import AdoptSpace, EraseSpace, FindSpace
from rote.errors import Denied, InvalidInput
from rote.space.arguments import check_flags, check_path, check_progress
from rote.space.copies import copy_space
from rote.space.home import Home
from rote.space.receipts import add_receipt, receipts_in
from rote.space.running import Runs, check_runs
from rote.space.searching import Searching
from rote.space.space import Space
from rote.values import Json

if TYPE_CHECKING:
    from rote.runs.ledger import RunRecord


class Store:
    """The store that rote.open returns; a context manager that closes it."""

    def __init__(
        self,
        port: Port,
        *,
        url: str,
        local: Local,
        create: bool = True,
        read_only: bool = False,
        runs: Runs | None = None,
        searching: Searching | None = None,
        home: Home = Home(),  # noqa: B008 - it is frozen
    ) -> None:
        self._port = port
        self._local = local
        self._create = create
        self._runs = runs
        self._searching = searching
        self._home = home
        self._turns: dict[str, threading.RLock] = {}
        self.url = url
        self.read_only = read_only  # whether every write is Denied

    def space(self, name: str) -> Space:
        """Return the space of that name or did; a new name makes a new space."""
        return self._hold(self._port.answer("", FindSpace(name, self._create)))

    def spaces(self) -> list[Space]:
        """Return all spaces, by name."""
        return [self._hold(info) for info in all_spaces(self._port)]

    def _hold(self, info: SpaceInfo, port: Port | None = None) -> Space:
        turns = self._turns.setdefault(info.did, threading.RLock())
        return Space(
            self._port if port is None else port,
            info,
            turns=turns,
            runs=self._runs,
            searching=self._searching,
            home=self._home,
        )

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write everything, as of now, to a new SQLite file, while others go on writing."""
        self._local.backup(check_path(path))

    def erase_space(self, name: str, *, reason: str, confirm: str) -> SpaceErasure:
        """Take a space away for good, by name or did; `confirm` names it once more.

        Its rows, blobs, runs and private key go. What stays is one row of the store that says so,
        signed by that key. The name is free again, for another space.
        """
        return self._port.answer("", EraseSpace(name, reason, confirm))

    def copy(
        self,
        name: str,
        target: "Store",
        *,
        with_key: bool = False,
        progress: Tell | None = None,
    ) -> CopyReport:
        """Copy a space, by name or did, with its whole history to another store.

        An earlier copy is continued; a target with another history is refused. The whole target is
        verified at the end. The private key is copied only with `with_key`.
        """
        if not isinstance(target, Store):
            raise InvalidInput("the target of a copy is a store that rote.open returned")
        check_flags(with_key=with_key)
        check_progress(progress)
        info = self._port.answer("", FindSpace(name))
        # Read first, so that nothing changes when the key is missing.
        seed = self._local.seed(info.did) if with_key else None
        return copy_space(
            self._port,
            target._port,
            info,
            adopt=lambda: target._adopt(info, seed),
            with_key=with_key,
            progress=progress,
        )

    def _adopt(self, info: SpaceInfo, seed: bytes | None) -> SpaceInfo:
        if seed is None:
            return self._port.answer("", AdoptSpace(info.did, info.name))
        return self._local.adopt(info.did, info.name, seed)

    def receipts(self) -> list[Json]:
        """Return the receipts of retrievals with this store, oldest first; they hold no content."""
        return receipts_in(self._port)

    def add_receipt(self, space: str, receipt: Json, *, since: int | None = None) -> None:
        """Note a retrieval in the ledger of a space, by name or did.

        since  a version of the space from before the retrieval: without the hash after an erasure
        """
        found = self._port.answer("", FindSpace(space, self._create))
        add_receipt(self._port, found.did, receipt, since=since)

    def runs(self) -> "list[RunRecord]":
        """Return every run that was ever started here and its outcome, oldest first."""
        return check_runs(self._runs).records()

    def run_origin(self, record: "RunRecord") -> dict[str, Json]:
        """Return space, branch, memory_snapshot_id and policy_set_id that a run began with."""
        return check_runs(self._runs).origin(record)

    def recover(self) -> "list[RunRecord]":
        """End the runs whose owners are gone, and return their records.

        The commit of a pending run is made or aborted; the buffer of an open run is discarded.
        """
        return check_runs(self._runs).recover()

    def close(self) -> None:
        if self._home.sessions is not None:
            self._home.sessions.close()
        if self._runs is not None:
            self._runs.close()
        self._port.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({self.url!r})"


def own_space(store: Store, name: str, *, create: bool = False, author: str | None = None) -> Space:
    """Return a space with a reserved name, for the part of Rote that it belongs to; never for users."""
    port = store._port.for_caller(Caller(author, is_library=True))
    return store._hold(port.answer("", FindSpace(name, create)), port)


def every_space(store: Store) -> list[Space]:
    """Return all spaces by name, those with reserved names last: to look whether they are whole.

    Behind a server these are the server's own, and not shown.
    """
    try:
        port = store._port.for_caller(Caller(is_library=True))
    except Denied:
        return store.spaces()
    return [*store.spaces(), *(store._hold(info, port) for info in all_spaces(port))]

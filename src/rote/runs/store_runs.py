"""The runs of a store: starting, listing and recovering them. What `opening` gives to a store."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from rote.contract import Head, IdSource, Port, SpaceInfo, TokenSource, View, all_spaces
from rote.contract.commands import GetHead, GetSnapshot
from rote.contract.run_modes import LIVE
from rote.errors import InvalidInput, NotFound, RoteError
from rote.recordings.recordings import Replay
from rote.runs.identities import parse_snapshot_id, snapshot_id
from rote.runs.leases import Leases, check_lease_seconds
from rote.runs.ledger import Ledger, RunRecord
from rote.runs.life import RunLife
from rote.runs.modes import BUFFERED, check_mode, check_modes, check_validation
from rote.runs.run import Run, Terms
from rote.runs.trace_files import FILE_NAMES, RECORDING_NAME
from rote.runs.unkept import UnkeptLife
from rote.space.arguments import check_path
from rote.space.running import RunStart
from rote.traces.models import ModelConfig
from rote.traces.profiles import ToolProfile
from rote.values import Json, check_run_id, check_trace_name
from rote.values.limits import LEASE_SECONDS_DEFAULT

RUN_ID_BYTES = 16


class StoreRuns:
    """Implements space.running.Runs."""

    def __init__(
        self,
        port: Port,
        *,
        ids: IdSource,
        tokens: TokenSource,
        modes: Any = None,
        lease_seconds: float = LEASE_SECONDS_DEFAULT,
        folder: Path | None = None,
        read_only: bool = False,
    ) -> None:
        """Wire the runs of a store.

        folder     where the traces of runs are written; None keeps them in memory
        read_only  nothing may be written: runs have no row in the ledger and no lease
        """
        self._port = port
        self._ids = ids
        self._modes = check_modes(modes)
        self._folder = folder
        self._ledger = Ledger(port)
        self._leases = Leases(
            port,
            tokens=tokens,
            seconds=check_lease_seconds(lease_seconds),
            attend=self._attend,
        )
        self._life = (UnkeptLife if read_only else RunLife)(port, self._ledger, self._leases)

    def _attend(self) -> None:
        self._life.attend()

    def start(
        self,
        place: RunStart,
        *,
        workflow_id: str,
        model: ModelConfig | None,
        policy_set_id: str,
        mode: str,
        tools: Sequence[ToolProfile],
        validate: str,
        run_id: str | None,
        commit_policy: Callable[[list[dict[str, Any]]], bool] | None,
        record: str | PathLike[str] | bool | None,
        replay: str | PathLike[str] | None,
    ) -> Run:
        checked_mode = check_mode(mode, self._modes)
        check_validation(validate)
        check_trace_name(workflow_id, "workflow_id")
        check_trace_name(policy_set_id, "policy_set_id")
        if run_id is not None:
            check_run_id(run_id)
            self._ledger.check_unused(run_id)
        if commit_policy is not None and not callable(commit_policy):
            raise InvalidInput(
                "commit_policy is a function of the operations", argument="commit_policy"
            )
        if mode == LIVE and (place.pinned is not None or replay is not None):
            raise InvalidInput(f"a run in mode {LIVE} sees what is there now; it has no past")
        if mode == LIVE and commit_policy is not None:
            raise InvalidInput(
                f"a run in mode {LIVE} writes at once, so no policy can be asked first;"
                f" start it in mode {BUFFERED}",
                argument="commit_policy",
            )
        if replay is None:
            self._life.check_mode(checked_mode)
        record = None if record is False else record
        if record is not None and replay is not None:
            raise InvalidInput("a run is recorded or replayed, not both")
        if record is not None and mode == LIVE:
            raise InvalidInput(
                "a live run cannot be recorded: what it reads and writes is no part of a snapshot;"
                " use buffered_write",
                argument="record",
            )
        is_named = run_id is not None
        if run_id is None:
            run_id = self._ids.random_bytes(RUN_ID_BYTES).hex()
        terms = Terms(
            run_id=run_id,
            is_named=is_named,
            workflow_id=workflow_id,
            policy_set_id=policy_set_id,
            mode=checked_mode,
            validate=validate,
            model=model,
            tools=tools,
            commit_policy=commit_policy,
            folder=self._folder,
            record=self._recording_path(record, run_id),
            is_recorded_beside=record is True,
        )
        return self._begin(place, terms, None if replay is None else Replay(check_path(replay)))

    def _recording_path(
        self, record: str | PathLike[str] | bool | None, run_id: str
    ) -> Path | None:
        if record is None:
            return None
        if record is not True:
            # Where it was asked for: the program may move to another folder meanwhile.
            path = check_path(record).absolute()
            self._check_not_of_trace(path, run_id)
            return path
        if self._folder is None:
            raise InvalidInput(
                "record=True writes beside the trace, and this store keeps no traces; name their"
                " folder with rote.open(traces=…), or a file with record=…",
                argument="record",
            )
        return (self._folder / run_id / RECORDING_NAME).absolute()

    def _check_not_of_trace(self, path: Path, run_id: str) -> None:
        """Refuse the files of the run's trace as its recording."""
        if path.name == RECORDING_NAME or path.name not in FILE_NAMES or self._folder is None:
            return
        if path.parent.resolve() == (self._folder / run_id).resolve():
            raise InvalidInput(
                f"{path} is a file of the trace of this run; record=True writes the recording beside"
                " it",
                argument="record",
            )

    def _begin(self, place: RunStart, terms: Terms, recorded: Replay | None) -> Run:
        try:
            branch, base = self._base(place, recorded)
            snapshot = self._snapshot(place.space, View(branch, base.version), recorded)
            return Run(
                self._port,
                self._life,
                space=place.space,
                branch=branch,
                base=base,
                snapshot=snapshot,
                terms=terms,
                replay=recorded,
            )
        except BaseException:
            if recorded is not None:
                recorded.discard()
            raise

    def _base(self, place: RunStart, recorded: Replay | None) -> tuple[str, Head]:
        """The branch, and the head whose state is read."""
        did = place.space.did
        if recorded is None:
            return place.branch, (
                self._port.answer(did, GetHead()) if place.pinned is None else place.pinned
            )
        wanted = parse_snapshot_id(recorded.memory_snapshot_id)
        try:
            head = self._port.answer(did, GetHead(wanted.version))
        except NotFound as error:
            raise _not_here(place.space, recorded.memory_snapshot_id) from error
        if head.hash != wanted.hash:
            raise _not_here(place.space, recorded.memory_snapshot_id)
        return wanted.branch, head

    def _snapshot(self, space: SpaceInfo, view: View, recorded: Replay | None) -> Head:
        if recorded is None:
            return self._port.answer(space.did, GetSnapshot(view))
        try:
            snapshot = self._port.answer(space.did, GetSnapshot(view))
        except NotFound as error:
            raise _not_here(space, recorded.memory_snapshot_id) from error
        if snapshot_id(view.branch, snapshot) != recorded.memory_snapshot_id:
            raise _not_here(space, recorded.memory_snapshot_id)
        return snapshot

    def records(self) -> list[RunRecord]:
        rows = [row for space in all_spaces(self._port) for row in self._ledger.rows(space.did)]
        rows.sort(key=lambda row: (row.body.started_at, row.body.run_id))
        return [row.record() for row in rows]

    def origin(self, record: RunRecord) -> dict[str, Json]:
        for space in all_spaces(self._port):
            row = self._ledger.read(space.did, record.run_id)
            if row is not None and row.body.commit_id == record.commit_id:
                return {
                    "space": space.name,
                    "branch": row.body.branch,
                    "memory_snapshot_id": row.body.memory_snapshot_id,
                    "policy_set_id": row.body.policy_set_id,
                    **({"conflicts": row.body.conflicts} if row.body.conflicts else {}),
                }
        raise NotFound(f"there is no run {record.run_id}", run_id=record.run_id)

    def recover(self) -> list[RunRecord]:
        return [row.record() for row in self._life.recover()]

    def recover_if_possible(self) -> None:
        """Recover when a store is opened. Opening must not fail because of it: a store that cannot be
        written now, or is damaged, can still be read. `recover` says what is wrong."""
        with suppress(RoteError):
            self._life.recover()

    def close(self) -> None:
        self._leases.close()


def _not_here(space: SpaceInfo, memory_snapshot_id: str) -> InvalidInput:
    return InvalidInput(
        f"the recorded run began at {memory_snapshot_id}, which {space.name!r} does not have; replay"
        " it in the space where it was recorded, or in a copy or backup of it",
        memory_snapshot_id=memory_snapshot_id,
    )

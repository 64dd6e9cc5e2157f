"""The kernel: answers the Port in process, on any engine. Here it only decides who does the work.

commit   job -> group -> plan (validation, documents, chain) -> draft -> engine
read     opened -> entry -> engine
verify   the log against itself
copy     copies -> adoption -> engine
blob     blobs -> payloads -> engine; then a commit that makes it count
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rote.contract import (
    BlobInfo,
    BlobPart,
    BlobRequest,
    Branch,
    BranchRequest,
    ByteStream,
    Change,
    Clock,
    Commit,
    CommitRequest,
    Compaction,
    CopyPage,
    CopyProgress,
    Erasure,
    FactPage,
    FoundationCursor,
    FoundationPage,
    GcReport,
    Glance,
    Head,
    Hit,
    Holds,
    IdSource,
    Index,
    KeyRing,
    MergeRequest,
    MergeResult,
    Progress,
    Rehearsal,
    ScanPage,
    SidePage,
    SideRow,
    SpaceInfo,
    State,
    TokenSource,
    VerifyReport,
    View,
)
from rote.engines import Engine
from rote.kernel.blobs.blob_keeper import BlobKeeper
from rote.kernel.branching import branch_tasks, diffs, merges
from rote.kernel.committing import rechecks, rehearsals, side_rows
from rote.kernel.committing.blob_data import BlobData
from rote.kernel.committing.committer import Committer
from rote.kernel.committing.jobs import Task, job_of, task_job
from rote.kernel.copying import copies, foundation_copies
from rote.kernel.keeping import checkpoints, compactions, erasures, gc
from rote.kernel.log.entries import ABSENT, Entry, glance_at, state_of
from rote.kernel.proving import verification
from rote.kernel.reading import history, indexes, queries, scans, view_heads
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader
from rote.kernel.state.spaces import Spaces
from rote.kernel.state.wiring import Wiring
from rote.kernel.watching import watches
from rote.kernel.watching.pulse import Pulse
from rote.values import Json, check_branch_name, check_entity_id, micros_of
from rote.values.limits import WATCH_TURNS_REMOTE


class Kernel:
    """Implements contract.Port."""

    def __init__(
        self,
        engine: Engine,
        *,
        clock: Clock,
        ids: IdSource,
        tokens: TokenSource,
        keys: KeyRing,
        author: str | None = None,
        seed: bytes | None = None,
        indexes: Sequence[Index] = (),
        presumes: bool = False,
    ) -> None:
        """presumes  whether what nothing is known of may be taken for new, which saves a look; not
        where `ids` and `clock` have to be repeatable: a wrong guess asks them once more"""
        self._engine = engine
        self._clock = clock
        self._tokens = tokens
        self._keys = keys
        self._author = author
        self._presumes = presumes
        self._indexes = {index.name: index for index in indexes}
        self._pulses: dict[str, Pulse] = {}  # of the spaces that are watched
        self._wiring = Wiring(engine, clock, ids, tokens, keys, self._indexes, presumes)
        self._spaces = Spaces(self._wiring, seed=seed)
        self._committer = Committer(
            engine,
            clock=clock,
            ids=ids,
            indexes=tuple(self._indexes.values()),
            presumes=presumes,
        )
        self._blobs = BlobKeeper(
            clock=clock, token=tokens.token, commit=self._commit_blob, read=self.read
        )

    # -- spaces ------------------------------------------------------------------------------------

    def spaces(self) -> tuple[SpaceInfo, ...]:
        return self._spaces.all()

    def space(self, name: str, *, create: bool) -> SpaceInfo:
        return self._spaces.find(name, create=create)

    def now(self) -> int:
        return micros_of(self._clock.now())

    def shared_now(self) -> int:
        now = self._engine.now()
        return self.now() if now is None else now

    # -- commits -----------------------------------------------------------------------------------

    def commit(self, space: str, request: CommitRequest, *, holds: Holds | None = None) -> Commit:
        job = job_of(request, self._author, self._tokens.token())
        if holds is not None:
            job.task = rechecks.Assuring(holds)
        opened = self._spaces.opened.get(space) or self._spaces.open(space)
        return self._committer.commit(opened, job)

    def rehearse(
        self,
        space: str,
        operations: Sequence[Mapping[str, Any]],
        *,
        view: View,
        own: Mapping[str, State],
        now: int,
    ) -> tuple[Rehearsal, ...]:
        return rehearsals.rehearse(
            self._spaces.open(space).reader(), operations, view, own, now=now
        )

    # -- reads -------------------------------------------------------------------------------------

    def head(self, space: str) -> Head:
        opened = self._spaces.open(space)
        row = opened.reader().sync()
        return Head(0, None, None) if row is None else Head(row.version, row.hash.hex(), row.at)

    def snapshot(self, space: str, view: View) -> Head:
        return view_heads.snapshot(self._spaces.open(space).reader(), view)

    def head_at(self, space: str, *, version: int | None = None, at: int | None = None) -> Head:
        opened = self._spaces.open(space)
        return history.head_at(opened.reader(), version=version, at=at)

    def read(self, space: str, ids: Sequence[str], view: View) -> tuple[State, ...]:
        opened = self._spaces.opened.get(space) or self._spaces.open(space)
        branch, version = view.branch, view.version
        if len(ids) == 1:
            # The most frequent call of all.
            id = ids[0]
            if type(id) is not str:
                check_entity_id(id)
            if version is None:
                return (state_of(id, opened.reader().current(branch, id)),)
            entry = opened.remembered(branch, id, version)
            if entry is not None:
                return (state_of(id, entry),)
        for id in ids:
            check_entity_id(id)
        reads = opened.reader()
        if version is None:
            entries = reads.steadily(None, lambda _: reads.newest(branch, ids))
        else:
            entries = self._entries_at(reads, branch, ids, version)
        return tuple([state_of(id, entries[id]) for id in ids])

    def glance(
        self,
        space: str,
        id: str,
        *,
        values: Sequence[str],
        sizes: Sequence[str],
        view: View,
        may_be_new: bool = False,
    ) -> Glance:
        check_entity_id(id)
        reads = self._spaces.open(space).reader()
        if view.version is not None:
            entry = self._entries_at(reads, view.branch, (id,), view.version)[id]
        elif may_be_new and self._presumes and reads.space.presumes_new(view.branch, id):
            entry = ABSENT
        else:
            entry = reads.current(view.branch, id)
        return glance_at(entry, values, sizes)

    def _entries_at(
        self, reads: SpaceReader, branch: str, ids: Sequence[str], version: int
    ) -> dict[str, Entry]:
        reads.check_version(version)
        remembered = {id: reads.space.remembered(branch, id, version) for id in ids}
        entries = {id: entry for id, entry in remembered.items() if entry is not None}
        missing = [id for id in remembered if id not in entries]
        return entries | reads.entries_at(branch, missing, version) if missing else entries

    def scan(
        self, space: str, *, start: str, end: str | None, after: str | None, limit: int, view: View
    ) -> ScanPage:
        opened = self._spaces.open(space)
        return scans.scan(
            opened.reader(), start=start, end=end, after=after, limit=limit, view=view
        )

    def history(
        self, space: str, id: str, *, before: tuple[int, int] | None, limit: int, view: View
    ) -> FactPage:
        opened = self._spaces.open(space)
        return history.history(opened.reader(), id, before=before, limit=limit, view=view)

    def log(self, space: str, *, since: int, limit: int) -> tuple[Commit, ...]:
        opened = self._spaces.open(space)
        return history.log(opened.reader(), since=since, limit=limit)

    def find(
        self,
        space: str,
        index: str,
        *,
        start: str,
        end: str | None,
        after: Hit | None,
        limit: int,
        view: View,
    ) -> tuple[Hit, ...]:
        return indexes.find(
            self._spaces.open(space),
            indexes.declared(self._indexes, index),
            start=start,
            end=end,
            after=after,
            limit=limit,
            view=view,
        )

    def reindex(self, space: str, *, progress: Progress | None) -> None:
        opened = self._spaces.open(space)
        for index in self._indexes.values():
            indexes.rebuild(opened, index, progress=progress)

    # -- queries -----------------------------------------------------------------------------------

    def query(self, space: str, query: Mapping[str, Any], view: View) -> dict[str, Json]:
        return queries.query(self._spaces.open(space).reader(), query, view)

    def values(self, space: str, query: Mapping[str, Any], view: View) -> dict[str, Json]:
        return queries.values(self._spaces.open(space).reader(), query, view)

    def watch(
        self,
        space: str,
        query: Mapping[str, Any],
        view: View,
        *,
        since: int | None,
        timeout: float | None,
    ) -> Iterator[dict[str, Any]]:
        opened = self._spaces.open(space)
        turns_max = WATCH_TURNS_REMOTE if self._engine.is_remote else 1
        pulse = self._pulses.setdefault(opened.did, Pulse(turns_max=turns_max))
        return watches.watch(opened, pulse, query, view, since=since, timeout=timeout)

    # -- branches ----------------------------------------------------------------------------------

    def branches(self, space: str, *, version: int | None) -> tuple[Branch, ...]:
        return branch_tasks.branches_at(self._spaces.open(space).reader(), version)

    def create_branch(self, space: str, request: BranchRequest) -> Commit:
        branch_tasks.check_request(request)
        call: dict[str, Json] = {
            "name": "create_branch",
            "branch": request.name,
            "parent": request.parent,
            "fork_version": request.fork_version,
        }
        return self._commit_task(
            space, branch_tasks.Creation(request), request.name, request.key, call
        )

    def delete_branch(self, space: str, name: str, *, key: str | None) -> Commit:
        check_branch_name(name)
        call: dict[str, Json] = {"name": "delete_branch", "branch": name}
        return self._commit_task(space, branch_tasks.Deletion(name), name, key, call)

    def _commit_task(
        self, space: str, task: Task, branch: str, key: str | None, call: dict[str, Json]
    ) -> Commit:
        attempt = self._tokens.token()
        job = task_job(branch, task, key=key, call=call, author=self._author, attempt=attempt)
        return self._committer.commit(self._spaces.open(space), job)

    def merge(self, space: str, request: MergeRequest) -> MergeResult:
        opened = self._spaces.open(space)
        return merges.merge(
            opened.reader(),
            request,
            commit=lambda job: self._committer.commit(opened, job),
            author=self._author,
            attempt=self._tokens.token(),
        )

    def diff(self, space: str, before: View, after: View) -> tuple[Change, ...]:
        return diffs.diff(self._spaces.open(space).reader(), before, after)

    # -- side rows ---------------------------------------------------------------------------------

    def side(self, space: str, kind: str, key: str) -> SideRow | None:
        return side_rows.get(self._spaces.open(space), kind, key)

    def sides(self, space: str, kind: str, *, after: str, limit: int) -> tuple[SideRow, ...]:
        opened = self._spaces.open(space)
        return side_rows.page(opened, kind, after=after, limit=limit)

    def put_side(self, space: str, kind: str, key: str, body: Json, *, fence: int) -> SideRow:
        opened = self._spaces.open(space)
        return side_rows.put(opened, kind, key, body, fence=fence)

    def drop_side(self, space: str, kind: str, key: str, *, fence: int) -> None:
        side_rows.drop(self._spaces.open(space), kind, key, fence=fence)

    # -- blobs -------------------------------------------------------------------------------------

    def put_blob(self, space: str, data: bytes | ByteStream, request: BlobRequest) -> str:
        return self._blobs.put(self._spaces.open(space), data, request)

    def _commit_blob(self, opened: OpenSpace, request: CommitRequest, blob: BlobData) -> Commit:
        job = job_of(request, author=self._author, attempt=self._tokens.token())
        job.blob = blob
        return self._committer.commit(opened, job)

    def blob_info(self, space: str, hash: str, view: View) -> BlobInfo:
        return self._blobs.info(self._spaces.open(space), hash, view)

    def blob_piece(self, space: str, hash: str, *, offset: int) -> bytes:
        return self._blobs.piece(self._spaces.open(space), hash, offset)

    def gc(self, space: str, *, grace_seconds: float, progress: CopyProgress | None) -> GcReport:
        return gc.collect(
            self._spaces.open(space),
            now=self.now(),
            grace_seconds=grace_seconds,
            progress=progress,
        )

    # -- trust and keeping -------------------------------------------------------------------------

    def verify(
        self, space: str, *, against: dict[str, Any] | None, progress: Progress | None
    ) -> VerifyReport:
        opened = self._spaces.open(space)
        declared = tuple(self._indexes.values())
        return verification.verify(opened, indexes=declared, against=against, progress=progress)

    def checkpoint(self, space: str) -> dict[str, Any]:
        opened = self._spaces.open(space)
        return checkpoints.make(opened, keys=self._keys, now=self.now())

    def erase(self, space: str, id: str, *, reason: str, key: str | None) -> Erasure:
        opened = self._spaces.open(space)
        return erasures.erase(
            opened,
            id,
            reason=reason,
            key=key,
            commit=lambda job: self._committer.commit(opened, job),
            author=self._author,
            attempt=self._tokens.token(),
        )

    def compact(
        self,
        space: str,
        *,
        before: int | None,
        keep: int | None,
        dry_run: bool,
        key: str | None,
        progress: CopyProgress | None,
    ) -> Compaction:
        opened = self._spaces.open(space)
        aim = compactions.aim_of(before, keep)
        tell = progress or (lambda phase, done, total: None)
        if dry_run:
            return compactions.foresee(opened.reader(), aim, tell)
        task = compactions.Compacting(
            aim, checkpoints.signer(opened, self._keys), self.now(), self.shared_now(), tell
        )
        call: dict[str, Json] = {"name": "compact", **aim.call()}
        return compactions.compact(
            opened,
            task,
            commit=lambda: self._commit_task(space, task, "main", key, call),
        )

    def backup(self, path: Path) -> None:
        self._engine.backup(path)

    # -- copies ------------------------------------------------------------------------------------

    def adopt(self, did: str, name: str, *, seed: bytes | None) -> SpaceInfo:
        return self._spaces.adopt(did, name, seed)

    def seed(self, space: str) -> bytes:
        return self._spaces.seed(self._spaces.open(space).did)

    def copy_out(self, space: str, *, since: int, until: int) -> CopyPage:
        opened = self._spaces.open(space)
        return copies.copy_out(opened.reader(), since=since, until=until)

    def copy_in(self, space: str, page: CopyPage) -> Head:
        opened = self._spaces.open(space)
        return copies.copy_in(opened, page, attempt=self._tokens.token)

    def foundation_out(
        self, space: str, *, after: FoundationCursor | None
    ) -> FoundationPage | None:
        opened = self._spaces.open(space)
        return foundation_copies.foundation_out(opened.reader(), after=after)

    def foundation_in(self, space: str, pages: Iterable[FoundationPage]) -> Head:
        opened = self._spaces.open(space)
        return foundation_copies.foundation_in(opened, pages, attempt=self._tokens.token)

    def sides_out(self, space: str, *, after: tuple[str, str]) -> SidePage:
        return copies.sides_out(self._spaces.open(space).reader(), after=after)

    def sides_in(self, space: str, page: SidePage) -> None:
        copies.sides_in(self._spaces.open(space), page)

    def blobs(self, space: str, *, after: str, limit: int) -> tuple[BlobPart, ...]:
        return self._blobs.page(self._spaces.open(space), after=after, limit=limit)

    def adopt_blob(self, space: str, hash: str, stream: ByteStream) -> bool:
        return self._blobs.adopt(self._spaces.open(space), hash, stream)

    def close(self) -> None:
        self._engine.close()

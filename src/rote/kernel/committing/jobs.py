"""A commit on its way: checked, waiting for the lock, answered."""

import threading
from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct, field

from rote.contract import Commit, CommitRequest, Guard
from rote.engines.rows import BranchRow
from rote.errors import RoteError
from rote.kernel.committing.blob_data import BlobData
from rote.kernel.committing.drafts import Draft
from rote.kernel.committing.operations import (
    Operation,
    check_size,
    parse_operations,
    payload_digest,
)
from rote.kernel.committing.reads import Read, parse_reads
from rote.kernel.committing.side_rows import check_own
from rote.kernel.log.entries import Entry
from rote.values import Json, canonical, check_key, digest


class Prepared(Struct, frozen=True, gc=False):
    """What a task decided to record."""

    branch: BranchRow  # that the commit is on
    event: bytes | None = None  # what it means besides its facts
    changed: BranchRow | None = None  # made or deleted by it
    oldest: int | None = None  # the oldest version that can be read after it, where it moves


class Task(Protocol):
    """What a commit does that is more than its operations. It has a transaction for itself."""

    def prepare(self, draft: Draft, job: "Job") -> Prepared:
        """Decide on the newest state, and give the job its operations.

        It may write by itself if the draft is locked, and raises Contended if it must and is not;
        whatever else it raises undoes the transaction.
        """
        ...


class Job(Struct, eq=False):
    """One commit request and what became of it."""

    branch: str
    operations: list[Operation]
    reads: list[Read]
    key: str | None
    payload: str | None  # what the key stands for; only with a key
    meta: bytes | None
    guard: Guard | None
    guard_body: bytes  # canonical; empty without a guard
    unerased_since: int | None  # what it writes must not have been erased after this version
    author: str | None
    attempt: bytes
    task: Task | None = None
    call: Mapping[str, Json] | None = None  # what its key stands for, where a task is all it does
    blob: BlobData | None = None  # that counts from this commit on
    known: dict[str, Entry] | None = None  # the entities before it, where a task has them
    salts: dict[str, bytes] = field(default_factory=dict)  # drawn once, whatever is retried
    result: Commit | None = None
    error: BaseException | None = None
    signal: "threading.Lock | None" = None  # held until a waiting job is answered or has to lead

    @property
    def answered(self) -> bool:
        return self.result is not None or self.error is not None


def job_of(request: CommitRequest, author: str | None, attempt: bytes) -> Job:
    """Everything that can be checked without looking at the store."""
    branch, key, guard = request.branch, request.key, request.guard
    if key is not None:
        check_key(key, reserved_allowed=guard is not None)
    operations = parse_operations(request.operations)
    meta = None if request.meta is None else canonical(request.meta)
    check_size(operations, meta)
    reads = [] if request.reads == () else parse_reads(request.reads, branch)
    payload = None if key is None else payload_digest(branch, operations)
    guard_body = b"" if guard is None else _guard_body(guard)
    return Job(
        branch, operations, reads, key, payload, meta, guard, guard_body, request.unerased_since,
        author, attempt,
    )  # fmt: skip


def task_job(
    branch: str,
    task: Task,
    *,
    key: str | None,
    call: dict[str, Json],
    author: str | None,
    attempt: bytes,
) -> Job:
    """A job whose operations the task brings; its key stands for the call."""
    if key is not None:
        check_key(key)
    payload = None if key is None else digest({"kind": "call_payload/1", "call": call})
    return Job(branch, [], [], key, payload, None, None, b"", None, author, attempt, task, call)


def _guard_body(guard: Guard) -> bytes:
    check_own(guard.kind, guard.key, guard.fence)
    return canonical(guard.body)


def fail(jobs: list[Job], error: RoteError) -> None:
    """Answer them all with an error, whatever was decided for them before."""
    for job in jobs:
        job.error = error

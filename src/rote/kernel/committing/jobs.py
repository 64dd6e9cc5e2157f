"""A commit on its way: checked, waiting for the lock, answered."""

import threading
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct, field

from rote.contract import Caller, Commit, Guard
from rote.contract.commands import MakeCommit
from rote.contract.operations import (
    Operation,
    check_size,
    parse_operations,
    payload_digest,
)
from rote.contract.reads import Read, parse_reads
from rote.engines.rows import BlobRow, BranchRow
from rote.errors import RoteError
from rote.kernel.committing.drafts import Draft
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


class Attachment(Protocol):
    """Bytes that a commit makes count."""

    def row(self, draft: Draft, at: int) -> BlobRow | None:
        """Return the row that makes them count; None when there is one already."""
        ...


class Job(Struct, eq=False):
    """One commit request and what became of it."""

    branch: str
    operations: list[Operation]
    reads: list[Read]
    key: str | None
    payload: str | None  # what the key stands for; only with a key
    meta: bytes | None
    guards: Sequence[tuple[Guard, bytes]]  # each with its canonical body
    unerased_since: int | None  # what it writes must not have been erased after this version
    author: str | None
    attempt: bytes
    task: Task | None = None
    call: Mapping[str, Json] | None = None  # what its key stands for, where a task is all it does
    attachment: Attachment | None = None  # that counts from this commit on
    known: dict[str, Entry] | None = None  # the entities before it, where a task has them
    salts: dict[str, bytes] = field(default_factory=dict)  # drawn once, whatever is retried
    result: Commit | None = None
    error: BaseException | None = None
    signal: "threading.Lock | None" = None  # held until a waiting job is answered or has to lead

    @property
    def answered(self) -> bool:
        return self.result is not None or self.error is not None


def job_of(command: MakeCommit, caller: Caller, attempt: bytes) -> Job:
    """Check everything that needs no look at the store; return the job."""
    branch, key, guards = command.branch, command.key, command.guards
    if key is not None:
        check_key(key, reserved_allowed=bool(guards))
    operations = parse_operations(command.operations)
    meta = None if command.meta is None else canonical(command.meta)
    check_size(operations, meta)
    reads = [] if command.reads == () else parse_reads(command.reads, branch)
    payload = None if key is None else payload_digest(branch, operations)
    guarded = [(guard, _guard_body(guard)) for guard in guards] if guards else ()
    return Job(
        branch, operations, reads, key, payload, meta, guarded, command.unerased_since,
        caller.author, attempt,
    )  # fmt: skip


def task_job(
    branch: str,
    task: Task,
    *,
    key: str | None,
    call: dict[str, Json],
    caller: Caller,
    attempt: bytes,
) -> Job:
    """A job whose operations the task brings; its key stands for the call."""
    if key is not None:
        check_key(key)
    payload = None if key is None else digest({"kind": "call_payload/1", "call": call})
    return Job(branch, [], [], key, payload, None, (), None, caller.author, attempt, task, call)


def _guard_body(guard: Guard) -> bytes:
    check_own(guard.kind, guard.key, guard.fence)
    return canonical(guard.body)


def fail(jobs: list[Job], error: RoteError) -> None:
    """Answer them all with an error, whatever was decided for them before."""
    for job in jobs:
        job.error = error

"""Jobs: commit requests that were checked, wait to be committed, and get an answer."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from rote.contract import Caller, Commit, Guard, OnlyIf
from rote.contract.commands import (
    Compact,
    CreateBranch,
    DeleteBranch,
    Erase,
    MakeCommit,
    Merge,
)
from rote.contract.operations import (
    Operation,
    check_size,
    parse_operations,
    payload_digest,
)
from rote.contract.reads import Read, parse_reads
from rote.engines.rows import BlobRow, BranchRow
from rote.errors import InvalidInput, RoteError
from rote.kernel.committing.conditions import check_form
from rote.kernel.committing.drafts import Draft
from rote.kernel.committing.side_rows import check_own
from rote.kernel.log.entries import Entry
from rote.kernel.log.key_rows import attempt_token
from rote.values import (
    Json,
    canonical,
    check_attempt,
    check_branch_name,
    check_key,
    digest,
)

# Commands whose commit is made by a task.
TaskCommand = CreateBranch | DeleteBranch | Merge | Erase | Compact


class Prepared(Struct, frozen=True, gc=False):
    """The branch and the event of the commit that a task has prepared."""

    branch: BranchRow  # that the commit is on
    event: bytes | None = None  # canonical; None when it has none
    changed: BranchRow | None = None  # the branch that it makes or deletes
    oldest: int | None = None  # the new oldest readable version, when the commit moves it


class Task(Protocol):
    """Work that a commit does beside its operations. It is alone in its transaction."""

    def prepare(self, draft: Draft, job: "Job") -> Prepared | None:
        """Decide by the newest state what to record, and give the job its operations; None when there
        is nothing to commit, and then nothing was written.

        A task that writes rows itself needs the lock: it raises Contended when `draft.locked` is
        false, and is tried again with the lock. Any other error rolls the transaction back.
        """
        ...


class Attachment(Protocol):
    """Data of a blob that counts from a commit on."""

    def row(self, draft: Draft, at: int) -> BlobRow | None:
        """Return the row that makes the data count; None when there is one already."""
        ...


class Job(Struct, eq=False):
    """One commit request and its answer."""

    branch: str
    operations: list[Operation]
    reads: list[Read]
    key: str | None
    payload: str | None  # digest of what key and attempt stand for; None without both
    meta: bytes | None
    guards: Sequence[tuple[Guard, bytes]]  # each with its canonical body
    unerased_since: int | None  # an erasure of what it writes after this version is a conflict
    author: str | None
    token: bytes  # of this try, to settle an unknown outcome
    task: Task | None = None
    call: Mapping[str, Json] | None = None  # what its key stands for, when it has only a task
    attachment: Attachment | None = None  # that counts from this commit on
    attempt: str | None = None
    # Of a command without reads, its `only_if`; of a commit, its `unchanged_since`.
    condition: OnlyIf | int | None = None
    known: dict[str, Entry] | None = None  # the entities before it, when a task has read them
    salts: dict[str, bytes] = field(default_factory=dict)  # drawn once, also when it is retried
    result: Commit | None = None
    is_unneeded: bool = False  # the task found that there is nothing to commit
    error: BaseException | None = None
    signal: "threading.Lock | None" = None  # released when a waiting job is answered or has to lead
    interruption: BaseException | None = None  # that came while it waited; raised after the answer

    @property
    def answered(self) -> bool:
        return self.result is not None or self.error is not None or self.is_unneeded


def job_of(command: MakeCommit, caller: Caller, token: bytes) -> Job:
    """Check everything that needs no look at the store; return the job."""
    branch, key, guards, attempt = command.branch, command.key, command.guards, command.attempt
    if key is not None:
        check_key(key, reserved_allowed=bool(guards))
    if attempt is not None:
        check_attempt(attempt)
        token = attempt_token(attempt, token)
    if type(branch) is not str:
        check_branch_name(branch)
    if command.unerased_since is not None and type(command.unerased_since) is not int:
        raise InvalidInput("unerased_since is a version, an integer")
    if command.unchanged_since is not None and type(command.unchanged_since) is not int:
        raise InvalidInput("unchanged_since is a version, an integer")
    operations = parse_operations(command.operations)
    meta = None if command.meta is None else canonical(command.meta)
    check_size(operations, meta)
    reads = [] if command.reads == () else parse_reads(command.reads, branch)
    payload = None
    if key is not None or attempt is not None:
        call = command.call
        payload = (
            payload_digest(branch, operations) if call is None else call_digest_on(branch, call)
        )
    check_structs(guards, Guard, "guards")
    guarded = [(guard, _guard_body(guard)) for guard in guards] if guards else ()
    job = Job(
        branch,
        operations,
        reads,
        key,
        payload,
        meta,
        guarded,
        command.unerased_since,
        caller.author,
        token,
    )
    if attempt is not None or command.unchanged_since is not None:
        # Most commits have neither, and fields with names cost time.
        job.attempt, job.condition = attempt, command.unchanged_since
    return job


def task_job(
    branch: str,
    task: Task,
    command: TaskCommand,
    *,
    call: dict[str, Json],
    caller: Caller,
    token: bytes,
) -> Job:
    """Return a job whose operations the task brings; its key and its attempt stand for the call."""
    key, attempt = command.key, command.attempt
    if key is not None:
        check_key(key)
    if attempt is not None:
        check_attempt(attempt)
        token = attempt_token(attempt, token)
    check_form(command.only_if)
    payload = None if key is None and attempt is None else call_digest(call)
    job = Job(branch, [], [], key, payload, None, (), None, caller.author, token, task, call)
    job.attempt, job.condition = attempt, command.only_if
    return job


def check_structs(parts: Any, kind: type, name: str) -> None:
    """Refuse what a message may hold in place of a list of structs."""
    if type(parts) not in (list, tuple) or not all(type(part) is kind for part in parts):
        raise InvalidInput(f"{name} must be a list of {kind.__name__}", argument=name)


def call_digest(call: Mapping[str, Json]) -> str:
    """Return the digest of a call that a key stands for."""
    return digest({"kind": "call_payload/1", "call": call})


def call_digest_on(branch: str, call: Mapping[str, Json]) -> str:
    """Return the digest of a call that a caller names, on a branch."""
    if type(call) is not dict:
        raise InvalidInput("the call that a key stands for is an object", argument="call")
    return call_digest({**call, "branch": branch})


def _guard_body(guard: Guard) -> bytes:
    check_own(guard.kind, guard.key, guard.fence)
    if guard.drop and (guard.stamped or guard.body is not None or guard.fence == 0):
        raise InvalidInput("a guard that drops its row has no body, and a fence from 1 on")
    if guard.stamped and type(guard.body) is not dict:
        raise InvalidInput("a guard that is stamped has an object as its body")
    return canonical(guard.body)


def fail(jobs: list[Job], error: RoteError) -> None:
    """Answer all jobs with an error, in place of any earlier answer."""
    for job in jobs:
        job.error = error

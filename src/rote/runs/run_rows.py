"""The ledger of runs: side rows that the runs write.

    run    <run_id>   what became of a run; while its commit is pending, all that it takes to make it
    lease  <owner>    that an owner of runs is alive, until when

    buffer_open ──> commit_pending ──> commit_applied
         │                └──────────> commit_aborted
         └ discarded, or applied with nothing to write, or rejected by its policy

Frozen: the members are stored.
"""

from collections.abc import Collection
from typing import Any

from msgspec import Struct, ValidationError, convert, structs, to_builtins

from rote.contract.requests import Guard, SideRow
from rote.errors import Corrupt
from rote.values import Json, canonical, decode_canonical
from rote.values.limits import DEPTH_MAX

RUN = "run"
LEASE = "lease"

BUFFER_OPEN = "buffer_open"
COMMIT_PENDING = "commit_pending"
COMMIT_APPLIED = "commit_applied"
COMMIT_ABORTED = "commit_aborted"

POLICY_REJECTED = "policy_rejected"
VALIDATION_FAILED = "validation_failed"
STORAGE_APPLY_FAILED = "storage_apply_failed"
PAYLOAD_MISMATCH = "payload_mismatch"


class NotedAnswer(Struct, frozen=True):
    """A question that a run asked of its snapshot, and what its answer depends on."""

    call: dict[str, Any]  # the question, to be asked again
    digest: str  # of the answer
    ranges: list[tuple[str, str, str | None]]  # branch and ids, half open, that can change it


class PendingCommit(Struct, frozen=True, omit_defaults=True):
    """All that it takes to make the commit of a run."""

    operations: list[dict[str, Any]]
    reads: list[dict[str, Any]]  # as in transact
    answers: list[NotedAnswer]
    guards: list[Guard] = []  # on rows of others that it claims, such as the lease of a message

    def text(self) -> str:
        """As a row holds it: text, because its values may be as deep as the row itself."""
        return canonical(to_builtins(self), depth_max=2 * DEPTH_MAX).decode()

    def holds(self, ids: Collection[str]) -> bool:
        """Whether one of the entities is written, was read, or may be in an answer."""
        ranges = [(start, end) for answer in self.answers for _, start, end in answer.ranges]
        return self.names(ids) or any(
            start <= id and (end is None or id < end) for start, end in ranges for id in ids
        )

    def names(self, ids: Collection[str]) -> bool:
        """Whether one of the entities is written, or was read by its id."""
        return any(operation["id"] in ids for operation in self.operations) or any(
            read.get("id") in ids for read in self.reads
        )


class RunBody(Struct, frozen=True, kw_only=True):
    """One run."""

    run_id: str
    workflow_id: str
    policy_set_id: str
    mode: str
    validate: str
    branch: str
    memory_snapshot_id: str
    commit_id: str
    snapshot_version: int  # what it reads; 0 for the empty space
    base_version: int  # what has been written since then is what can conflict
    now: int  # its time, microseconds since the epoch
    owner: str
    started_at: str
    state: str = BUFFER_OPEN
    discarded: bool = False
    reason_code: str | None = None
    conflicts: list[dict[str, Any]] = []  # why it was aborted
    payload_fingerprint: str | None = None  # None too when an erasure has taken it
    version: int | None = None  # of its commit
    at: str | None = None  # when it ended
    replayed: bool = False  # it takes its replies from a recording, and is never applied
    payload: str | None = None  # what it takes to commit it, while it is pending

    @property
    def has_ended(self) -> bool:
        return self.at is not None

    def aborted(
        self, reason_code: str, at: str, conflicts: tuple[dict[str, Any], ...] = ()
    ) -> "RunBody":
        return structs.replace(
            self,
            state=COMMIT_ABORTED,
            reason_code=reason_code,
            at=at,
            payload=None,
            conflicts=list(conflicts),
        )

    def body(self) -> Json:
        body: Json = to_builtins(self)
        return body


def pending_in(entry: RunBody) -> PendingCommit | None:
    if entry.payload is None:
        return None
    try:
        return convert(decode_canonical(entry.payload.encode()), PendingCommit)
    except (ValidationError, ValueError) as error:
        raise Corrupt(f"the ledger of run {entry.run_id!r} was changed: {error}") from None


def run_in(row: SideRow) -> RunBody:
    try:
        return convert(row.body, RunBody)
    except ValidationError as error:
        raise Corrupt(f"the ledger of run {row.key!r} was changed: {error}") from None


class Lease(Struct, frozen=True):
    """An owner of runs is alive until then, unless someone has begun to take its runs over."""

    until: int  # microseconds since the epoch, by the clock that all share
    claimed: bool = False

    def body(self) -> Json:
        body: Json = to_builtins(self)
        return body


def lease_in(row: SideRow) -> Lease:
    try:
        return convert(row.body, Lease)
    except ValidationError as error:
        raise Corrupt(f"the lease {row.key!r} was changed: {error}") from None

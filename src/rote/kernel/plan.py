"""Planning one commit: validate its reads, apply its operations, hash, and add it to the draft.

Everything is decided before anything is added, so a commit that cannot be made leaves no mark. The
salts of new entities are drawn last, in operation order, when nothing can fail any more.
"""

from msgspec import Struct

from rote.contract import Commit, IdSource
from rote.engines.rows import (
    DELETE,
    PATCH,
    SET,
    BranchRow,
    CommitRow,
    EntityRow,
    FactRow,
)
from rote.errors import Conflict, Denied, InvalidInput, NotFound, PayloadMismatch
from rote.kernel.chain import commit_hash, empty_hash, fact_hash
from rote.kernel.documents import Patched, patched, stamped
from rote.kernel.draft import Change, Draft, commit_of
from rote.kernel.entry import Entry
from rote.kernel.job import Job
from rote.kernel.operations import Operation
from rote.kernel.seals import side_record
from rote.kernel.validation import find_conflicts
from rote.values import canonical, decode_canonical, format_time

# Side rows that say which commit a caller's key made.
KEY = "key"


class Step(Struct, frozen=True):
    """One operation, applied."""

    operation: Operation
    op: int  # what the fact is: a patch that found nothing became a set
    body: bytes | None
    snapshot: bytes | None  # kept beside a patch
    before: Entry
    after: Entry  # still without version, hash and salt


def plan(draft: Draft, job: Job, *, now: int, ids: IdSource) -> Commit:
    """The commit, added to the draft; or the one this job's key already made."""
    made = _already_made(draft, job)
    if made is not None:
        return made
    _check_guard(draft, job)
    branch = _writable(draft, job)
    conflicts = find_conflicts(draft, job.reads)
    if conflicts:
        raise Conflict(conflicts)
    at = max(now, draft.at)
    steps = _apply(draft, job, format_time(at))
    _draw_salts(draft, job, steps, ids)
    facts = _facts(draft, job, branch.branch, steps)
    row = _commit_row(draft, job, branch, facts, at)
    previous = draft.hash
    _add(draft, job, row, facts, steps)
    return commit_of(row, facts, previous=previous, branch=job.branch)


def _already_made(draft: Draft, job: Job) -> Commit | None:
    if job.key is None:
        return None
    row = draft.side(KEY, job.key)
    if row is None:
        return None
    made = decode_canonical(row.body)
    version: int = made["version"]
    if made["payload"] != job.payload:
        raise PayloadMismatch(job.key, version=version)
    return commit_at(draft, version)


def commit_at(draft: Draft, version: int) -> Commit:
    """A commit of the log, or of this draft."""
    rows = [row for row in draft.commits if row.version in (version - 1, version)]
    facts = [fact for fact in draft.facts if fact.version == version]
    if not rows or rows[0].version == version:
        rows = (
            draft.reads.commits(draft.cache.number, after=version - 2, limit=2 - len(rows)) + rows
        )
    if not facts:
        facts = draft.reads.facts(draft.cache.number, after=version - 1, until=version)
    previous = rows[0].hash if rows[0].version < version else None
    row = rows[-1]
    return commit_of(row, facts, previous=previous, branch=draft.cache.branches.name(row.branch))


def _check_guard(draft: Draft, job: Job) -> None:
    guard = job.guard
    if guard is None:
        return
    row = draft.side(guard.kind, guard.key)
    if row is None or row.fence != guard.fence:
        raise Denied(
            f"{guard.kind} {guard.key!r} was taken over by another owner; nothing was written",
            kind=guard.kind,
            key=guard.key,
            expected_fence=guard.fence,
            actual_fence=0 if row is None else row.fence,
        )


def _writable(draft: Draft, job: Job) -> BranchRow:
    branch = draft.cache.branches.find(job.branch)
    if branch.deleted_version is not None:
        raise InvalidInput(f"the branch {job.branch!r} was deleted; write to another one")
    return branch


def _apply(draft: Draft, job: Job, at: str) -> list[Step]:
    """The operations in order, each on what those before it left."""
    current = draft.look_up(job.branch, list({op.id: None for op in job.operations}))
    steps = []
    for operation in job.operations:
        step = _step(operation, current[operation.id], at)
        current[operation.id] = step.after
        steps.append(step)
    return steps


def _step(operation: Operation, before: Entry, at: str) -> Step:
    if operation.kind == SET:
        return _set(operation, before, operation.data, at)
    if not before.exists:
        if operation.otherwise is not None:
            return _set(operation, before, operation.otherwise, at)
        raise NotFound(
            f"{operation.id} does not exist; set it first, or give the patch an `else`",
            id=operation.id,
        )
    if operation.kind == DELETE:
        return Step(operation, DELETE, None, None, before, Entry(0, None, None, False))
    assert operation.data is not None
    change: Patched = patched(before, operation.data, operation.stamp, at)
    return Step(operation, PATCH, change.operations, change.snapshot, before, change.entry)


def _set(operation: Operation, before: Entry, data: bytes | None, at: str) -> Step:
    assert data is not None
    if operation.stamp:
        data = stamped(data, operation.stamp, at)
    size = len(data)
    after = Entry(0, None, None, True, data, snapshot_bytes=size, size_bound=size)
    return Step(operation, SET, data, None, before, after)


def _draw_salts(draft: Draft, job: Job, steps: list[Step], ids: IdSource) -> None:
    """Every new entity gets a salt, in operation order, once for the job."""
    first: dict[str, Entry] = {}
    for step in steps:
        first.setdefault(step.operation.id, step.before)
    new = [id for id, before in first.items() if before.salt is None]
    if not new:
        return
    known = draft.known_salts(new)
    for id in new:
        if id in known:
            job.salts[id] = known[id]
        elif id not in job.salts:
            job.salts[id] = ids.random_bytes(16)


def _facts(draft: Draft, job: Job, branch: int, steps: list[Step]) -> list[FactRow]:
    """Hash the steps into facts and give their entries a version, a hash and a salt."""
    version = draft.version + 1
    facts = []
    for index, step in enumerate(steps):
        operation, before, after = step.operation, step.before, step.after
        quoted_id = operation.quoted_id
        salt = before.salt or job.salts[operation.id]
        parent = before.hash or empty_hash(quoted_id)
        hash = fact_hash(quoted_id, step.op, salt=salt, body=step.body, parent=parent)
        after.version, after.hash, after.salt = version, hash, salt
        facts.append(
            FactRow(
                branch, version, index, operation.id, step.op, hash, parent, salt, step.body,
                step.snapshot,
            )
        )  # fmt: skip
    return facts


def _commit_row(
    draft: Draft, job: Job, branch: BranchRow, facts: list[FactRow], at: int
) -> CommitRow:
    version = draft.version + 1
    hash = commit_hash(
        space=draft.cache.did,
        version=version,
        branch=branch.name,
        previous=draft.hash,
        facts=[fact.hash for fact in facts],
        at=format_time(at),
        author=job.author,
        key=job.key,
        meta=job.meta,
        event=None,
    )
    return CommitRow(
        version, branch.branch, hash, at, job.author, job.key, job.meta, None, job.attempt
    )


def _add(draft: Draft, job: Job, row: CommitRow, facts: list[FactRow], steps: list[Step]) -> None:
    draft.version, draft.hash, draft.at = row.version, row.hash, row.at
    draft.commits.append(row)
    draft.facts.extend(facts)
    touched: dict[str, Entry] = {}
    for fact, step in zip(facts, steps, strict=True):
        key = (fact.branch, fact.id)
        touched[fact.id] = draft.entries[key] = step.after
        earlier = draft.entities.get(key)
        revived = step.before.version > 0 and not step.before.exists
        if earlier is not None:
            revived = revived or earlier.revived
        draft.entities[key] = EntityRow(
            fact.branch, fact.id, fact.version, fact.index, step.after.exists, revived
        )
        assert step.after.salt is not None
        draft.salts[fact.id] = step.after.salt
    for id, entry in touched.items():
        draft.changes.append(Change(row.version, row.branch, id, entry))
    if job.key is not None:
        body = canonical({"payload": job.payload, "version": row.version})
        draft.sides[(KEY, job.key)] = side_record(KEY, job.key, 1, body)
    if job.guard is not None:
        guard = job.guard
        draft.sides[(guard.kind, guard.key)] = side_record(
            guard.kind, guard.key, guard.fence + 1, job.guard_body
        )

"""Planning one commit: validate its reads, apply its operations, hash, and add it to the draft.

Everything is decided before anything is added, so a commit that cannot be made leaves no mark. The
salts of new entities are drawn last, in operation order, when nothing can fail any more.
"""

from msgspec import UNSET, Struct

from rote.contract import Commit, Guard, IdSource
from rote.engines.rows import (
    DELETE,
    PATCH,
    SET,
    BranchRow,
    CommitRow,
    EntityRow,
    FactRow,
)
from rote.errors import Conflict, Corrupt, Denied, InvalidInput, NotFound, PayloadMismatch
from rote.kernel.chain import commit_hash, empty_hash, fact_hash
from rote.kernel.documents import patched, stamped
from rote.kernel.draft import Change, Draft, commit_of
from rote.kernel.entry import Entry
from rote.kernel.job import Job
from rote.kernel.operations import Operation
from rote.kernel.seals import side_record
from rote.kernel.validation import find_conflicts
from rote.values import canonical, decode_canonical, format_time

SALT_BYTES = 16
# Side rows that say which commit a caller's key made.
KEY = "key"


class Step(Struct, frozen=True, gc=False):
    """One operation, applied."""

    operation: Operation
    op: int  # what the fact is: a patch that found nothing became a set
    body: bytes | None
    snapshot: bytes | None  # kept beside a patch
    before: Entry
    after: Entry  # still without version, hash and salt


def plan(draft: Draft, job: Job, *, now: int, ids: IdSource) -> Commit:
    """The commit, added to the draft; or the one this job's key already made."""
    if job.key is not None:
        made = _already_made(draft, job.key, job.payload)
        if made is not None:
            return made
    if job.guard is not None:
        _check_guard(draft, job.guard)
    branch = _writable(draft, job)
    if job.reads:
        conflicts = find_conflicts(draft, job.reads)
        if conflicts:
            raise Conflict(conflicts)
    at = max(now, draft.at)
    steps = _apply(draft, job, at)
    salts = _draw_salts(draft, job, steps, ids)
    facts = _facts(draft, branch.branch, steps, salts)
    row = _commit_row(draft, job, branch, facts, at)
    commit = commit_of(row, facts, previous=draft.hash, branch=job.branch)
    _add(draft, job, row, facts, steps)
    return commit


def _already_made(draft: Draft, key: str, payload: str | None) -> Commit | None:
    row = draft.side(KEY, key)
    if row is None:
        return None
    made = decode_canonical(row.body)
    if type(made) is not dict or made.keys() != {"payload", "version"}:
        raise Corrupt(f"the row of key {key!r} was changed; run `rote verify`")
    version: int = made["version"]
    if made["payload"] != payload:
        raise PayloadMismatch(key, version=version)
    return commit_at(draft, version)


def commit_at(draft: Draft, version: int) -> Commit:
    """A commit of the log, or of this draft."""
    number = draft.cache.number
    rows = draft.reads.commits(number, after=max(version - 2, 0), limit=2) + draft.commits
    by_version = {row.version: row for row in rows}
    row, previous = by_version.get(version), by_version.get(version - 1)
    if row is None:
        raise Corrupt(f"commit {version} is missing; run `rote verify`")
    facts = [fact for fact in draft.facts if fact.version == version]
    if not facts:
        facts = draft.reads.facts(number, after=version - 1, until=version)
    return commit_of(
        row,
        facts,
        previous=None if previous is None else previous.hash,
        branch=draft.cache.branches.name(row.branch),
    )


def _check_guard(draft: Draft, guard: Guard) -> None:
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


def _apply(draft: Draft, job: Job, at: int) -> list[Step]:
    """The operations in order, each on what those before it left."""
    current = draft.look_up(job.branch, {operation.id for operation in job.operations})
    steps = []
    for operation in job.operations:
        id, before = operation.id, current[operation.id]
        if operation.kind == SET:
            step = _set(operation, before, operation.data, at)
        elif before.exists:
            step = _change(operation, before, at)
        elif operation.otherwise is not None:
            step = _set(operation, before, operation.otherwise, at)
        else:
            advice = "there is nothing to delete" if operation.kind == DELETE else "set it first"
            raise NotFound(f"{id} does not exist; {advice}", id=id)
        current[id] = step.after
        steps.append(step)
    return steps


def _set(operation: Operation, before: Entry, data: bytes | None, at: int) -> Step:
    assert data is not None
    if operation.stamp:
        data = stamped(data, operation.stamp, at)
    size = len(data)
    after = Entry(0, None, None, True, data, UNSET, 0, 0, size, size)
    return Step(operation, SET, data, None, before, after)


def _change(operation: Operation, before: Entry, at: int) -> Step:
    if operation.kind == DELETE:
        return Step(operation, DELETE, None, None, before, Entry(0, None, None, False))
    assert operation.data is not None
    change = patched(before, operation.data, operation.stamp, at)
    return Step(operation, PATCH, change.operations, change.snapshot, before, change.entry)


def _draw_salts(draft: Draft, job: Job, steps: list[Step], ids: IdSource) -> dict[str, bytes]:
    """The salts of all entities. A new one is drawn in operation order, once for the job; when the
    job is planned again and others have made the entity meanwhile, theirs counts."""
    salts: dict[str, bytes] = {}
    known: dict[str, bytes] | None = None
    for step in steps:
        id = step.operation.id
        if id in salts:
            continue
        salt = step.before.salt
        if salt is None:
            if known is None:
                known = draft.known_salts({step.operation.id for step in steps})
            salt = known.get(id) or job.salts.get(id)
        if salt is None:
            salt = job.salts[id] = ids.random_bytes(SALT_BYTES)
        salts[id] = salt
    return salts


def _facts(draft: Draft, branch: int, steps: list[Step], salts: dict[str, bytes]) -> list[FactRow]:
    """Hash the steps into facts and give their entries a version, a hash and a salt."""
    version = draft.version + 1
    facts = []
    for index, step in enumerate(steps):
        operation, before, after = step.operation, step.before, step.after
        id, quoted_id, salt = operation.id, operation.quoted_id, salts[operation.id]
        parent = before.hash or empty_hash(quoted_id)
        hash = fact_hash(quoted_id, step.op, salt, step.body, parent)
        after.version, after.hash, after.salt = version, hash, salt
        facts.append(
            FactRow(
                branch, version, index, id, step.op, hash, parent, salt, step.body, step.snapshot
            )
        )
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
    entities, entries = draft.entities, draft.entries
    for fact, step in zip(facts, steps, strict=True):
        key, before, after = (fact.branch, fact.id), step.before, step.after
        revived = not before.exists and before.version > 0
        if key in entities:
            revived = revived or entities[key].revived
        entities[key] = EntityRow(
            fact.branch, fact.id, fact.version, fact.index, after.exists, revived
        )
        entries[key] = after
    for (branch, id), entry in draft.entries.items() if draft.follows else ():
        if branch == row.branch and entry.version == row.version:
            draft.changes.append(Change(row.version, branch, id, entry))
    did = draft.cache.did
    if job.key is not None:
        body = canonical({"payload": job.payload, "version": row.version})
        draft.sides[(KEY, job.key)] = side_record(did, KEY, job.key, 1, body)
    if job.guard is not None:
        guard = job.guard
        draft.sides[(guard.kind, guard.key)] = side_record(
            did, guard.kind, guard.key, guard.fence + 1, job.guard_body
        )

"""Planning one commit: validate its reads, apply its operations, and append it to the draft.

Everything is checked before anything is added, so a commit that is refused leaves the draft as it was.
The salts of new entities are drawn after all checks, in the order of operations.
"""

from collections.abc import Sequence

from msgspec import UNSET

from rote.contract import Commit, Guard, IdSource, OnlyIf
from rote.contract.operations import DELETE, PATCH, SET, Operation
from rote.engines.rows import BranchRow
from rote.errors import Conflict, Denied, NotFound, PayloadMismatch
from rote.kernel.committing.conditions import check_newest, check_unchanged
from rote.kernel.committing.content_checks import check_content
from rote.kernel.committing.documents import patched, stamped
from rote.kernel.committing.drafts import Draft
from rote.kernel.committing.jobs import Job
from rote.kernel.committing.keys import commit_version, stored_commit
from rote.kernel.committing.read_checks import find_conflicts, find_erased
from rote.kernel.committing.schema_checks import check_conformance
from rote.kernel.log.appender import Step
from rote.kernel.log.branches import writable
from rote.kernel.log.chain import OPERATION_NAMES
from rote.kernel.log.commits import commit_of
from rote.kernel.log.entries import Entry
from rote.kernel.log.events import could_have_made
from rote.kernel.log.key_rows import meaning_of
from rote.kernel.log.seals import ATTEMPT, KEY, side_record
from rote.kernel.state.index_coverage import IndexChange
from rote.schemas.registry import REGISTRY_ID, RESERVED_PREFIX
from rote.values import canonical, decode_canonical, format_time

SALT_BYTES = 16


def plan(draft: Draft, job: Job, now: int, ids: IdSource) -> Commit | None:
    """Add the commit of a job to the draft and return it, or return the one that its key or attempt
    made before."""
    if job.key is not None or job.attempt is not None:
        made = _already_made(draft, job)
        if made is not None:
            return made
    if job.condition is not None:
        _check_condition(draft, job.condition, job.branch)
    for guard, _ in job.guards:
        _check_guard(draft, guard)
    at = max(now, draft.at)
    if job.task is not None:
        outcome = job.task.prepare(draft, job)
        if outcome is None:
            return None
        current = _look_up(draft, job) if job.known is None else job.known
        steps = apply_operations(
            draft, job.branch, job.operations, current, at, is_merge=job.known is not None
        )
        commit = _add(draft, job, outcome.branch, steps, at=at, ids=ids, event=outcome.event)
        if outcome.changed is not None:
            draft.branches[outcome.changed.branch] = outcome.changed
        draft.oldest = outcome.oldest
        return commit
    branch = writable(draft.space.branches, job.branch)
    current = _look_up(draft, job)
    if job.reads or job.unerased_since is not None:
        conflicts = find_conflicts(draft, job.reads, branch=job.branch, current=current)
        conflicts += find_erased(draft, job)
        if conflicts:
            raise Conflict(conflicts)
    steps = apply_operations(draft, job.branch, job.operations, current, at)
    blob = None if job.attachment is None else job.attachment.row(draft, at)
    commit = _add(draft, job, branch, steps, at=at, ids=ids)
    if blob is not None and blob.hash is not None:
        draft.blobs[blob.hash] = blob
    return commit


def _check_condition(draft: Draft, condition: OnlyIf | int, branch: str) -> None:
    if isinstance(condition, OnlyIf):
        id = condition.id
        check_newest(condition, draft.look_up(condition.branch, [id])[id])
    else:
        check_unchanged(condition, version=draft.version, branch=branch)


def _already_made(draft: Draft, job: Job) -> Commit | None:
    for kind, name in ((ATTEMPT, job.attempt), (KEY, job.key)):
        row = None if name is None else draft.made_by(kind, name)
        if name is None or row is None:
            continue
        version, made_of = commit_version(row), meaning_of(row)[1]
        made = commit_at(draft, version)
        is_other = made_of is not None or not _could_have_made(draft, job, made)
        if (made_of != job.payload and is_other) or (kind == ATTEMPT and made.key != job.key):
            raise PayloadMismatch(name, version=version, kind=kind)
        return made
    return None


def _could_have_made(draft: Draft, job: Job, commit: Commit) -> bool:
    """Whether a job may be the one that made a commit whose payload digest an erasure has removed.

    The values cannot be compared any more. Compared are the members of the call that the event
    shows, or else the branch and the ids and operations, unless a compaction has removed them.
    """
    if commit.event is None or job.call is None:
        is_plain = commit.event is None and job.call is None
        return is_plain and _could_have_written(draft, job, commit)
    return could_have_made(draft.reads.rows, draft.space.number, commit, job.call)


def _could_have_written(draft: Draft, job: Job, commit: Commit) -> bool:
    if commit.branch != job.branch or commit.version < draft.space.oldest:
        return commit.branch == job.branch
    written = [(fact.id, fact.op) for fact in commit.facts]
    return len(written) == len(job.operations) and all(
        fact in ((operation.id, OPERATION_NAMES[operation.kind]), _set_instead(operation))
        for fact, operation in zip(written, job.operations, strict=True)
    )


def _set_instead(operation: Operation) -> tuple[str, str] | None:
    """Return id and operation of the fact that a patch with `else` makes when it finds nothing."""
    return None if operation.otherwise is None else (operation.id, OPERATION_NAMES[SET])


def commit_at(draft: Draft, version: int) -> Commit:
    """Return a commit of the log or of this draft."""
    drafted = [fact for fact in draft.facts if fact.version == version]
    return stored_commit(draft.reads, version, commits=draft.commits, facts=drafted)


def _check_guard(draft: Draft, guard: Guard) -> None:
    row = draft.side(guard.kind, guard.key)
    actual_fence = 0 if row is None else row.fence
    if actual_fence != guard.fence:
        raise Denied(
            f"{guard.kind} {guard.key!r} was given back or taken over by another owner; nothing was"
            " written",
            kind=guard.kind,
            key=guard.key,
            expected_fence=guard.fence,
            actual_fence=actual_fence,
        )


def _look_up(draft: Draft, job: Job) -> dict[str, Entry]:
    """Return the entries before the commit: those that a job writes, and those it read on its branch."""
    ids = [operation.id for operation in job.operations]
    if job.reads:
        ids += [read.id for read in job.reads if read.id is not None and read.branch == job.branch]
        ids = list(dict.fromkeys(ids))
    # Entities may be assumed to be new only if all operations are sets, none is about schemas, and
    # all reads are of single entities that were never written.
    may_be_new = (
        draft.presumes
        and all(
            operation.kind == SET and not operation.id.startswith(RESERVED_PREFIX)
            for operation in job.operations
        )
        and all(
            read.version == 0 and read.id is not None and read.branch == job.branch
            for read in job.reads
        )
    )
    if not ids:
        return {}
    if not draft.is_ungoverned(job.branch):
        ids.append(REGISTRY_ID)  # together with the others, so that it costs no look of its own
    return draft.look_up(job.branch, ids, may_be_new=may_be_new)


def apply_operations(
    draft: Draft,
    branch: str,
    operations: Sequence[Operation],
    current: dict[str, Entry],
    at: int,
    *,
    is_merge: bool = False,
) -> list[Step]:
    """Return a step for each operation, applied in order; InvalidInput when a schema or a content rule
    refuses the result.

    `current` holds the entries before, and afterwards those after. A patch with `else` that finds
    nothing becomes a set. The steps have no salts yet. A merge carries values that a branch has
    already; those that it makes itself were judged when it was planned.
    """
    if not operations:
        return []  # the commit only records an event
    is_free = draft.is_ungoverned(branch)
    rules = draft.space.wiring.content_rules
    guarded = () if is_merge else draft.space.wiring.guarded
    steps: list[Step] = []
    for operation in operations:
        id, kind, data = operation.id, operation.kind, operation.data
        is_free = is_free and not id.startswith(RESERVED_PREFIX)
        before = current[id]
        if kind != SET:
            if before.exists:
                steps.append(step := _change(operation, before, at))
                current[id] = step[-1]
                if kind == PATCH and id.startswith(guarded):
                    check_content(rules, id, step[-1])
                continue
            if operation.otherwise is None:
                advice = "there is nothing to delete" if kind == DELETE else "set it first"
                raise NotFound(f"{id} does not exist; {advice}", id=id)
            data = operation.otherwise
        assert data is not None
        stamp = operation.stamp_of_set()
        if stamp:
            data = stamped(data, stamp, at)
        size = len(data)
        after = Entry(0, None, None, True, data, UNSET, 0, 0, size, size)
        if id.startswith(guarded):
            check_content(rules, id, after)
        steps.append((id, operation.quoted_id, SET, data, None, before, after))
        current[id] = after
    if not is_free:
        check_conformance(draft, branch, current, [step[0] for step in steps])
    return steps


def _change(operation: Operation, before: Entry, at: int) -> Step:
    id, quoted_id = operation.id, operation.quoted_id
    if operation.kind == DELETE:
        return id, quoted_id, DELETE, None, None, before, Entry.deleted()
    assert operation.data is not None
    change = patched(before, operation.data, operation.stamp, at)
    return id, quoted_id, PATCH, change.operations, change.snapshot, before, change.entry


def _add(
    draft: Draft,
    job: Job,
    branch: BranchRow,
    steps: list[Step],
    *,
    at: int,
    ids: IdSource,
    event: bytes | None = None,
) -> Commit:
    """Append the steps to the draft as one commit."""
    changed = _complete(draft, job, branch, steps, ids)
    previous, version, number = draft.hash, draft.version + 1, branch.branch
    facts = draft.append_facts(branch, version, steps)
    shown_at = format_time(at)
    row = draft.append_commit(
        branch,
        version,
        facts,
        at=at,
        shown_at=shown_at,
        author=job.author,
        key=job.key,
        meta=job.meta,
        event=event,
        attempt=job.token,
    )
    for id, (before, patches) in changed.items():
        after, is_own = draft.entries[(number, id)], before.version > branch.fork_version
        draft.changes.append(IndexChange(version, number, id, after, before, is_own, patches))
    if job.key is not None:
        draft.note_key(job.key, job.payload)
    if job.attempt is not None:
        draft.note_key(job.attempt, job.payload, kind=ATTEMPT)
    for guard, body in job.guards:
        _move_guard(draft, guard, body)
    return commit_of(row, facts, previous=previous, branch=branch.name, at=shown_at)


def _complete(
    draft: Draft, job: Job, branch: BranchRow, steps: list[Step], ids: IdSource
) -> dict[str, tuple[Entry, tuple[bytes, ...] | None]]:
    """Give every step the salt of its entity, a new one for a new entity.

    Drawing a salt may fail, so this comes before anything is appended. Return the entities that
    indexes follow, as the branch showed them before, with their patches if nothing else is done.
    """
    changed: dict[str, tuple[Entry, tuple[bytes, ...] | None]] = {}
    known: dict[str, bytes] | None = None
    followed = draft.followed
    for id, _, kind, data, _, before, after in steps:
        salt = before.salt
        if salt is None:
            if known is None:
                known = draft.known_salts(job.operations)
            # Others may have made the entity before a job is planned again: then their salt is used.
            salt = known.get(id) or job.salts.get(id)
            if salt is None:
                salt = job.salts[id] = ids.random_bytes(SALT_BYTES)
            draft.found_new = True
        after.salt = salt
        if id.startswith(followed):
            first, patches = changed.get(id) or (before, ())
            if patches is not None:
                patches = None if kind != PATCH or data is None else (*patches, data)
            changed[id] = first, patches
    return changed


def _move_guard(draft: Draft, guard: Guard, body: bytes) -> None:
    if guard.drop:
        draft.sides[(guard.kind, guard.key)] = None
        return
    if guard.stamped:
        made = {"version": draft.version, "at": format_time(draft.at)}
        body = canonical({**decode_canonical(body), **made})
    draft.sides[(guard.kind, guard.key)] = side_record(
        draft.did, guard.kind, guard.key, guard.fence + 1, body
    )

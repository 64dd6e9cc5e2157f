"""Merging: one commit applies to a target what a source has changed since the bases.

               base ──────── ours (the target's head)
                  ╲                ╲
                   ╲                merge
                    ╲              ╱
                     ── theirs (the source's head)

An entity that the source has not changed, or that is equal on both sides, stays as it is. One that
only the source has changed becomes theirs. All others are conflicts, which a resolution or a strategy
may settle. The plan is made on one version of the space, without a lock. It is valid until a branch
of the two gets a new commit, or something is erased. Frozen: the event, docs/formats/chain.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from rote.contract import Caller, ContentRule, MergeConflict, MergeResult, Resolution
from rote.contract.commands import Merge
from rote.contract.operations import DELETE, SET, Operation, value_bytes
from rote.errors import Conflict, InvalidInput, ReadConflict
from rote.kernel.branching.merge_bases import NO_BASE, Ground, resolve
from rote.kernel.committing.commits import commit_task
from rote.kernel.committing.content_checks import check_content, content_fault
from rote.kernel.committing.drafts import Draft
from rote.kernel.committing.jobs import Job, Prepared
from rote.kernel.committing.schema_checks import Judge
from rote.kernel.log.branches import Branches, spans, writable
from rote.kernel.log.commit_graph import Point, last_node, merge_bases
from rote.kernel.log.entries import ABSENT, Entry, same, state_of
from rote.kernel.log.events import erased_by
from rote.kernel.log.page_sizes import compared_at_once
from rote.kernel.log.seals import ATTEMPT, KEY
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader
from rote.patch import threeway
from rote.values import (
    Json,
    canonical,
    check_attempt,
    check_branch_name,
    check_entity_id,
    check_key,
)
from rote.values.canonical import quoted
from rote.values.limits import PAGE_MAX

# The version of the empty plan for a key or attempt that was used before: the answer needs no plan.
_NO_PLAN_VERSION = -1

STRATEGIES = ("fail", "ours", "theirs", "latest", "paths")


class MergePlan(Struct, frozen=True):
    """The operations and conflicts of a merge, as of one version of the space."""

    status: str
    version: int
    source_version: int
    bases: tuple[Point, ...]
    operations: list[Operation]
    before: dict[str, Entry]  # the entities on the target before the operations
    conflicts: tuple[MergeConflict, ...]

    @property
    def merged(self) -> tuple[str, ...]:
        return tuple(operation.id for operation in self.operations)


class MergeTask(Struct):
    """Write a merge, planned anew under the lock if its plan is no longer valid."""

    request: Merge
    resolutions: "Resolutions"
    plan: MergePlan

    def prepare(self, draft: Draft, job: Job) -> Prepared | None:
        space, request = draft.space, self.request
        target = writable(space.branches, request.target)
        source = space.branches.find(request.source)
        if draft.version != self.plan.version and _moved(
            draft, self.plan.version, (target.branch, source.branch)
        ):
            self.plan = plan_merge(draft.reads, request, self.resolutions, version=draft.version)
        # Also for a plan that an earlier attempt of this task has made, and that is still valid.
        if self.plan.status != "merged":
            return None
        _check_kept(request, self.plan)
        # A copy for each attempt, because planning the commit writes into it.
        job.operations, job.known = self.plan.operations, dict(self.plan.before)
        event = merge_event(
            space.branches, request.source, self.plan.source_version, self.plan.bases
        )
        return Prepared(target, canonical(event))


def _check_kept(request: Merge, plan: MergePlan) -> None:
    """Raise Conflict when the merge itself would write the entity that its condition names."""
    kept = request.only_if
    if kept is not None and kept.branch == request.target and kept.id in plan.before:
        conflict = ReadConflict.of_entity(
            kept.id, branch=kept.branch, expected_version=kept.version, actual=(plan.version, None)
        )
        raise Conflict((conflict,))


def merge_event(
    branches: Branches, source: str, source_version: int, bases: Sequence[Point]
) -> dict[str, Any]:
    return {
        "type": "merge",
        "source": source,
        "source_version": source_version,
        "bases": [
            {"branch": branches.name(branch), "version": version} for branch, version in bases
        ],
    }


def _moved(draft: Draft, version: int, branches: tuple[int, int]) -> bool:
    """Whether the branches got a commit since a version, or something was erased; true when unsure."""
    if draft.space.oldest > version + 1:
        return True  # the commits since then were compacted away
    rows = draft.reads.rows.commits(draft.space.number, after=version, limit=PAGE_MAX)
    return len(rows) == PAGE_MAX or any(row.branch in branches or erased_by(row) for row in rows)


def merge(space: OpenSpace, request: Merge, caller: Caller) -> MergeResult:
    """Plan a merge, and commit it unless it has conflicts, nothing to merge, or is a dry run."""
    resolutions, reads = check_request(request), space.reader()
    for id, data in resolutions.items():
        if data is not None:
            check_content(space.wiring.content_rules, id, Entry.holding(data))
    reads.sync()
    if _is_made(reads, request):
        plan = MergePlan("merged", _NO_PLAN_VERSION, 0, (), [], {}, ())
    else:
        plan = reads.steadily(
            None,
            lambda version: plan_merge(reads, request, resolutions, version=version),
        )
    if request.dry_run and plan.status == "merged":
        _check_conformance(reads, request.target, plan)
    if request.dry_run or plan.status != "merged":
        return MergeResult(plan.status, None, plan.merged, plan.conflicts)
    task, call = MergeTask(request, resolutions, plan), _payload(request, resolutions)
    made = commit_task(space, task, request.target, request, call=call, caller=caller)
    if made is None:
        # The branches have moved, and the new plan writes nothing.
        return MergeResult(task.plan.status, None, (), task.plan.conflicts)
    return MergeResult("merged", made, tuple(fact.id for fact in made.facts), ())


def _check_conformance(reads: SpaceReader, target: str, plan: MergePlan) -> None:
    """Check the values against their schemas, as a commit would; a dry run makes no commit."""
    left = {
        operation.id: ABSENT if operation.data is None else Entry.holding(operation.data)
        for operation in plan.operations
    }
    judge = Judge(lambda ids: reads.entries_at(target, ids, plan.version), left)
    judge.check(list(left))


def _is_made(reads: SpaceReader, request: Merge) -> bool:
    """Whether the key or the attempt of a merge was used before."""
    names = () if request.dry_run else ((KEY, request.key), (ATTEMPT, request.attempt))
    return any(
        name is not None and reads.rows.side(reads.number, kind, name) is not None
        for kind, name in names
    )


# -- the request -----------------------------------------------------------------------------------


Resolutions = Mapping[str, bytes | None]  # canonical values by id; None: delete


def check_request(request: Merge) -> Resolutions:
    """Check the request and return its resolutions."""
    check_branch_name(request.source)
    check_branch_name(request.target)
    if request.key is not None:
        check_key(request.key)
    if request.attempt is not None:
        check_attempt(request.attempt)
    if request.on_conflict not in STRATEGIES:
        raise InvalidInput(
            f"on_conflict is one of {', '.join(STRATEGIES)}, not {request.on_conflict!r:.80}"
        )
    if not isinstance(request.resolutions, dict):
        raise InvalidInput("resolutions must be a dictionary from ids to values or rote.DELETE")
    resolutions: dict[str, bytes | None] = {}
    for id, value in request.resolutions.items():
        check_entity_id(id)
        resolutions[id] = None if value is Resolution.DELETE else value_bytes(value)
    return resolutions


def _payload(request: Merge, resolutions: Resolutions) -> dict[str, Json]:
    """Return the payload that a key of this call stands for."""
    return {
        "name": "merge",
        "branch": request.target,
        "source": request.source,
        "on_conflict": request.on_conflict,
        "resolutions": {
            id: None if data is None else data.decode() for id, data in resolutions.items()
        },
    }


# -- the plan --------------------------------------------------------------------------------------


def plan_merge(
    reads: SpaceReader,
    request: Merge,
    resolutions: Resolutions,
    *,
    version: int,
) -> MergePlan:
    """Return the plan of the merge as of a version at or below `reads.space.known`."""
    branches, graph = reads.space.branches, reads.graph()
    rules = reads.space.wiring.content_rules
    target = writable(branches, request.target)
    source = branches.find(request.source)
    ground = Ground(graph, reads.rows, reads.number, branches)
    theirs = last_node(graph, reads.rows, reads.number, branches, (source.branch, version))
    ours = last_node(graph, reads.rows, reads.number, branches, (target.branch, version))
    if theirs is None:
        return MergePlan("nothing", version, 0, (), [], {}, ())
    bases = merge_bases(
        graph,
        reads.rows,
        reads.number,
        branches,
        left=[] if ours is None else [ours],
        right=[theirs],
    )
    if bases == [theirs]:
        return MergePlan("nothing", version, theirs[1], tuple(bases), [], {}, ())
    operations: list[Operation] = []
    before: dict[str, Entry] = {}
    conflicts: list[MergeConflict] = []
    at_once = compared_at_once(reads.space.engine)
    seen: set[str] = set()
    for id, base, one, other in _candidates(ground, bases, ours, theirs, at_once):
        if same(one, other) or (base is not NO_BASE and same(other, base)):
            continue
        if base is not NO_BASE and same(one, base):
            settled: Entry | None = other
        else:
            seen.add(id)
            if id in resolutions:
                data = resolutions[id]
                settled = ABSENT if data is None else Entry.holding(data)
            else:
                settled = _settle(request, rules, id, (base, one, other))
        if settled is None:
            conflicts.append(_conflict(id, base, one, other))
        elif not same(settled, one):
            operations.append(_operation(id, settled))
            before[id] = one
    strangers = sorted(resolutions.keys() - seen)
    if strangers:
        raise InvalidInput(
            f"there is no conflict about {strangers[0]} to resolve; leave it out", id=strangers[0]
        )
    if conflicts:
        return MergePlan("conflict", version, theirs[1], tuple(bases), [], {}, tuple(conflicts))
    return MergePlan("merged", version, theirs[1], tuple(bases), operations, before, ())


def _candidates(
    ground: Ground, bases: Sequence[Point], ours: Point | None, theirs: Point, at_once: int
) -> Iterator[tuple[str, Entry, Entry, Entry]]:
    """Yield (id, base, ours, theirs) of every entity that the source may have changed, in id order."""
    line = ground.branches.line_of(*theirs)
    others = [ground.branches.line_of(*base) for base in bases] or [()]
    found = {
        id for other in others for id in ground.reads.written(ground.space, spans(line, other))
    }
    ids = sorted(found)
    for start in range(0, len(ids), at_once):
        page = ids[start : start + at_once]
        one = {} if ours is None else ground.entries(ours, page)
        base = _base_entries(ground, bases, ours, one, page)
        other = ground.entries(theirs, page)
        for id in page:
            yield id, base[id], one.get(id, ABSENT), other.get(id, ABSENT)


def _base_entries(
    ground: Ground,
    bases: Sequence[Point],
    ours: Point | None,
    one: dict[str, Entry],
    ids: list[str],
) -> dict[str, Entry]:
    """Return the base of each id.

    When the only base is on the target's own line, an entity that the target has not written since
    is its own base, and `one` already holds it.
    """
    if len(bases) != 1 or ours is None:
        return resolve(ground, bases, ids)
    branch, version = bases[0]
    if dict(ground.branches.line_of(*ours)).get(branch, 0) < version:
        return resolve(ground, bases, ids)
    same_as_now = {id: one.get(id, ABSENT) for id in ids if one.get(id, ABSENT).version <= version}
    written = [id for id in ids if id not in same_as_now]
    return same_as_now | resolve(ground, bases, written) if written else same_as_now


def _settle(
    request: Merge,
    rules: Sequence[ContentRule],
    id: str,
    sides: tuple[Entry, Entry, Entry],
) -> Entry | None:
    """Return the entry that a strategy gives the target for a conflict; None when it stays one."""
    strategy, (base, ours, theirs) = request.on_conflict, sides
    if strategy == "ours":
        return ours
    if strategy == "theirs":
        return theirs
    if strategy == "latest":
        return ours if ours.version > theirs.version else theirs
    if strategy == "paths" and ours.exists and theirs.exists:
        return _merged_by_path(rules, id, base, ours, theirs)
    return None


def _merged_by_path(
    rules: Sequence[ContentRule], id: str, base: Entry, ours: Entry, theirs: Entry
) -> Entry | None:
    """Return both changes in one value; None when they meet, or give what the entity may not hold."""
    one, other = ours.shared_document(), theirs.shared_document()
    for rule in rules:
        if id.startswith(rule.prefix):
            old = base.shared_document() if base.exists else None
            one, other = rule.reconciled(old, one, other, has_base=base is not NO_BASE)
    merged = threeway.merge(base.shared_document() if base.exists else threeway.MISSING, one, other)
    if merged is None:
        return None
    entry = Entry.holding(value_bytes(merged.value))
    return entry if content_fault(rules, id, entry) is None else None


def _operation(id: str, entry: Entry) -> Operation:
    if entry.exists:
        return Operation(SET, id, quoted(id), entry.canonical_value())
    return Operation(DELETE, id, quoted(id))


def _conflict(id: str, base: Entry, ours: Entry, theirs: Entry) -> MergeConflict:
    return MergeConflict(id, state_of(id, base), state_of(id, ours), state_of(id, theirs))

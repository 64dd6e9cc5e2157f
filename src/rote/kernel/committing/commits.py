"""Handlers that make commits: of operations, and of tasks."""

from collections.abc import Sequence

from msgspec import structs

from rote.contract import Caller, Commit
from rote.contract.commands import MakeCommit
from rote.contract.operations import SET, Operation
from rote.errors import InvalidInput
from rote.kernel.committing.committer import Committer
from rote.kernel.committing.jobs import Task, TaskCommand, job_of, task_job
from rote.kernel.committing.rechecks import commit_with_answers
from rote.kernel.state.open_space import OpenSpace
from rote.values import Json


def make_commit(space: OpenSpace, command: MakeCommit, caller: Caller) -> Commit:
    if command.bodies is not True and command.bodies is not False:
        raise InvalidInput("bodies is true or false", argument="bodies")
    if command.answers:
        job, commit = commit_with_answers(space, command, caller)
    else:
        job = job_of(command, caller, space.wiring.tokens.token())
        commit = space.part(Committer).commit(job)
    return commit if command.bodies else _without_bodies(commit, job.operations)


def _without_bodies(commit: Commit, operations: Sequence[Operation]) -> Commit:
    """Return a commit without the data that its sender has: that of sets, exactly as they were sent."""
    sent = [operation.data if operation.kind == SET else None for operation in operations]
    # A commit that was made before may have lost its facts to a compaction, and their data to an
    # erasure.
    facts = [
        structs.replace(fact, data=None)
        if fact.index < len(sent) and fact.op == "set" and fact.data == sent[fact.index]
        else fact
        for fact in commit.facts
    ]
    return structs.replace(commit, facts=tuple(facts))


def commit_task(
    space: OpenSpace,
    task: Task,
    branch: str,
    command: TaskCommand,
    *,
    call: dict[str, Json],
    caller: Caller,
) -> Commit | None:
    """Make the commit of a task, unless it finds nothing to commit. Key and attempt stand for `call`."""
    token = space.wiring.tokens.token()
    job = task_job(branch, task, command, call=call, caller=caller, token=token)
    return space.part(Committer).run(job)

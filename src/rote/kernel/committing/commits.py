"""Handlers that make commits: of operations, and of tasks."""

from rote.contract import Caller, Commit
from rote.contract.commands import MakeCommit
from rote.kernel.committing.committer import Committer
from rote.kernel.committing.jobs import Task, TaskCommand, job_of, task_job
from rote.kernel.committing.rechecks import commit_with_answers
from rote.kernel.state.open_space import OpenSpace
from rote.values import Json


def make_commit(space: OpenSpace, command: MakeCommit, caller: Caller) -> Commit:
    if command.answers:
        return commit_with_answers(space, command, caller)
    job = job_of(command, caller, space.wiring.tokens.token())
    return space.part(Committer).commit(job)


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

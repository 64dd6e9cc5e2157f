"""Commits that rely on answers to questions about many entities. The answers must still be the same.

Other writers need not wait for the check. The commit carries reads: nothing was written, since the
answer was last right, in the ranges of ids that can change it. When such a read conflicts, the
question is asked again at the newest version, and the commit is tried again. After
ANSWER_ROUNDS_MAX rounds the question is asked under the lock, while other writers wait.

contract.Questions, given when the store is wired, asks the questions again.
"""

from dataclasses import replace
from typing import Any

from msgspec import Struct, structs

from rote.contract import AnswerRead, Caller, Commit
from rote.contract.commands import MakeCommit
from rote.contract.reads import parse_reads
from rote.engines import Contended
from rote.errors import Conflict, ReadConflict, RoteError, Unavailable
from rote.kernel.committing.committer import Committer
from rote.kernel.committing.drafts import Draft
from rote.kernel.committing.jobs import Job, Prepared, check_structs, job_of
from rote.kernel.committing.read_checks import find_conflicts, find_erased
from rote.kernel.log.branches import writable
from rote.kernel.state.open_space import OpenSpace
from rote.values.limits import ANSWER_ROUNDS_MAX
from rote.values.ranges import IdRange, holds_ids


def commit_with_answers(
    space: OpenSpace, command: MakeCommit, caller: Caller
) -> tuple[Job, Commit]:
    token, committer = space.wiring.tokens.token(), space.part(Committer)
    answers = _Answers(space, command)
    plain = command.reads or ()  # null reads are none
    for _ in range(ANSWER_ROUNDS_MAX):
        reads = [*plain, *answers.reads()]
        job = job_of(structs.replace(command, reads=reads), caller, token)
        try:
            return job, committer.commit(job)
        except Conflict as conflict:
            answers.look_again(conflict)
    job = job_of(command, caller, token)
    job.task = _Recheck(answers)
    return job, committer.commit(job)


class _Asked(Struct):
    """An answer, and the newest version at which it was checked and right."""

    read: AnswerRead
    version: int


class _Answers:
    """The answers that a commit relies on, over all its attempts."""

    def __init__(self, space: OpenSpace, command: MakeCommit) -> None:
        check_structs(command.answers, AnswerRead, "answers")
        parse_reads(command.reads, command.branch)
        self._space = space
        self._asked = [_Asked(read, read.version) for read in command.answers]
        self._plain = {
            (read.get("branch"), read["from"], read.get("to"))
            for read in command.reads or ()
            if "from" in read
        }
        if command.unchanged_since is not None:
            self._plain.add((command.branch, "", None))

    def reads(self) -> list[dict[str, Any]]:
        """Return reads of the ranges that can change an answer, each since the answer was last right."""
        return [
            {"from": start, "to": end, "version": asked.version, "branch": branch}
            for asked in self._asked
            for branch, start, end in filter(holds_ids, asked.read.ranges)
        ]

    def look_again(self, conflict: Conflict) -> None:
        """Ask again, at the newest version, the questions whose ranges conflict.

        Raise Conflict when an answer is different, or when another read of the commit conflicts.
        """
        disturbed = {(each.branch, each.start, each.end): each for each in conflict.conflicts}
        version = self._space.reader().resolve(None)
        changed = dict.fromkeys(each for each in conflict.conflicts if self._is_final(each))
        for asked in self._asked:
            found = [disturbed[each] for each in asked.read.ranges if each in disturbed]
            if not found:
                continue
            if self._digest(asked, version) == asked.read.digest:
                asked.version = version
            else:
                base = asked.read.version
                changed.update({replace(each, expected_version=base): None for each in found})
        if changed:
            raise Conflict(tuple(changed)) from None

    def changed_at(self, version: int) -> list[ReadConflict]:
        """Return conflicts for each answer that is different at a version."""
        return [
            _conflict(asked.read, each, version)
            for asked in self._asked
            if self._digest(asked, version) != asked.read.digest
            for each in asked.read.ranges
        ]

    def _is_final(self, conflict: ReadConflict) -> bool:
        """Whether a conflict is about a read of the command itself, which cannot be asked again."""
        range = (conflict.branch, conflict.start, conflict.end)
        return conflict.id is not None or range in self._plain

    def _digest(self, asked: _Asked, version: int) -> str | None:
        wiring, read = self._space.wiring, asked.read
        try:
            return wiring.questions.digest(wiring.port(), self._space.did, read, version)
        except Unavailable:
            raise
        except RoteError:
            return None  # an error is a different answer


class _Recheck(Struct):
    """Ask the questions once more under the lock.

    The task is alone in its draft, so the newest version is in the store and can be asked.
    """

    answers: _Answers

    def prepare(self, draft: Draft, job: Job) -> Prepared:
        if not draft.locked:
            raise Contended()
        branch = writable(draft.space.branches, job.branch)
        ids = [read.id for read in job.reads if read.id is not None and read.branch == job.branch]
        current = draft.look_up(job.branch, list(dict.fromkeys(ids)))
        conflicts = find_conflicts(draft, job.reads, branch=job.branch, current=current)
        conflicts += find_erased(draft, job)
        conflicts += tuple(self.answers.changed_at(draft.version))
        if conflicts:
            raise Conflict(conflicts)
        return Prepared(branch)


def _conflict(read: AnswerRead, range: IdRange, version: int) -> ReadConflict:
    branch, start, end = range
    return ReadConflict.of_range(
        start, end, branch=branch, expected_version=read.version, actual=(version, None)
    )

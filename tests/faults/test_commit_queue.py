"""Commits that wait together do not fail by each other."""

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any, cast

import pytest

import rote
from rote.contract import Commit, Guard
from rote.contract.commands import MakeCommit
from rote.errors import Corrupt, InvalidInput
from rote.kernel.committing import commits, jobs
from rote.kernel.committing.commit_queue import CommitQueue, Group
from rote.kernel.committing.committer import Committer
from rote.kernel.keeping.compactions import _told_here
from rote.values.limits import GROUP_MAX
from tests.faults.interruptions import interrupt_before
from tests.faults.test_threads import IDS, LIMIT_SECONDS, NAME, line_on, wait_until

# The steps of a thread that leads, in their order.
STEPS: list[Callable[..., object]] = [
    CommitQueue.join,
    Group.__init__,
    Committer._answer_all,
    Committer._answer_next,
    Committer._write,
    Committer._plan,
    Group.grow,
    Committer._append,
    Committer._answer,
    CommitQueue.hand_back,
    CommitQueue._dismiss,
]


def test_a_commit_that_no_check_foresaw_fails_alone(store_path: Path) -> None:
    """Jobs that waited with it were once told of its TypeError, or that nothing was written."""
    with line_on(store_path) as (line, _):
        port, did = line.space._port, line.space.did
        operation = {"op": "set", "id": IDS[1], "value": 1}
        job_of = jobs.job_of

        def unforeseen(command: MakeCommit, *more: Any) -> Any:
            job = job_of(command, *more)
            if command.meta == "unforeseen":
                job.branch = cast(Any, [])
            return job

        with pytest.MonkeyPatch.context() as patches:
            patches.setattr(commits, "job_of", unforeseen)
            calls = [
                partial(line.space.set, IDS[0], 1),
                partial(port.answer, did, MakeCommit([operation], meta="unforeseen")),
                partial(line.space.set, IDS[2], 1),
            ]
            first, bad, last = line.run(*calls)
        assert isinstance(bad.exception(), Corrupt)
        assert {first.result().version, last.result().version} == {2, 3}


@pytest.mark.parametrize(
    "more", [{"branch": []}, {"unerased_since": [1]}, {"guards": [Guard("n", "k", 1, 1, True)]}]
)
def test_arguments_of_a_commit_are_checked_before_it_waits(
    store_path: Path, more: dict[str, Any]
) -> None:
    with rote.open(store_path) as store:
        space = store.space(NAME)
        command = MakeCommit([{"op": "set", "id": IDS[0], "value": 1}], **more)
        with pytest.raises(InvalidInput):
            space._port.answer(space.did, command)
        assert space.version == 0


def test_progress_of_a_compaction_is_told_on_its_own_thread_alone() -> None:
    """Another thread may lead the queue; what the caller's function raised came out of its set."""
    told = list[int]()
    tell = _told_here(lambda what, done, total: told.append(done))
    tell("keeping", 1, 2)
    with ThreadPoolExecutor(1) as other:
        other.submit(tell, "keeping", 2, 2).result()
    assert told == [1]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_an_interruption_before_any_step_of_a_commit_holds_nobody_up(
    store_path: Path, step: FunctionType
) -> None:
    with rote.open(store_path) as store:
        space = store.space(NAME)
        space.set(IDS[0], 0)
        interrupt_before(step.__code__, KeyboardInterrupt())
        try:
            with pytest.raises(KeyboardInterrupt):
                space.set(IDS[0], 1)
        finally:
            sys.settrace(None)
        version = space.version
        other = threading.Thread(target=space.set, args=(IDS[1], 2), daemon=True)
        other.start()
        other.join(LIMIT_SECONDS / 4)
        assert space.get(IDS[1]) == 2
        assert space.get(IDS[0]) == version - 1  # its commit is there, or nothing of it
        assert space.verify().ok


@pytest.mark.parametrize("step", STEPS[-2:], ids=lambda step: step.__name__)
def test_followers_of_a_leader_interrupted_while_it_hands_answers_back_get_their_commits(
    store_path: Path, step: FunctionType
) -> None:
    with line_on(store_path) as (line, _):

        def leader() -> Commit:
            interrupt_before(step.__code__, KeyboardInterrupt())
            return line.space.set(IDS[0], 1)

        lead, *followers = line.run(leader, *[partial(line.space.set, id, 1) for id in IDS[1:4]])
        assert isinstance(lead.exception(), KeyboardInterrupt)
        assert [future.result() for future in followers] == list(line.space.log())[2:]


class InterruptedLock:
    """A lock that is interrupted while a thread waits for it the first time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._error: BaseException | None = KeyboardInterrupt()

    def acquire(self, timeout: float) -> bool:
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._lock.acquire(timeout=timeout)

    def release(self) -> None:
        self._lock.release()


def test_a_follower_that_is_interrupted_while_it_waits_is_told_so_after_its_commit(
    store_path: Path,
) -> None:
    with line_on(store_path) as (line, _):

        def interrupt_then_set() -> Commit:
            follower = line.queue.waiting[1]
            with line.queue.mutex:
                signal, follower.signal = follower.signal, cast(Any, InterruptedLock())
            assert signal is not None
            signal.release()
            wait_until(lambda: follower.interruption is not None)
            return line.space.set(IDS[2], 1)

        calls = [partial(line.space.set, IDS[0], 1), partial(line.space.set, IDS[1], 1)]
        lead, follower, last = line.run(*calls, interrupt_then_set)
        assert isinstance(follower.exception(), KeyboardInterrupt)
        assert line.space.get(IDS[1]) == 1
        assert {lead.result().version, last.result().version} == {2, 4}


def test_a_group_takes_no_more_jobs_than_one_transaction_may_hold() -> None:
    queue = CommitQueue()
    waiting = [jobs.Job("main", [], [], None, None, None, (), None, None, b"") for _ in range(3)]
    group = queue.join(waiting[0])
    assert group is not None
    group.grow()
    assert group.jobs == waiting[:1]
    queue.waiting.extend(waiting[1:] * GROUP_MAX)
    group.grow()
    group.grow()
    assert group.jobs == group.taken == list(queue.waiting)[:GROUP_MAX]

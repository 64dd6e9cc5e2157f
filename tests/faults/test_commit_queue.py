"""Commits that wait together do not fail by each other."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

import rote
from rote.contract import Guard
from rote.contract.commands import MakeCommit
from rote.errors import InternalError, InvalidInput
from rote.kernel.committing import commits, jobs
from rote.kernel.keeping.compactions import _told_here
from tests.faults.test_threads import IDS, NAME, line_on


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
        assert isinstance(bad.exception(), InternalError)
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

"""kill -9 of processes that make, write, merge and delete branches of one space.

A worker prints each call before it makes it, and the answer after it. After a kill, every answered
call is there, and repeating the call that was in progress settles it. In the end the model follows
the log, merge by merge, and the branches are as the model says.
"""

import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

import rote
from rote.contract import Branch
from rote.testing.faults import ChildProcess
from rote.testing.merge_model import Merging
from rote.testing.model import SpaceModel
from rote.testing.postgres import database_url
from tests.faults.branch_children import IDS, Call, operations, perform
from tests.faults.children import NAME
from tests.faults.test_kills import AHEAD_BYTES
from tests.lanes import examples

ROOT = Path(__file__).parents[2]
PLACES: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: str(folder / "memory.db"),
    "postgres": database_url,
}
WORKERS = 3
STORES = examples(1, 6)
KILLS_PER_STORE = examples(2, 8)


class Workers:
    """Processes on one store; each is replaced when it was killed."""

    def __init__(self, url: str, children: contextlib.ExitStack) -> None:
        self._url = url
        self._children = children
        self._runs = 0
        self.made: dict[str, int] = {}  # versions by key, as they were answered
        self.working = [self._start() for _ in range(WORKERS)]

    def _start(self) -> ChildProcess:
        self._runs += 1
        module, worker = "tests.faults.branch_children", f"worker-{self._runs}"
        argv = [sys.executable, "-m", module, "work", self._url, worker]
        child = ChildProcess(argv, cwd=ROOT, timeout_seconds=300, ahead_bytes=AHEAD_BYTES)
        return self._children.enter_context(child)

    def kill(self, index: int, delay_seconds: float) -> Call | None:
        """Kill one in the middle of its work; return the call that was in progress, if any."""
        child = self.working[index]
        child.read_until(len(child.acknowledged) + 4)
        child.read_for(delay_seconds)
        call = self._end(child)
        self.working[index] = self._start()
        return call

    def end(self) -> list[Call]:
        """Kill all at once."""
        calls = [self._end(child) for child in self.working]
        return [call for call in calls if call is not None]

    def _end(self, child: ChildProcess) -> Call | None:
        call: Call | None = None
        for line in child.kill():
            kind, rest = line.split(" ", maxsplit=1)
            if kind == "call":
                what, key, branch, other = json.loads(rest)
                call = what, key, branch, other
            else:
                version, key = rest.split()
                self.made[key] = int(version)
                call = None
        return call


def settle(space: rote.Space, call: Call) -> None:
    """Repeat a call; if it had been made, the answer is its commit."""
    there = [commit.version for commit in space.log() if commit.key == call[1]]
    version = perform(space, call)
    assert len(there) <= 1
    assert not there or there == [version]
    if version:
        assert perform(space, call) == version


def check(space: rote.Space, made: dict[str, int]) -> None:
    """Check that nothing is lost, nothing is there unasked, and the chain is whole."""
    log = list(space.log())
    assert [commit.version for commit in log] == list(range(1, len(log) + 1))
    versions = {commit.key: commit.version for commit in log}
    assert len(versions) == len(log), "a key made two commits"
    for key, version in made.items():
        assert versions.get(key, 0) == version, f"lost, or made and not told: {key}"
    report = space.verify()
    assert report.ok, report.faults


def follow(space: rote.Space) -> SpaceModel:
    """Return the model after everything in the log, and check each commit on the way."""
    model = SpaceModel()
    merging = Merging(model)
    for commit in space.log():
        assert commit.key is not None
        what, now, event = commit.key.rsplit("/", maxsplit=1)[1], commit.at, commit.event or {}
        if what == "write":
            model.transact(operations(commit.key), now=now, branch=commit.branch)
        elif what == "delete":
            model.delete_branch(commit.branch, now=now)
        elif what == "create":
            parent, at = event["parent"], event["fork_version"]
            model.create_branch(event["name"], parent=parent, at=at, now=now)
        else:
            source = event["source"]
            merging.merge(source, commit.branch, on_conflict=what, resolutions={}, now=now)
        expected = model.commits[-1]
        assert expected.version == commit.version, f"not what {what} would do: {commit}"
        assert (expected.branch, expected.event) == (commit.branch, commit.event)
        assert [(fact.id, fact.op, fact.body) for fact in expected.facts] == [
            (fact.id, fact.op, fact.body) for fact in commit.facts
        ]
    return model


def check_branches(space: rote.Space, model: SpaceModel) -> None:
    """Check that the rows of branches and the states on them agree with the log."""
    heads = {commit.branch: commit.version for commit in model.commits}
    assert space.branches() == [
        Branch(
            name, row.parent, row.fork_version, row.created_version, heads.get(name, 0),
            row.deleted_version is not None,
        )
        for name, row in model.branches.items()
    ]  # fmt: skip
    for name in model.branches:
        for id in IDS:
            read, expected = space.on(name).read(id), model.read(id, branch=name)
            assert (read.exists, read.version) == (expected.exists, expected.version)
            assert read.value == expected.value


@pytest.mark.parametrize("place", PLACES)
def test_killed_processes_leave_branches_and_merges_whole(place: str, tmp_path: Path) -> None:
    random = Random(3)
    for number in range(STORES):
        folder = tmp_path / str(number)
        folder.mkdir()
        url = PLACES[place](folder)
        with contextlib.ExitStack() as children:
            with rote.open(url) as store:
                space = store.space(NAME)
                perform(space, ("write", "begin/write", "main", "main"))
                workers = Workers(url, children)
                for _ in range(KILLS_PER_STORE):
                    call = workers.kill(random.randrange(WORKERS), random.uniform(0, 0.02))
                    check(space, workers.made)
                    if call is not None:
                        settle(space, call)
            calls = workers.end()
        with rote.open(url) as store:
            space = store.space(NAME)
            check(space, workers.made)
            for call in calls:
                settle(space, call)
            check_branches(space, follow(space))
            assert space.verify().ok

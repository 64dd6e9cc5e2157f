"""kill -9 of writers and readers, several processes on one file.

A writer prints the version and key of each commit that was acknowledged to it. After each kill,
while the others go on, every printed commit is there, none is there in part, and the chain is
whole. Repeating the key settles the commit that was in progress when its writer died.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import rote
from rote.testing.faults import ChildProcess
from tests.faults.children import LEFT, NAME, RIGHT, key_of, operations
from tests.faults.pages import wrong_pages
from tests.lanes import examples

ROOT = Path(__file__).parents[2]
# Of output: without a bound, writers on a fast disk make more commits than can be checked.
AHEAD_BYTES = 4_096
STORES = examples(1, 30)
KILLS_PER_STORE = examples(5, 10)


class Crowd:
    """Two writers and a reader on one store; each is replaced when it was killed."""

    def __init__(self, path: Path, children: contextlib.ExitStack) -> None:
        self.path = path
        self.acknowledged: list[str] = []
        self._children = children
        self._runs = 0
        self.writers = [self._start_writer(), self._start_writer()]
        self.reader = self._start("read")

    def _start(self, *arguments: str) -> ChildProcess:
        what, *rest = arguments
        argv = [sys.executable, "-m", "tests.faults.children", what, str(self.path), *rest]
        child = ChildProcess(argv, cwd=ROOT, timeout_seconds=300, ahead_bytes=AHEAD_BYTES)
        return self._children.enter_context(child)

    def _start_writer(self) -> tuple[str, ChildProcess]:
        self._runs += 1
        name = f"writer-{self._runs}"
        return name, self._start("write", name)

    def kill_writer(self, index: int, delay_seconds: float) -> tuple[str, int]:
        """Kill a writer in the middle of its work; return its name and its number of commits."""
        name, child = self.writers[index]
        child.read_until(len(child.acknowledged) + 3)
        child.read_for(delay_seconds)
        lines = child.kill()
        self.acknowledged += lines
        self.writers[index] = self._start_writer()
        return name, len(lines)

    def kill_reader(self, delay_seconds: float) -> None:
        self.reader.read_until(1)
        self.reader.read_for(delay_seconds)
        self.reader.kill()
        self.reader = self._start("read")

    def end(self) -> None:
        """Kill all at once."""
        self.reader.kill()
        for _, child in self.writers:
            self.acknowledged += child.kill()


@contextlib.contextmanager
def crowd_on(path: Path) -> Iterator[tuple[Crowd, rote.Space]]:
    with contextlib.ExitStack() as children, rote.open(path) as store:
        space = store.space(NAME)
        yield Crowd(path, children), space


def check(space: rote.Space, acknowledged: list[str]) -> None:
    """Check that nothing is lost, nothing is there in part, and the chain is whole."""
    log = {commit.version: commit for commit in space.log()}
    assert list(log) == list(range(1, len(log) + 1))
    for line in acknowledged:
        version, key = line.split()
        assert int(version) in log, f"lost: {line}"
        assert log[int(version)].key == key
    keys = [commit.key for commit in log.values()]
    assert len(keys) == len(set(keys)), "a key made two commits"
    for commit in log.values():
        assert commit.key is not None
        writer, number = commit.key.split("/")
        sent = [operation["id"] for operation in operations(writer, int(number))]
        assert [fact.id for fact in commit.facts] == sent, f"in part: {commit}"
        assert commit.facts[0].body == commit.facts[1].body
    now = space.at(len(log))
    assert now.get(LEFT) == now.get(RIGHT)
    report = space.verify()
    assert report.ok, report.faults


def settle(space: rote.Space, writer: str, finished: int) -> bool:
    """Repeat the key of the commit that was in progress; return whether it was there already."""
    key, sent = key_of(writer, finished + 1), operations(writer, finished + 1)
    before = space.version
    there = [commit for commit in space.log() if commit.key == key]
    assert len(there) <= 1
    settled = space.transact(sent, key=key)
    if there:
        assert (settled.version, settled.hash) == (there[0].version, there[0].hash)
    else:
        assert settled.version > before
    assert space.transact(sent, key=key).hash == settled.hash
    # No later one can be there: a writer makes one commit at a time.
    assert not [c for c in space.log() if c.key == key_of(writer, finished + 2)]
    return bool(there)


def test_killed_processes_lose_nothing_and_leave_nothing_in_part(tmp_path: Path) -> None:
    random = Random(2)
    for number in range(STORES):
        with crowd_on(tmp_path / f"{number}.db") as (crowd, space):
            for _ in range(KILLS_PER_STORE):
                victim, delay_seconds = random.randrange(5), random.uniform(0, 0.02)
                if victim == 4:
                    crowd.kill_reader(delay_seconds)
                else:
                    writer, finished = crowd.kill_writer(victim % 2, delay_seconds)
                    settle(space, writer, finished)
                check(space, crowd.acknowledged)
            crowd.end()
            check(space, crowd.acknowledged)
        assert wrong_pages(tmp_path / f"{number}.db") == []


def test_a_store_whose_every_process_was_killed_opens_again(tmp_path: Path) -> None:
    for seed in range(examples(1, 20)):
        path = tmp_path / f"{seed}.db"
        with contextlib.ExitStack() as children:
            crowd = Crowd(path, children)
            for _, child in crowd.writers:
                child.read_until(2)
            crowd.writers[0][1].read_for(Random(seed).uniform(0, 0.02))
            crowd.end()
        with rote.open(path) as store:
            check(store.space(NAME), crowd.acknowledged)
            store.space(NAME).transact(operations("after", 1), key=key_of("after", 1))
            check(store.space(NAME), crowd.acknowledged)
        assert wrong_pages(path) == []

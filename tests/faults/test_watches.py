"""Watches while other processes write and are killed: no gap, nothing twice."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from rote.space import Space
from rote.testing.frames import Folded
from rote.testing.postgres import schema_of, server_url
from rote.testing.query_graphs import Graphs
from tests.faults.children import NAME, open_store
from tests.faults.persistence import place_of
from tests.faults.postgres_rig import ROOT
from tests.faults.test_processes import run_together
from tests.lanes import examples

COMMITS = examples(40, 400)
WATCHERS = examples(4, 12)
KILLS = examples(2, 20)
# Seconds: longer than any machine needs to deliver what is due.
SOON = 60.0


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "memory.db")
    return place_of(server_url(), tmp_path, schema=schema_of(tmp_path))


def child_argv(place: str, seed: int, commits: int, erasures: float = 0) -> list[str]:
    command = [sys.executable, "-m", "tests.faults.watch_children", place]
    return [*command, str(seed), str(commits), str(erasures)]


class Watching(threading.Thread):
    """A watcher that takes in frames, stops for a while at times, and begins again."""

    def __init__(self, space: Space, seed: int, *, erasures: bool) -> None:
        super().__init__()
        self.erasures = erasures
        self.graphs = Graphs(seed)
        self.space = space
        self.query = {**self.graphs.query(), "select": {"*": {"schema": True}, "urn:e:1": {}}}
        self.folded = Folded()
        self.failure: BaseException | None = None
        self.rest = threading.Event()  # never set: a wait that only pauses
        self.over = threading.Event()

    def run(self) -> None:
        try:
            since = None
            while not self.over.is_set():
                # A watch that is left and continued from where it was.
                frames = self.space.watch(self.query, since=since, timeout=0.1)
                for frame in frames:
                    self.take(frame)
                    since = frame["to"]
                    if self.graphs.chance(0.2):
                        self.rest.wait(0.1)
                    if self.graphs.chance(0.2):
                        break
            for frame in self.space.watch(self.query, since=since, timeout=0):
                self.take(frame)
        except BaseException as error:
            self.failure = error

    def take(self, frame: dict[str, Any]) -> None:
        self.folded.take(frame)
        if self.erasures:
            return  # the past may have changed by now
        assert self.folded.facts == self.space.at(frame["to"]).query(self.query)["facts"]


def watch_while(space: Space, work: Any, *, erasures: bool = False) -> None:
    watching = [Watching(space, seed, erasures=erasures) for seed in range(WATCHERS)]
    for thread in watching:
        thread.start()
    try:
        work()
    finally:
        for thread in watching:
            thread.over.set()
        for thread in watching:
            thread.join(SOON)
    for thread in watching:
        assert not thread.is_alive()
        if thread.failure is not None:
            raise thread.failure
        assert thread.folded.version == space.version
        assert thread.folded.facts == space.query(thread.query)["facts"]


def test_watches_see_what_two_processes_write(place: str) -> None:
    with open_store(place) as store:
        space = store.space(NAME)
        argvs = [child_argv(place, seed, COMMITS) for seed in (1, 2)]
        watch_while(space, lambda: run_together(argvs))
        assert space.version > COMMITS


def test_watches_end_with_what_two_processes_leave_that_write_and_erase(place: str) -> None:
    with open_store(place) as store:
        space = store.space(NAME)
        argvs = [child_argv(place, seed, COMMITS // 2, erasures=0.15) for seed in (1, 2)]
        watch_while(space, lambda: run_together(argvs), erasures=True)
        assert space.verify().erased


def test_watches_outlive_writers_that_are_killed(place: str) -> None:
    with open_store(place) as store:
        space = store.space(NAME)
        watch_while(space, lambda: kill_some(place))
        assert space.version >= KILLS
        assert space.verify().ok


def kill_some(place: str) -> None:
    for seed in range(KILLS):
        kill_one(place, seed)


def kill_one(place: str, seed: int) -> None:
    with subprocess.Popen(
        child_argv(place, seed, 0),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("go\n")
        process.stdin.flush()
        for _ in range(5):
            assert process.stdout.readline()
        process.kill()

"""kill -9 of runs and of processes that recover them, at every step and at random moments; and
owners that stop for longer than their lease and then go on.

Afterwards each run was applied once and whole or not at all, and the ledger tells which; with it the message
that it puts, and the acknowledgement of the one that it took. Every answer that a process got is true.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

import rote
from rote.contract.commands import ListSides
from rote.testing.faults import ChildProcess
from rote.testing.postgres import database_url
from tests.faults.children import LEFT, NAME, RIGHT
from tests.faults.run_children import (
    IN,
    LEASE_SECONDS,
    MODES,
    OUT,
    POINTS_AT_WORK,
    POINTS_RECOVERING,
    port_of,
)
from tests.lanes import examples

ROOT = Path(__file__).parents[2]
PLACES: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: str(folder / "memory.db"),
    "postgres": database_url,
}
ROUNDS = examples(1, 20)
# The final states of a run whose process was killed at a point.
APPLIED, DISCARDED, NOTHING = "commit_applied", "discarded", "nothing"
AFTERWARDS = {
    "lease:before": NOTHING,
    "lease:after": NOTHING,
    "open:before": NOTHING,
    "open:after": DISCARDED,
    "pending:before": DISCARDED,
    "pending:after": APPLIED,
    "apply:before": APPLIED,
    "apply:after": APPLIED,
    "abort:before": "storage_apply_failed",
    "abort:after": "validation_failed",
    "discard:before": DISCARDED,
    "discard:after": DISCARDED,
    "end:before": DISCARDED,
    "end:after": APPLIED,
}


@pytest.fixture(params=PLACES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return PLACES[request.param](tmp_path)


class Processes:
    """Processes that are forked from one that has everything loaded."""

    def __init__(self) -> None:
        argv = [sys.executable, "-m", "tests.faults.run_children", "serve"]
        self._process = subprocess.Popen(
            argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def kill_at(self, point: str, what: str, url: str, run_id: str) -> None:
        """Let a process be killed at a point."""
        self._start("kill", what, url, run_id, point)
        code = self._line()
        assert code == str(-signal.SIGKILL), f"{what} never came to {point}: {code}"

    def stop_at(self, point: str, what: str, url: str, run_id: str) -> int:
        """Let a process stop at a point; return its number."""
        self._start("stop", what, url, run_id, point)
        word, number = self._line().split()
        assert word == "stopped"
        return int(number)

    def go_on(self, number: int) -> str:
        """Let a stopped process go on; return its output at its end."""
        os.kill(number, signal.SIGCONT)
        return self._line()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()

    def _start(self, *words: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    started = Processes()
    yield started
    started.close()


def open_store(url: str) -> rote.Store:
    return rote.open(url, modes=MODES, lease_seconds=LEASE_SECONDS)


def recover_all(store: rote.Store) -> None:
    """Recover until every run has ended; leases run out meanwhile."""
    waiting = threading.Event()
    for _ in range(6_000):
        store.recover()
        if all(record.ended_at is not None for record in store.runs()):
            return
        waiting.wait(0.005)
    raise AssertionError(f"never ended: {store.runs()}")


def outcome_of(store: rote.Store, run_id: str) -> str:
    record = next((each for each in store.runs() if each.run_id == run_id), None)
    if record is None:
        return NOTHING
    if record.discarded:
        assert (record.state, record.version) == ("buffer_open", None)
        return DISCARDED
    return record.reason_code or record.state


def check_whole(store: rote.Store) -> dict[str, int]:
    """Check that every applied run is one commit with both entities, and no other run has one;
    return versions by run id."""
    space = store.space(NAME)
    keyed = {commit.key: commit for commit in space.log() if commit.key is not None}
    runs = {f"rote:run:{record.commit_id}": record for record in store.runs()}
    assert keyed.keys() <= runs.keys()
    versions: dict[str, int] = {}
    for key, record in runs.items():
        commit = keyed.get(key)
        if commit is None:
            assert record.version is None, f"lost: {record}"
            continue
        assert (record.state, record.version) == (APPLIED, commit.version)
        pair = {fact.id: fact.body for fact in commit.facts if fact.id in (LEFT, RIGHT)}
        assert pair == {LEFT: record.run_id, RIGHT: record.run_id}, "in part"
        moved = [
            (fact.op, fact.id.partition("/")[0].partition("-")[0])
            for fact in commit.facts
            if fact.id.startswith("queue:")
        ]
        assert moved == [("set", f"queue:{OUT}"), ("delete", f"queue:{IN}")], "in part"
        versions[record.run_id] = commit.version
    applied = [commit for commit in space.log() if commit.facts and commit.facts[0].id == LEFT]
    assert len(applied) == len(versions), "twice"
    check_messages(store, versions)
    assert space.get(LEFT) == space.get(RIGHT)
    report = space.verify()
    assert report.ok, report.faults
    return versions


def check_messages(store: rote.Store, versions: dict[str, int]) -> None:
    """Check that applied runs have each acknowledged a message of their own, and put one."""
    space = store.space(NAME)
    facts = [fact for commit in space.log() for fact in commit.facts]
    acked = [fact.id for fact in facts if fact.op == "delete" and fact.id.startswith("queue:")]
    assert len(acked) == len(set(acked)) == len(versions)
    handed_on = [state.value["payload"] for state in space.scan(f"queue:{OUT}/")]
    assert sorted(handed_on) == sorted(versions)
    rows = port_of(store).answer(space.did, ListSides("message", "", 1_000)).rows
    assert not {f"queue:{row.key.partition('@')[0]}" for row in rows} & set(acked)


def test_a_run_that_is_killed_at_any_step_is_applied_once_or_not_at_all(
    url: str, processes: Processes
) -> None:
    assert AFTERWARDS.keys() == set(POINTS_AT_WORK)
    with open_store(url) as store:
        store.space(NAME)
        for number in range(ROUNDS):
            for point in POINTS_AT_WORK:
                run_id = f"{point.replace(':', '-')}-{number}"
                processes.kill_at(point, "run", url, run_id)
                recover_all(store)
                assert outcome_of(store, run_id) == AFTERWARDS[point], point
                has_written = AFTERWARDS[point] == APPLIED and not point.startswith("end")
                assert (run_id in check_whole(store)) == has_written


def test_a_recovery_that_is_killed_at_any_step_is_done_by_the_next(
    url: str, processes: Processes
) -> None:
    with open_store(url) as store:
        store.space(NAME)
        for number in range(ROUNDS):
            for point in POINTS_RECOVERING:
                run_id = f"{point.replace(':', '-')}-{number}"
                processes.kill_at("pending:after", "run", url, run_id)
                processes.kill_at(point, "recover", url, run_id)
                recover_all(store)
                assert outcome_of(store, run_id) == APPLIED, point
                assert run_id in check_whole(store)


def test_an_owner_that_stops_past_its_lease_and_goes_on_applies_nothing_twice(
    url: str, processes: Processes
) -> None:
    with open_store(url) as store:
        store.space(NAME)
        for number in range(ROUNDS):
            for point in ("pending:before", "pending:after", "apply:before"):
                run_id = f"{point.replace(':', '-')}-{number}"
                owner = processes.stop_at(point, "run", url, run_id)
                recover_all(store)
                before = check_whole(store)
                told = processes.go_on(owner)
                assert check_whole(store) == before
                if point == "pending:before":
                    assert (before.get(run_id), told) == (None, "ended RunAborted")
                else:
                    assert told == f"ended commit_applied {before[run_id]}"


def test_a_recovery_that_stops_past_its_lease_and_goes_on_applies_nothing_twice(
    url: str, processes: Processes
) -> None:
    with open_store(url) as store:
        store.space(NAME)
        for number in range(ROUNDS):
            for point in ("claim:after", "take:before", "take:after", "apply:before"):
                run_id = f"{point.replace(':', '-')}-{number}"
                processes.kill_at("pending:after", "run", url, run_id)
                worker = processes.stop_at(point, "recover", url, run_id)
                recover_all(store)
                before = check_whole(store)
                told = processes.go_on(worker)
                assert check_whole(store) == before
                assert run_id in before
                # The process that was about to apply it finds it applied; the others leave it alone.
                is_found = point == "apply:before"
                found = f"ended commit_applied {before[run_id]}" if is_found else "ended"
                assert told == found


def test_runs_that_are_killed_at_random_moments_leave_everything_whole(url: str) -> None:
    random = Random(7)
    told: dict[str, str] = {}
    with open_store(url) as store:
        store.space(NAME)
        for number in range(examples(1, 30)):
            with contextlib.ExitStack() as stack:
                children = [
                    stack.enter_context(
                        ChildProcess(
                            [
                                sys.executable, "-m", "tests.faults.run_children", "work", url,
                                f"{name}-{number}",
                            ],
                            cwd=ROOT,
                        )
                    )
                    for name in ("one", "other")
                ]  # fmt: skip
                for child in children:
                    child.read_until(10)
                children[0].read_for(random.uniform(0, 0.02))
                lines = [line for child in children for line in child.kill()]
            for line in lines:
                kind, run_id, *rest = line.split()
                if kind != "begin":
                    told[run_id] = " ".join([kind, *rest])
            recover_all(store)
            versions = check_whole(store)
            for run_id, what in told.items():
                is_applied = what.startswith("applied")
                assert (run_id in versions) == is_applied, f"{run_id} was told {what}"
                assert not is_applied or what == f"applied {versions[run_id]}"
    assert any(what.startswith("applied") for what in told.values())

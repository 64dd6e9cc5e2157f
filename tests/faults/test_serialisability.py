"""Histories that real clients recorded, side by side, are those of some serial order.

With the read check switched off, the same clients get histories that no serial order explains, and
the checker reports that. Otherwise these tests would show nothing.
"""

import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

import rote
from rote.kernel.committing import plans
from rote.testing.faults import ChildProcess
from rote.testing.postgres import database_url
from rote.testing.serial import Record, Recorder, Recording, check, decode_record
from tests.faults.children import NAME, transact
from tests.faults.test_processes import ROOT, child_argv, run_together
from tests.lanes import examples

# The place of a store of this test alone, by its URL. Another kind of store joins with an entry here.
PLACES: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: str(folder / "memory.db"),
    "postgres": database_url,
}

THREADS = 6
PROCESSES = examples(3, 8)
TIMES = examples(40, 400)
WAIT_SECONDS_MAX = 30
LEFT, RIGHT = "urn:entity:left", "urn:entity:right"


@pytest.fixture(params=PLACES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return PLACES[request.param](tmp_path)


def look_at_the_end(url: str) -> list[Record]:
    """Return the state of everything after all clients have their answers."""
    with rote.open(url) as store:
        last = Recorder(store.space(NAME), "the end")
        last.run(lambda tx: tx.scan("urn:"))
    return last.records


def count_of(records: list[Record], outcome: str) -> int:
    return len({str(record) for record in records if record.outcome == outcome})


def run_threads(store: rote.Store, work: Callable[[Recorder, int], None]) -> list[Record]:
    """Run each client in a thread; return the records of all."""
    recorders = [Recorder(store.space(NAME), f"thread {number}") for number in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as threads:
        running = [
            threads.submit(work, recorder, number) for number, recorder in enumerate(recorders)
        ]
        for thread in running:
            thread.result()
    return [record for recorder in recorders for record in recorder.records]


def test_threads_get_what_a_serial_order_explains(url: str) -> None:
    def work(recorder: Recorder, number: int) -> None:
        random = Random(number)
        for _ in range(TIMES):
            recorder.run(lambda tx: transact(tx, random))

    with rote.open(url, durability="os") as store:
        records = run_threads(store, work)
    assert check([*records, *look_at_the_end(url)]) == ()
    assert count_of(records, "committed") > TIMES


def test_processes_get_what_a_serial_order_explains(url: str) -> None:
    argvs = [child_argv("record", url, f"process {n}", str(TIMES)) for n in range(PROCESSES)]
    outputs = run_together(argvs)
    records = [decode_record(line) for output in outputs for line in output.splitlines()]
    assert check([*records, *look_at_the_end(url)]) == ()
    assert count_of(records, "committed") > TIMES
    # Without any, the processes would not have met and nothing would have been shown.
    assert count_of(records, "failed") > 0


def test_what_killed_processes_left_behind_has_a_serial_order_too(url: str) -> None:
    """A client announces its commit before it makes it, so every value that others see has a known writer."""
    records: list[Record] = []
    for number in range(examples(4, 40)):
        names = [f"one {number}", f"other {number}"]
        with contextlib.ExitStack() as stack:
            children = [
                stack.enter_context(
                    ChildProcess(child_argv("record", url, name, str(10**9)), cwd=ROOT)
                )
                for name in names
            ]
            for child in children:
                child.read_until(20)
            children[0].read_for(Random(number).uniform(0, 0.01))
            for child in children:
                _, *lines = child.kill()  # after "ready"
                records += [decode_record(line) for line in lines]
    assert count_of(records, "committed") > 0
    assert check([*records, *look_at_the_end(url)]) == ()


# -- runs ------------------------------------------------------------------------------------------


def run_runs(store: rote.Store, times: int) -> list[Record]:
    """Run each agent in a thread; its runs read and scan, and write what others have read."""
    space = store.space(NAME)

    def begin() -> rote.Run:
        return space.run(workflow_id="w", model=None, policy_set_id="p", mode="buffered_write")

    recorders = [Recorder(space, f"agent {n}", begin=begin) for n in range(THREADS)]

    def work(number: int) -> None:
        random = Random(number)
        for _ in range(times):
            recorders[number].run(lambda tx: transact(tx, random))

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(work, range(THREADS)))
    return [record for recorder in recorders for record in recorder.records]


def test_runs_get_what_a_serial_order_explains(url: str) -> None:
    times = examples(10, 200)
    with rote.open(url, durability="os", modes=("buffered_write",)) as store:
        records = run_runs(store, times)
        assert store.space(NAME).verify().ok
    assert check([*records, *look_at_the_end(url)]) == ()
    assert count_of(records, "committed") > times
    assert count_of(records, "failed") > 0


def test_runs_without_the_read_check_do_not(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "find_conflicts", lambda draft, reads, **more: ())
    with rote.open(url, durability="os", modes=("buffered_write",)) as store:
        records = run_runs(store, examples(10, 50))
    assert check([*records, *look_at_the_end(url)])


# -- with the read check switched off --------------------------------------------------------------


def overlapping(store: rote.Store, written: Sequence[str]) -> list[Record]:
    """Let all read, wait until everybody has read, and write: every commit that is not refused does harm."""
    meeting = threading.Barrier(THREADS)

    def work(recorder: Recorder, number: int) -> None:
        def read_and_write(tx: Recording) -> None:
            tx.read(LEFT)
            tx.read(RIGHT)
            meeting.wait(WAIT_SECONDS_MAX)
            tx.write(written[number % len(written)])

        recorder.run(read_and_write)

    return run_threads(store, work)


@pytest.mark.parametrize("written", [[LEFT], [LEFT, RIGHT]])
def test_transactions_that_overlap_on_purpose_are_stopped(url: str, written: list[str]) -> None:
    with rote.open(url, durability="os") as store:
        records = overlapping(store, written)
    assert count_of(records, "committed") == 1
    assert check([*records, *look_at_the_end(url)]) == ()


@pytest.mark.parametrize("written", [[LEFT], [LEFT, RIGHT]])
def test_without_the_read_check_the_checker_finds_what_went_wrong(
    url: str, monkeypatch: pytest.MonkeyPatch, written: list[str]
) -> None:
    monkeypatch.setattr(plans, "find_conflicts", lambda draft, reads, **more: ())
    with rote.open(url, durability="os") as store:
        records = overlapping(store, written)
    assert count_of(records, "committed") == THREADS
    assert "lost update" in {anomaly.kind for anomaly in check(records)}


def test_without_the_read_check_write_skew_is_found_by_its_name(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "find_conflicts", lambda draft, reads, **more: ())
    with rote.open(url, durability="os") as store:
        space = store.space(NAME)
        one, other = Recorder(space, "one"), Recorder(space, "other")

        def outer(tx: Recording) -> None:
            tx.scan("urn:entity:right")
            other.run(lambda theirs: [theirs.read(LEFT), theirs.write(RIGHT)])
            tx.write(LEFT)

        one.run(outer)
    assert [a.kind for a in check([*one.records, *other.records])] == ["write skew"]

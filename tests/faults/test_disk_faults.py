"""Disk faults in a commit: an error, half a write, a full disk, or a power cut, at every operation.

After any of them, and in all that a power cut can then leave (see rig.py):

- each commit is there whole or not at all, and the log verifies,
- every commit that was acknowledged is there,
- no commit is there whose caller was told that nothing was written.
"""

import contextlib
import itertools
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rote
from rote.errors import RoteError, Unavailable
from rote.testing.faults import FAULT_KINDS, Fault, FaultDisk, FaultKind, Keep, every_fault
from tests.faults.rig import (
    FILE,
    NAME,
    SEED,
    SMALL,
    Make,
    Rig,
    deletion,
    first_commits,
    large_patch,
    many_pages,
    pair,
    small_patch,
)
from tests.lanes import examples

# The faults after which a disk goes on.
FAILURES = tuple(kind for kind in FAULT_KINDS if kind != "power_cut")
COMMITS: tuple[Make, ...] = (pair, small_patch, large_patch, deletion, many_pages)
KEEPS: tuple[Keep, ...] = ("none", "some", "all")
WRITERS = 4

Step = Callable[[Rig], None]


def committing(make: Make) -> Step:
    return lambda rig: rig.commit(make)


def emptied_before(step: Step) -> Step:
    """Return the step on a log that begins anew."""

    def run(rig: Rig) -> None:
        rig.empty_log()
        step(rig)

    return run


def sign(rig: Rig) -> None:
    rig.space.checkpoint()


def erase(rig: Rig) -> None:
    rig.space.erase(SMALL, reason="asked to")


def compact(rig: Rig) -> None:
    rig.space.compact(before=4)


def close(rig: Rig) -> None:
    rig.close()


# The steps that are faulted.
STEPS: dict[str, Step] = {
    **{f"a commit: {make.__name__}": committing(make) for make in COMMITS},
    "a checkpoint of the log": Rig.empty_log,
    "a checkpoint of the log and a commit": emptied_before(committing(pair)),
    "a signed checkpoint": sign,
    "an erasure": erase,
    "a compaction": compact,
    "a close": close,
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a closed store with a few commits."""
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "disk").mkdir()
    with rote.open(folder / "disk" / FILE, durability="os", key=SEED) as store:
        first_commits(store.space(NAME))
    return folder


@contextlib.contextmanager
def rig_on(prepared: Path, work: Path) -> Iterator[Rig]:
    """Yield the prepared store on a disk of its own, with one commit in the log, two connections open."""
    shutil.rmtree(work / "disk", ignore_errors=True)
    shutil.copytree(prepared, work, dirs_exist_ok=True)
    with FaultDisk(work / "disk") as disk:
        rig = Rig(disk, work)
        try:
            rig.open()
            rig.commit()
            yield rig
        finally:
            rig.abandon()


def count_operations(prepared: Path, work: Path, step: Step) -> int:
    with rig_on(prepared, work) as rig:
        rig.disk.arm()
        step(rig)
        rig.disk.disarm()
        rig.check_images()
        return rig.disk.operations


@contextlib.contextmanager
def faulted(prepared: Path, work: Path, step: Step, fault: Fault) -> Iterator[Rig]:
    """Yield after the step with the fault in it, which may raise only errors of Rote."""
    with rig_on(prepared, work) as rig:
        rig.disk.arm(fault)
        with contextlib.suppress(Unavailable):
            step(rig)
        assert rig.disk.fired, f"{fault} did not happen"
        rig.disk.disarm()
        yield rig


def faults_of(name: str, operations: int, kind: FaultKind) -> Iterator[Fault]:
    """Yield a fault at every operation. In the quick lane each operation has a power cut and one of
    the failures, and the steps that rewrite the file have a few of them."""
    is_long = STEPS[name] in (erase, compact)
    quick = 8 if is_long else 1 if kind == "power_cut" else len(FAILURES)
    first = 0 if kind == "power_cut" else examples(FAILURES.index(kind), 0)
    return itertools.islice(every_fault(operations, (kind,)), first, None, examples(quick, 1))


@pytest.mark.parametrize("name", STEPS)
def test_a_power_cut_at_any_operation_loses_nothing_acknowledged(
    prepared: Path, tmp_path: Path, name: str
) -> None:
    operations = count_operations(prepared, tmp_path, STEPS[name])
    assert operations > 1
    for fault in faults_of(name, operations, "power_cut"):
        with faulted(prepared, tmp_path, STEPS[name], fault) as rig:
            rig.check_images()


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("kind", FAILURES)
def test_after_a_failed_operation_nothing_is_lost_and_the_store_works_on(
    prepared: Path, tmp_path: Path, name: str, kind: FaultKind
) -> None:
    for fault in faults_of(name, count_operations(prepared, tmp_path, STEPS[name]), kind):
        with faulted(prepared, tmp_path, STEPS[name], fault) as rig:
            rig.check_images()
            rig.work_on()
            rig.check_space(rig.space)
            rig.check_image("none")
            rig.close()
            assert rig.connections() == []
            rig.check_image("none")


def test_a_compaction_that_was_made_is_not_told_as_failed(prepared: Path, tmp_path: Path) -> None:
    """The disk fails while the compaction gives room back, for which a full disk has too little."""
    operations = count_operations(prepared, tmp_path, compact)
    outcomes = set()
    for fault in faults_of("a compaction", operations, "error"):
        with rig_on(prepared, tmp_path) as rig:
            before = rig.space.version
            rig.disk.arm(fault)
            try:
                compact(rig)
                is_told = True
            except Unavailable:
                is_told = False
            rig.disk.disarm()
            assert (rig.space.version > before) == is_told, fault
            outcomes.add(is_told)
    assert outcomes == {True, False}


@pytest.mark.parametrize("kind", FAILURES)
def test_a_key_that_is_repeated_after_a_failure_makes_one_commit(
    prepared: Path, tmp_path: Path, kind: FaultKind
) -> None:
    step = committing(small_patch)
    for fault in every_fault(count_operations(prepared, tmp_path, step), (kind,)):
        with faulted(prepared, tmp_path, step, fault) as rig:
            key = list(rig.sent)[-1]
            rig.work_on(key)
            rig.work_on(key)
            assert rig.acknowledged[key].version == rig.space.version
            rig.check_images()


def test_a_key_that_is_repeated_after_a_power_cut_makes_one_commit(
    prepared: Path, tmp_path: Path
) -> None:
    step = committing(pair)
    for fault in every_fault(count_operations(prepared, tmp_path, step), ("power_cut",)):
        with faulted(prepared, tmp_path, step, fault) as rig:
            key = list(rig.sent)[-1]
            for keep in KEEPS:
                back = rig.disk.image(tmp_path / f"{fault.at}-{keep}", keep=keep, seed=fault.at)
                with rote.open(back / FILE) as store:
                    space = store.space(NAME)
                    assert space.transact(rig.sent[key], key=key).version == 7
                    assert rig.check_space(space) == 7


def test_a_commit_that_a_power_cut_interrupts_is_sometimes_there(
    prepared: Path, tmp_path: Path
) -> None:
    """Otherwise the images would prove little: all of them would be the state before."""
    step = committing(pair)
    found = []
    for fault in every_fault(count_operations(prepared, tmp_path, step), ("power_cut",)):
        with faulted(prepared, tmp_path, step, fault) as rig:
            found.append(rig.check_images())
    assert found[0] == {6}
    assert found[-1] == {6, 7}


def test_a_failure_is_told_as_nothing_written_or_as_unknown(prepared: Path, tmp_path: Path) -> None:
    """A disk that fails once is settled; one that stays full leaves the outcome unknown."""
    step = committing(pair)
    operations = count_operations(prepared, tmp_path, step)
    with faulted(prepared, tmp_path, step, Fault("error", operations)) as rig:
        assert rig.refused and not rig.unknown
    with faulted(prepared, tmp_path, step, Fault("disk_full", operations)) as rig:
        assert rig.unknown and not rig.refused


@pytest.mark.parametrize("kind", FAILURES)
def test_a_restart_after_a_failure_loses_nothing(
    prepared: Path, tmp_path: Path, kind: FaultKind
) -> None:
    """A sync failed, so Linux forgot the pages, and the process ended. The next one found the
    frames in the page cache, took them for committed and wrote behind them. Its syncs were good,
    but the log had a hole: a power cut lost everything behind it."""
    step = committing(pair)
    for fault in every_fault(count_operations(prepared, tmp_path, step), (kind,)):
        with faulted(prepared, tmp_path, step, fault) as rig:
            rig.disk.arm(Fault("disk_full", 1))  # the writes at the end of the process
            rig.abandon()
            rig.disk.disarm()
            rig.open()
            rig.commit()
            rig.check_images()


# -- a new store -----------------------------------------------------------------------------------


def begin(rig: Rig) -> None:
    """Make a file, its tables, a space and a first commit."""
    rig.open()
    rig.commit()


@contextlib.contextmanager
def new_rig(work: Path) -> Iterator[Rig]:
    shutil.rmtree(work / "disk", ignore_errors=True)
    (work / "disk").mkdir()
    with FaultDisk(work / "disk") as disk:
        rig = Rig(disk, work)
        try:
            yield rig
        finally:
            rig.abandon()


@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_the_beginning_of_a_store_stands_every_fault(tmp_path: Path, kind: FaultKind) -> None:
    with new_rig(tmp_path) as rig:
        rig.disk.arm()
        begin(rig)
        operations = rig.disk.operations
    first = examples(FAULT_KINDS.index(kind), 0)
    for fault in itertools.islice(
        every_fault(operations, (kind,)), first, None, examples(len(FAULT_KINDS), 1)
    ):
        with new_rig(tmp_path) as rig:
            rig.disk.arm(fault)
            with contextlib.suppress(Unavailable):
                begin(rig)
            assert rig.disk.fired
            rig.disk.disarm()
            rig.check_images()
            if kind != "power_cut":
                with contextlib.suppress(RoteError):
                    rig.close()
                begin(rig)
                rig.check_images()


# -- many threads ----------------------------------------------------------------------------------


def commit_together(rig: Rig) -> list[BaseException]:
    """Commit from several threads at once; return the errors that no caller should see."""
    surprises: list[BaseException] = []
    together = threading.Barrier(WRITERS)

    def write(number: int) -> None:
        together.wait()
        for _ in range(2):
            try:
                rig.commit(COMMITS[number % 2])
            except Unavailable:
                pass
            except BaseException as error:
                surprises.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return surprises


@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_threads_that_commit_together_are_each_told_the_truth(
    prepared: Path, tmp_path: Path, kind: FaultKind
) -> None:
    for at in itertools.count(examples(1 + FAULT_KINDS.index(kind), 1), examples(4, 1)):
        with rig_on(prepared, tmp_path) as rig:
            rig.disk.arm(Fault(kind, at))
            assert commit_together(rig) == []
            fired = rig.disk.fired
            rig.disk.disarm()
            rig.check_images()
            if not fired:
                assert len(rig.acknowledged) == 2 * WRITERS + 1
                break
            if kind != "power_cut":
                rig.work_on()
                rig.check_image("none")
    assert at > WRITERS


# -- kill -9 ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def restarted(rig: Rig, work: Path) -> Iterator[Rig]:
    """Yield the store as the next process finds it: every write can be read, synced or not."""
    shutil.rmtree(work / "restarted", ignore_errors=True)
    with rig.disk.after_kill(work / "restarted") as disk:
        successor = Rig(disk, work, numbers=rig.numbers)
        successor.sent, successor.acknowledged = dict(rig.sent), dict(rig.acknowledged)
        try:
            successor.open()
            yield successor
        finally:
            successor.abandon()


def test_a_commit_that_is_answered_after_a_kill_is_durable(prepared: Path, tmp_path: Path) -> None:
    """A writer was killed between its last write and its sync. The next process found the commit by
    its key and answered with it from the page cache. A power cut then lost it."""
    step = committing(small_patch)
    found = []
    for fault in every_fault(count_operations(prepared, tmp_path, step), ("power_cut",)):
        with faulted(prepared, tmp_path, step, fault) as rig:
            found.append(rig.check_image("none"))
            with restarted(rig, tmp_path) as successor:
                successor.commit(key=list(rig.sent)[-1])
                assert successor.check_images() == {7}
    # The last kill is that of the story: written, not yet synced.
    assert found[-1] == 6


@contextlib.contextmanager
def answered_for_another(prepared: Path, work: Path, *, sync_off: bool = False) -> Iterator[Rig]:
    """Let another process on the same disk commit without a sync; then ask this one for its key."""
    with rig_on(prepared, work) as rig:
        other = Rig(rig.disk, work, numbers=rig.numbers)
        other.open(durability="os")
        other.commit()
        assert rig.check_image("none") == 6, "the other one did sync"
        rig.disk.sync_off = sync_off
        (key,) = other.sent
        rig.sent[key] = other.sent[key]
        rig.commit(key=key)
        yield rig
        other.close()


def test_a_commit_that_another_made_without_a_sync_is_durable_when_we_answer_for_it(
    prepared: Path, tmp_path: Path
) -> None:
    with answered_for_another(prepared, tmp_path) as rig:
        assert rig.check_images() == {7}


def test_a_commit_on_top_of_one_that_a_killed_writer_left_makes_both_durable(
    prepared: Path, tmp_path: Path
) -> None:
    step = committing(pair)
    last = Fault("power_cut", count_operations(prepared, tmp_path, step))
    with faulted(prepared, tmp_path, step, last) as rig, restarted(rig, tmp_path) as successor:
        assert successor.space.version == 7
        successor.commit()
        assert successor.check_images() == {8}


# -- controls: these tests have teeth --------------------------------------------------------------


def test_a_disk_that_lies_about_its_syncs_is_found_out(prepared: Path, tmp_path: Path) -> None:
    with rig_on(prepared, tmp_path) as rig:
        rig.disk.sync_off = True
        rig.commit()
        with pytest.raises(AssertionError, match="lost"):
            rig.check_images()


def test_an_answer_from_the_page_cache_alone_would_be_found_out(
    prepared: Path, tmp_path: Path
) -> None:
    with (
        answered_for_another(prepared, tmp_path, sync_off=True) as rig,
        pytest.raises(AssertionError, match="lost"),
    ):
        rig.check_images()

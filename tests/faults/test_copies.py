"""Copies that are killed, and copies of a source that someone has changed."""

import contextlib
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

import rote
from rote.contract import Guard
from rote.contract.commands import GetSide, MakeCommit, PutSide
from rote.engines.sqlite import SqliteEngine
from rote.errors import RoteError
from rote.kernel.log import page_sizes
from rote.opening.keys import MemoryKeys
from rote.testing import StoreSettings, open_on
from rote.testing.faults import FAULT_KINDS, ChildProcess, Fault, FaultDisk, FaultKind
from tests.faults.children import LEFT, NAME, key_of, operations
from tests.faults.tampering import Cell, Row, make_sample, open_port, raw, tables
from tests.lanes import examples

ROOT = Path(__file__).parents[2]
COMMITS = examples(300, 2_000)
KILLS = examples(6, 60)
COMMITS_PER_COPY = 20


# -- killed ----------------------------------------------------------------------------------------


def test_a_copy_that_is_killed_again_and_again_goes_on_and_arrives(tmp_path: Path) -> None:
    random = Random(5)
    source_path, target_path = tmp_path / "source.db", tmp_path / "target.db"
    with rote.open(source_path, durability="os") as source:
        space = source.space(NAME)
        for number in range(COMMITS):
            space.transact(operations("writer", number), key=key_of("writer", number))
        log = list(space.log())
        argv = [sys.executable, "-m", "tests.faults.children", "copy"]
        midway = 0
        for _ in range(KILLS):
            with ChildProcess([*argv, str(source_path), str(target_path)], cwd=ROOT) as child:
                child.read_until(3)
                child.read_for(random.uniform(0, 0.01))
                reached = [int(line) for line in child.kill()]
            with rote.open(target_path) as target:
                copy = target.space(NAME)
                assert reached[-1] <= copy.version
                assert list(copy.log()) == log[: copy.version]
                assert copy.verify().ok
                if copy.version == COMMITS:
                    break  # it was faster than its killer
                midway += 1
        assert midway, "killed too late to show anything"
        with rote.open(target_path) as target:
            report = source.copy(NAME, target)
            assert (report.ok, report.head) == (True, space.head)
            assert list(target.space(NAME).log()) == log
            again = target.space(NAME).transact(operations("writer", 7), key=key_of("writer", 7))
            assert again == log[7]


@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_a_copy_onto_a_failing_disk_goes_on_from_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: FaultKind
) -> None:
    monkeypatch.setattr(page_sizes, "PAGE_MAX", 2)
    with rote.open(":memory:") as source:
        space = source.space(NAME)
        for number in range(6):
            space.transact(operations("writer", number), key=key_of("writer", number))
        log, struck = list(space.log()), 0
        for at in range(1, 60, examples(7, 1)):
            folder = tmp_path / str(at)
            image = _copy_onto(source, folder, Fault(kind, at))
            if image is None:
                break  # the copy ended before the fault was due
            struck += 1
            with rote.open(image / "memory.db") as target:
                for copy in target.spaces():
                    assert copy.verify().ok
                    assert list(copy.log()) == log[: copy.version]
                assert source.copy(NAME, target).ok
                assert list(target.space(NAME).log()) == log
        assert struck > 2


def _copy_onto(source: rote.Store, folder: Path, fault: Fault) -> Path | None:
    """Copy onto a disk that fails; return what a power cut then leaves, or None when nothing failed."""
    live = folder / "live"
    live.mkdir(parents=True)
    with FaultDisk(live) as disk:
        engine = SqliteEngine(live / "memory.db", vfs=disk.vfs_name)
        target = open_on(engine, StoreSettings(), keys=MemoryKeys())
        disk.arm(fault)
        with contextlib.suppress(RoteError):
            source.copy(NAME, target)
        struck = disk.struck is not None
        image = disk.image(folder / "after", keep="none")
        disk.disarm()
        with contextlib.suppress(RoteError):
            target.close()
    return image if struck else None


# -- not alone -------------------------------------------------------------------------------------


def test_no_row_of_a_copy_knows_of_a_commit_that_is_not_in_it(tmp_path: Path) -> None:
    """A writer goes on while copies are made. Its side row holds its progress, in the same commit."""
    with rote.open(tmp_path / "source.db", durability="os") as source:
        space, port = source.space(NAME), source._port
        port.answer(space.did, PutSide("run", "r", 0, fence=0))
        copies = examples(40, 400)
        room, stop = threading.Semaphore(0), threading.Event()

        def write() -> int:
            number = 0
            # A fixed number for each copy: the source must not grow with the time that a copy takes.
            while room.acquire() and not stop.is_set():
                number += 1
                guard = Guard("run", "r", number, number)
                operation = {"op": "set", "id": LEFT, "value": number}
                port.answer(space.did, MakeCommit([operation], guards=[guard]))
            return number

        with ThreadPoolExecutor(1) as threads, rote.open(":memory:") as target:
            written = threads.submit(write)
            try:
                for _ in range(copies):
                    room.release(COMMITS_PER_COPY)
                    report = source.copy(NAME, target)
                    assert report.ok
                    copy = target.space(NAME)
                    row = target._port.answer(copy.did, GetSide("run", "r"))
                    assert row is not None
                    assert row.body <= (copy.get(LEFT) or 0) == copy.version == report.version
            finally:
                stop.set()
                room.release()
            assert written.result() > copies, "the writer never met a copy"


def test_two_that_copy_at_once_do_not_harm_each_other(tmp_path: Path) -> None:
    with rote.open(tmp_path / "source.db", durability="os") as source:
        space = source.space(NAME)
        for number in range(COMMITS):
            space.transact(operations("writer", number), key=key_of("writer", number))
        argv = [sys.executable, "-m", "tests.faults.children", "copy"]
        target_path = tmp_path / "target.db"
        argv += [str(tmp_path / "source.db"), str(target_path)]
        with ChildProcess(argv, cwd=ROOT) as one, ChildProcess(argv, cwd=ROOT) as other:
            for child in (one, other):
                child.read_until(5)
            with rote.open(target_path) as target:
                assert source.copy(NAME, target).ok
                assert list(target.space(NAME).log()) == list(space.log())


# -- tampered with ---------------------------------------------------------------------------------


def test_nothing_that_is_changed_in_the_source_gets_into_the_target(tmp_path: Path) -> None:
    """For any cell of any row that travels, the change is found or makes no difference."""
    honest_path, path = tmp_path / "honest.db", tmp_path / "source.db"
    sample = make_sample(honest_path)
    with rote.open(honest_path) as store:
        log = list(store.space("agent").log())
    changes = [
        (row, column, cell)
        for table in ("commits", "facts", "sides", "blobs", "chunks")
        for row in tables(honest_path)[table]
        if row.cells["space"] == 1
        for column, cell in row.cells.items()
    ][:: examples(13, 1)]
    found = 0
    for number, (row, column, cell) in enumerate(changes):
        sample.restore(path)
        if _change(path, row, column, cell):
            found += _copies_nothing_wrong(path, tmp_path / f"{number}.db", log)
    assert found > len(changes) // 2


def _change(path: Path, row: Row, column: str, cell: Cell) -> bool:
    other: Cell = b"\x00" * 32
    if isinstance(cell, int):
        other = cell + 1
    elif isinstance(cell, str):
        other = cell[:-1] + chr(ord(cell[-1]) ^ 1)
    elif isinstance(cell, bytes) and cell:
        other = cell[:-1] + bytes([cell[-1] ^ 1])
    try:
        with raw(path) as connection:
            row.put(connection, column, other)
    except Exception as error:
        # Not every change fits the tables: another row may have that key already.
        assert type(error).__module__.startswith("apsw")
        return False
    return True


MISSING = "it is described and not there"
UNEXPLAINED = "its content is missing, and no erasure explains it"


def _copies_nothing_wrong(path: Path, target_path: Path, log: list[rote.Commit]) -> bool:
    """Whether the copy was refused; either way the target is a beginning of the honest history."""
    port = open_port(path)
    source = rote.Store(port, url="source", local=port)
    refused = False
    with source, rote.open(target_path, durability="os") as target:
        try:
            report = source.copy("agent", target)
            # A blob that the source has lost cannot arrive, and is reported as missing.
            refused = not report.ok
            assert {fault.message for fault in report.verified.faults} <= {MISSING}
        except RoteError:
            refused = True
        for copy in target.spaces():
            # The commit that erased a fact explains its remains when the copy continues.
            erased = copy.version < next(c.version for c in log if (c.event or {}).get("reason"))
            allowed = {MISSING, UNEXPLAINED} if erased else {MISSING}
            assert {fault.message for fault in copy.verify().faults} <= allowed
            copied = list(copy.log())
            assert copied == log[: len(copied)]
            assert refused or copied == log
    return refused

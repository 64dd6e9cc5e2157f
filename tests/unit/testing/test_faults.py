"""The fault tools find faults, and plain SQLite withstands them in the configuration that Rote uses.

The workload is a counter over three tables: transaction n adds one entry and its parts and sets the
head to n. So a file shows whether each transaction is there whole, in part or not at all.
"""

import contextlib
import fcntl
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rote.testing.faults import (
    FAULT_KINDS,
    ChildProcess,
    Fault,
    FaultDisk,
    FaultKind,
    Operation,
    every_fault,
    run_until_killed,
)
from rote.testing.faults.platter import SECTOR_SIZE_BYTES, Inode, Platter, Truncate, Write
from tests.lanes import examples

SCHEMA = """
    CREATE TABLE head (id INTEGER PRIMARY KEY, number INTEGER NOT NULL) STRICT;
    CREATE TABLE entry (number INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
    CREATE TABLE part (
        number INTEGER, position INTEGER, body BLOB, PRIMARY KEY (number, position)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO head VALUES (1, 0);
"""
LOG = "counter.db-wal"
PARTS = 3
SEEDS = examples(2, 40)


def body(number: int) -> bytes:
    return random.Random(number).randbytes(1_500)


class Counter:
    """The workload: a writer and a reader on one file, and the answers to the writer."""

    def __init__(self, disk: FaultDisk, *, synchronous: str = "full") -> None:
        self.disk = disk
        self.synchronous = synchronous
        # The highest number whose COMMIT returned, and the highest that was tried.
        self.acknowledged = self.attempted = 0
        self.open()
        self.writer.execute(SCHEMA)

    def open(self) -> None:
        self.writer, self.reader = self._connect(), self._connect()

    def _connect(self) -> apsw.Connection:
        path = str(self.disk.directory / "counter.db")
        connection = apsw.Connection(path, vfs=self.disk.vfs_name)
        assert connection.pragma("journal_mode", "wal") == "wal"
        assert connection.pragma("locking_mode") == "normal"
        connection.pragma("synchronous", self.synchronous)
        return connection

    def commit(self) -> None:
        number = add_transaction(self.writer, self._attempt)
        self.acknowledged = number

    def _attempt(self, number: int) -> None:
        self.attempted = max(self.attempted, number)

    def commit_and_checkpoint(self) -> None:
        self.writer.wal_autocheckpoint(1)
        self.commit()

    def checkpoint(self) -> None:
        self.writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def close(self) -> None:
        try:
            self.reader.close()
        finally:
            self.writer.close()

    def check_images(self, work: Path) -> set[int]:
        """Check that a power cut leaves every acknowledged transaction, and none in part.

        Return the numbers of transactions that were found, in all the images.
        """
        found = {self._check(self.disk.image(work / "image", keep="none"))}
        found.add(self._check(self.disk.image(work / "image", keep="all")))
        for seed in range(SEEDS):
            found.add(self._check(self.disk.image(work / "image", keep="some", seed=seed)))
        return found

    def check_live(self) -> None:
        """Check the same for the live directory, once every connection is closed."""
        self._check(self.disk.directory)

    def _check(self, directory: Path) -> int:
        try:
            found = whole_transactions(directory / "counter.db")
        except apsw.Error as error:
            raise AssertionError(f"broken: {error!r}") from error
        assert self.acknowledged <= found, f"lost: {found} of {self.acknowledged}"
        assert found <= self.attempted
        if directory != self.disk.directory:
            shutil.rmtree(directory)
        return found


def add_transaction(connection: apsw.Connection, attempt: Callable[[int], None]) -> int:
    try:
        connection.execute("BEGIN IMMEDIATE")
        number = int(connection.execute("SELECT number + 1 FROM head").get)
        attempt(number)
        connection.execute("INSERT INTO entry VALUES (?, ?)", (number, body(number)))
        for position in range(PARTS):
            part = (number, position, body(number)[: 100 * position])
            connection.execute("INSERT INTO part VALUES (?, ?, ?)", part)
        connection.execute("UPDATE head SET number = ?", (number,))
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return number


def whole_transactions(path: Path) -> int:
    """Return the number of transactions in a file; raise AssertionError if one is there in part."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.pragma("synchronous", "off")
        number = int(connection.execute("SELECT number FROM head").get)
        numbers = range(1, number + 1)
        entries = connection.execute("SELECT number, body FROM entry ORDER BY 1").fetchall()
        parts = connection.execute("SELECT * FROM part ORDER BY 1, 2").fetchall()
        assert entries == [(n, body(n)) for n in numbers], "in part"
        assert parts == [(n, p, body(n)[: 100 * p]) for n in numbers for p in range(PARTS)]
        assert connection.pragma("integrity_check") == "ok"
        return number
    finally:
        connection.close()


@contextlib.contextmanager
def counter_on(directory: Path, *, synchronous: str = "full") -> Iterator[Counter]:
    """Yield a counter with two transactions in the database and one more in the log."""
    directory.mkdir()
    with FaultDisk(directory) as disk:
        counter = Counter(disk, synchronous=synchronous)
        try:
            counter.commit()
            counter.commit()
            counter.checkpoint()
            counter.commit()
            yield counter
        finally:
            with contextlib.suppress(apsw.Error):
                counter.close()


Step = Callable[[Counter], None]

# The step that is faulted, and the steps before it.
STEPS: dict[str, tuple[Step | None, Step]] = {
    "a commit": (None, Counter.commit),
    "a commit into an empty log": (Counter.checkpoint, Counter.commit),
    "a commit that checkpoints by itself": (None, Counter.commit_and_checkpoint),
    "a checkpoint": (None, Counter.checkpoint),
    "a close": (None, Counter.close),
}


def count_operations(work: Path, name: str) -> int:
    before, step = STEPS[name]
    with counter_on(work / "unharmed") as counter:
        if before is not None:
            before(counter)
        counter.disk.arm()
        step(counter)
        counter.disk.disarm()
        counter.check_images(work)
        return counter.disk.operations


@contextlib.contextmanager
def faulted(work: Path, name: str, fault: Fault) -> Iterator[Counter]:
    before, step = STEPS[name]
    with counter_on(work / f"{fault.kind}-{fault.at}") as counter:
        if before is not None:
            before(counter)
        counter.disk.arm(fault)
        with contextlib.suppress(apsw.IOError, apsw.FullError):
            step(counter)
        assert counter.disk.fired
        counter.disk.disarm()
        yield counter


@pytest.mark.parametrize("name", STEPS)
def test_a_power_cut_at_any_operation_loses_nothing_acknowledged(tmp_path: Path, name: str) -> None:
    for fault in every_fault(count_operations(tmp_path, name), ("power_cut",)):
        with faulted(tmp_path, name, fault) as counter:
            counter.check_images(tmp_path)


def test_a_commit_that_a_power_cut_interrupts_is_sometimes_there(tmp_path: Path) -> None:
    """Otherwise the images would prove little: all of them would be the state before."""
    found = []
    for fault in every_fault(count_operations(tmp_path, "a commit"), ("power_cut",)):
        with faulted(tmp_path, "a commit", fault) as counter:
            found.append(counter.check_images(tmp_path))
    assert found[0] == {3}
    assert found[-1] == {3, 4}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("kind", [kind for kind in FAULT_KINDS if kind != "power_cut"])
def test_a_failed_operation_loses_nothing_and_the_store_works_on(
    tmp_path: Path, name: str, kind: FaultKind
) -> None:
    for fault in every_fault(count_operations(tmp_path, name), (kind,)):
        with faulted(tmp_path, name, fault) as counter:
            counter.check_images(tmp_path)
            if name == "a close":
                counter.open()
            assert counter.reader.execute("SELECT count(*) FROM entry").get >= counter.acknowledged
            counter.commit()
            counter.check_images(tmp_path)
            counter.close()
            counter.check_images(tmp_path)
            counter.check_live()


def test_every_operation_of_many_commits_can_be_the_last(tmp_path: Path) -> None:
    def run(counter: Counter, fault: Fault | None) -> int:
        counter.writer.wal_autocheckpoint(8)
        counter.disk.arm(fault)
        with contextlib.suppress(apsw.IOError):
            for _ in range(6):
                counter.commit()
        counter.check_images(tmp_path)
        return counter.disk.operations

    with counter_on(tmp_path / "unharmed") as counter:
        operations = run(counter, None)
    for at in range(1, operations + 1, examples(7, 1)):
        with counter_on(tmp_path / str(at)) as counter:
            assert run(counter, Fault("power_cut", at)) == at


def test_a_disk_that_lies_about_its_syncs_is_found_out(tmp_path: Path) -> None:
    with counter_on(tmp_path / "disk") as counter:
        counter.disk.sync_off = True
        counter.commit()
        with pytest.raises(AssertionError, match="lost: 3 of 4"):
            counter.check_images(tmp_path)


@pytest.mark.parametrize("synchronous", ["off", "normal"])
def test_commits_that_do_not_sync_are_found_out(tmp_path: Path, synchronous: str) -> None:
    with counter_on(tmp_path / "disk", synchronous=synchronous) as counter:
        counter.commit()
        with pytest.raises(AssertionError, match=r"lost|broken"):
            counter.check_images(tmp_path)


def test_checkpoints_that_do_not_sync_are_found_to_corrupt(tmp_path: Path) -> None:
    """The log is cut while the pages it held are in the page cache only."""
    with counter_on(tmp_path / "disk") as counter:
        counter.writer.pragma("synchronous", "off")
        counter.checkpoint()
        broken = 0
        for seed in range(100):
            image = counter.disk.image(tmp_path / str(seed), keep="some", seed=seed)
            try:
                broken += whole_transactions(image / "counter.db") < counter.acknowledged
            except (apsw.Error, AssertionError):
                broken += 1
        assert 0 < broken < 100


def test_two_connections_share_memory_and_locks_through_the_disk(tmp_path: Path) -> None:
    with counter_on(tmp_path / "disk") as counter:
        assert (tmp_path / "disk" / "counter.db-shm").exists()
        counter.writer.execute("BEGIN IMMEDIATE; UPDATE head SET number = 7")
        assert counter.reader.execute("SELECT number FROM head").get == 3
        with pytest.raises(apsw.BusyError):
            counter.reader.execute("BEGIN IMMEDIATE")
        counter.writer.execute("COMMIT")
        assert counter.reader.execute("SELECT number FROM head").get == 7


def test_an_image_that_keeps_all_equals_the_live_files(tmp_path: Path) -> None:
    # Another process reads: opening a live file here would drop SQLite's locks on it.
    read = "import pathlib, sys; print(pathlib.Path(sys.argv[1]).read_bytes().hex())"
    with counter_on(tmp_path / "disk") as counter:
        image = counter.disk.image(tmp_path / "image", keep="all")
        assert {path.name for path in image.iterdir()} == {"counter.db", "counter.db-wal"}
        for path in image.iterdir():
            argv = [sys.executable, "-c", read, str(counter.disk.directory / path.name)]
            live = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
            assert live.strip() == path.read_bytes().hex()


def test_an_image_depends_on_its_seed_alone(tmp_path: Path) -> None:
    with counter_on(tmp_path / "disk") as counter:
        counter.writer.pragma("synchronous", "off")
        counter.commit()
        contents = [
            (counter.disk.image(tmp_path / name, keep="some", seed=seed) / LOG).read_bytes()
            for name, seed in (("first", 1), ("again", 1), ("other", 2))
        ]
        assert contents[0] == contents[1] != contents[2]


def test_a_short_write_leaves_half_of_its_bytes(tmp_path: Path) -> None:
    with counter_on(tmp_path / "disk") as counter:
        before = (counter.disk.image(tmp_path / "before", keep="all") / LOG).stat().st_size
        counter.disk.arm(Fault("short_write", at=1))
        with pytest.raises(apsw.IOError):
            counter.commit()
        assert counter.disk.struck is not None
        assert counter.disk.struck.offset == before
        after = (counter.disk.image(tmp_path / "after", keep="all") / LOG).stat().st_size
        assert after == before + counter.disk.struck.size // 2


def test_a_commit_found_after_a_kill_is_not_durable_before_a_sync(tmp_path: Path) -> None:
    """The writer was killed between its last write and its sync: the commit is in the page cache,
    not on the disk."""
    cut = Fault("power_cut", at=count_operations(tmp_path, "a commit"))
    with faulted(tmp_path, "a commit", cut) as counter:
        assert counter.disk.struck == Operation("sync", LOG)
        with counter.disk.after_kill(tmp_path / "restarted") as disk:
            path = str(disk.directory / "counter.db")
            connection = apsw.Connection(path, vfs=disk.vfs_name)
            assert connection.execute("SELECT number FROM head").get == 4
            assert whole_transactions(disk.image(tmp_path / "early") / "counter.db") == 3
            connection.pragma("synchronous", "full")
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            assert whole_transactions(disk.image(tmp_path / "late") / "counter.db") == 4
            connection.close()


def test_files_that_were_there_before_are_durable(tmp_path: Path) -> None:
    with counter_on(tmp_path / "disk") as counter:
        store = counter.disk.image(tmp_path / "store", keep="all")
    with FaultDisk(store) as disk:
        connection = apsw.Connection(str(store / "counter.db"), vfs=disk.vfs_name)
        assert connection.execute("SELECT number FROM head").get == 3
        assert whole_transactions(disk.image(tmp_path / "image") / "counter.db") == 3
        connection.close()


def test_a_database_outside_the_directory_is_refused(tmp_path: Path) -> None:
    with (
        counter_on(tmp_path / "disk") as counter,
        pytest.raises(apsw.CantOpenError, match="inside"),
    ):
        apsw.Connection(str(tmp_path / "other.db"), vfs=counter.disk.vfs_name)


def test_an_error_strikes_once_and_tells_where(tmp_path: Path) -> None:
    with counter_on(tmp_path / "disk") as counter:
        counter.disk.arm(Fault("error", at=1))
        with pytest.raises(apsw.IOError, match=r"error at .*'write'.*counter\.db-wal"):
            counter.commit()
        assert counter.disk.struck is not None
        assert counter.disk.struck.file == "counter.db-wal"
        counter.commit()


def test_a_full_disk_stays_full_until_disarmed(tmp_path: Path) -> None:
    with counter_on(tmp_path / "disk") as counter:
        counter.disk.arm(Fault("disk_full", at=2))
        for _ in range(3):
            with pytest.raises(apsw.FullError):
                counter.commit()
        counter.disk.disarm()
        counter.commit()


def test_after_a_power_cut_nothing_works_any_more(tmp_path: Path) -> None:
    with counter_on(tmp_path / "disk") as counter:
        counter.disk.arm(Fault("power_cut", at=1))
        for _ in range(2):
            with pytest.raises(apsw.IOError):
                counter.commit()
        counter.disk.disarm()
        with pytest.raises(apsw.IOError):
            counter.commit()
        with pytest.raises(apsw.CantOpenError):
            counter.open()
        with pytest.raises(ValueError, match="new disk"):
            counter.disk.arm()


@pytest.mark.parametrize(("kind", "at"), [("error", 0), ("fire", 1)])
def test_a_fault_that_cannot_happen_is_refused(kind: FaultKind, at: int) -> None:
    with pytest.raises(ValueError, match="no such fault"):
        Fault(kind, at)


changes = st.lists(
    st.one_of(
        st.builds(Write, st.integers(0, 2_000), st.binary(min_size=1, max_size=1_500)),
        st.builds(Truncate, st.integers(0, 2_000)),
        st.just("sync"),
    ),
    max_size=12,
)


@given(changes)
def test_a_file_is_what_was_synced_and_at_most_all_that_was_written(
    steps: list[Write | Truncate | str],
) -> None:
    inode, synced, cached = Inode(), b"", bytearray()
    for step in steps:
        if isinstance(step, str):
            inode.sync()
            synced = bytes(cached)
        else:
            inode.change(step)
            step.apply(cached)
    assert inode.content("none", random.Random(0)) == synced
    assert inode.content("all", random.Random(0)) == bytes(cached)


def test_a_write_is_torn_at_sector_boundaries_only() -> None:
    inode = Inode()
    inode.change(Write(100, b"x" * 2_000))
    contents = {inode.content("some", random.Random(seed)) for seed in range(200)}
    starts = {content.find(b"x") for content in contents if content}
    ends = {len(content) for content in contents if content}
    boundaries = set(range(SECTOR_SIZE_BYTES, 2_100, SECTOR_SIZE_BYTES))
    assert starts == boundaries | {100}
    assert ends == boundaries | {2_100}
    assert b"" in contents


def test_what_a_failed_sync_forgot_is_not_brought_back_by_a_good_one() -> None:
    inode = Inode(b"before")
    inode.change(Write(0, b"AAAAAA"))
    inode.fail_sync()
    assert inode.content("all", random.Random(0)) == b"AAAAAA"
    inode.change(Write(0, b"B"))
    inode.sync()
    assert inode.content("all", random.Random(0)) == b"Before"


def test_a_name_lasts_when_its_file_or_its_directory_was_synced() -> None:
    platter = Platter()
    journal, _ = platter.create("journal"), platter.create("other")
    assert platter.files("none", 0).keys() == set()
    platter.sync(journal)
    assert platter.files("none", 0).keys() == {"journal"}
    platter.delete("journal")
    assert platter.files("none", 0).keys() == {"journal"}
    assert platter.files("all", 0).keys() == {"other"}
    seen = {frozenset(platter.files("some", seed)) for seed in range(50)}
    assert len(seen) == 4
    platter.sync_directory()
    assert platter.files("none", 0).keys() == {"other"}


PRINT_NUMBERS = "import itertools\nfor n in itertools.count(1): print(n, flush=True)"


def test_a_killed_child_had_printed_what_is_reported() -> None:
    lines = run_until_killed([sys.executable, "-c", PRINT_NUMBERS], acknowledgements=10)
    assert len(lines) >= 10
    assert list(lines) == [str(number) for number in range(1, len(lines) + 1)]


def test_a_line_that_was_cut_off_is_not_reported() -> None:
    source = "import sys, threading; print('a'); print('b', end='', flush=True)"
    source += "; threading.Event().wait(60)"
    assert run_until_killed([sys.executable, "-c", source], acknowledgements=1) == ("a",)


def test_a_child_that_ends_by_itself_is_reported_with_its_complaint() -> None:
    source = "print('one', flush=True); raise SystemExit('out of paper')"
    with pytest.raises(AssertionError, match=r"(?s)by itself after 1 .*out of paper"):
        run_until_killed([sys.executable, "-c", source], acknowledgements=2)


@pytest.mark.skipif(not hasattr(fcntl, "F_GETPIPE_SZ"), reason="pipes of Linux")
def test_a_child_may_be_held_to_few_bytes_that_nobody_has_read() -> None:
    said = "import fcntl, signal; print(fcntl.fcntl(1, fcntl.F_GETPIPE_SZ), flush=True); signal.pause()"
    for ahead, size in ((-1, 65_536), (4_096, 4_096)):
        with ChildProcess([sys.executable, "-c", said], ahead_bytes=ahead) as child:
            child.read_until(1)
            assert child.kill() == (str(size),)


def test_a_silent_child_is_given_up_and_killed() -> None:
    argv = [sys.executable, "-c", "import threading; threading.Event().wait(60)"]
    with pytest.raises(AssertionError, match="timed out"):
        run_until_killed(argv, acknowledgements=1, timeout_seconds=0.2)


def test_what_a_child_started_is_killed_with_it() -> None:
    grandchild = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {PRINT_NUMBERS!r}])"
    )
    with ChildProcess([sys.executable, "-c", grandchild]) as child:
        child.read_until(5)
        # Returns only when nobody holds the output open any more.
        assert len(child.kill()) >= 5


WRITER = """
import sys
import apsw
from tests.unit.testing.test_faults import add_transaction
connection = apsw.Connection(sys.argv[1])
connection.set_busy_timeout(120_000)  # of two writers one may starve for long
connection.pragma("synchronous", "full")
while True:
    print(add_transaction(connection, lambda number: None), flush=True)
"""


def test_writers_that_are_killed_lose_nothing_acknowledged(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    for seed in range(examples(2, 40)):
        with counter_on(tmp_path / f"disk-{seed}") as counter:
            path = counter.disk.image(tmp_path / f"store-{seed}", keep="all") / "counter.db"
        argv = [sys.executable, "-c", WRITER, str(path)]
        with ChildProcess(argv, cwd=root) as other:
            lines = run_until_killed(
                argv, acknowledgements=3, delay_seconds_max=0.05, seed=seed, cwd=root
            )
            other.read_until(1)
            acknowledged = max(int(number) for number in (*lines, *other.kill()))
        # Each of the two may have stored one more commit than it could print.
        assert acknowledged <= whole_transactions(path) <= acknowledged + 2

"""A file of format 1 becomes one of format 2 when it is opened for writing: whole or not at all,
beside other processes, and with every row as it was. A look leaves it alone. A file of format 2 has
no room for checksums and stays what it is.

A number of a format that does not fit the tables of a file is damage.
"""

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import apsw
import pytest

import rote
from rote.engines.sqlite import SqliteEngine, SqliteLook
from rote.engines.sqlite.schema import (
    APPLICATION_ID,
    FORMAT,
    FORMAT_WITH_SEGMENTS,
    FORMATS,
)
from rote.errors import Corrupt, RoteError, Unavailable
from rote.testing.faults import FAULT_KINDS, Fault, FaultDisk, FaultKind, Keep, every_fault
from tests.faults.tampering import raw
from tests.faults.upgrade_children import fill
from tests.golden import stories
from tests.lanes import examples

ROOT = Path(__file__).parents[2]
FILE = "memory.db"
# Files of format 1: without the two indexes that came later, and with them.
OLD = ("sqlite-1.store", "life-1.store")
KEEPS: tuple[Keep, ...] = ("none", "some", "all")
OPENERS = examples(3, 8)
# What a file of an earlier format becomes.
UPGRADED = FORMAT_WITH_SEGMENTS

Content = dict[str, Any]


# Where many faults or processes are tried, the quick lane takes the older file alone.
one_old = pytest.mark.parametrize("old", OLD[: examples(1, 2)], indirect=True)


@pytest.fixture(params=OLD)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "old" / FILE
    path.parent.mkdir()
    shutil.copyfile(stories.FOLDER / request.param, path)
    return path


def statements_of(connection: apsw.Connection) -> dict[str, str]:
    """Return the statements that made each table and index, written in one way."""
    made: dict[str, str] = dict(
        connection.execute("select name, sql from sqlite_schema where sql is not null")
    )
    return {name: " ".join(sql.lower().split()) for name, sql in made.items()}


def content_of(path: Path) -> tuple[int, dict[str, str], Content]:
    """Return format, statements and rows of a file."""
    with raw(path) as connection:
        statements = statements_of(connection)
        tables = [name for name, sql in statements.items() if sql.startswith("create table")]
        rows = {name: connection.execute(f"select * from {name}").fetchall() for name in tables}
        assert connection.execute("pragma integrity_check").get == "ok"
        return connection.pragma("user_version"), statements, rows


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the statements of a file that was made in format 2."""
    path = tmp_path_factory.mktemp("new") / FILE
    shutil.copyfile(stories.FOLDER / "sqlite-2.store", path)
    return content_of(path)[1]


def check_whole(
    path: Path, before: tuple[int, dict[str, str], Content], new: dict[str, str]
) -> int:
    """Check that a file is as it was, or as the upgrade makes it; return its format."""
    format, statements, rows = content_of(path)
    if format == before[0]:
        assert (statements, rows) == before[1:]
    else:
        assert format == UPGRADED
        assert statements == new
        assert rows == before[2] | {name: [] for name in ("segments", "postings", "vectors")}
    return format


def test_a_file_of_format_1_becomes_what_a_file_of_format_2_is(
    old: Path, new: dict[str, str]
) -> None:
    before = content_of(old)
    assert before[0] == 1
    SqliteEngine(old).close()
    assert check_whole(old, before, new) == UPGRADED
    with rote.open(old) as store:
        assert all(space.verify().ok for space in store.spaces())


@contextlib.contextmanager
def disk_with(old: Path, work: Path) -> Iterator[FaultDisk]:
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    shutil.copyfile(old, work / FILE)
    with FaultDisk(work) as disk:
        yield disk


def upgrade(disk: FaultDisk) -> None:
    with contextlib.suppress(Unavailable):
        SqliteEngine(disk.directory / FILE, vfs=disk.vfs_name).close()


@one_old
@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_a_fault_at_any_moment_of_an_upgrade_leaves_the_old_format_or_the_new_one(
    old: Path, tmp_path: Path, new: dict[str, str], kind: FaultKind
) -> None:
    before, found = content_of(old), set()
    with disk_with(old, tmp_path / "disk") as disk:
        disk.arm()
        upgrade(disk)
        operations = disk.operations
    for fault in islice(every_fault(operations, (kind,)), None, None, examples(5, 1)):
        with disk_with(old, tmp_path / "disk") as disk:
            disk.arm(fault)
            upgrade(disk)
            assert disk.fired, fault
            disk.disarm()
            for keep in KEEPS:
                image = disk.image(tmp_path / f"{fault.at}-{keep}", keep=keep, seed=fault.at)
                shutil.copytree(image, tmp_path / "again", dirs_exist_ok=True)
                found.add(check_whole(image / FILE, before, new))
                # The next opening begins or ends it.
                SqliteEngine(tmp_path / "again" / FILE).close()
                assert check_whole(tmp_path / "again" / FILE, before, new) == UPGRADED
                for folder in (image, tmp_path / "again"):
                    shutil.rmtree(folder)
    assert found == {1, UPGRADED}


def test_a_disk_that_fails_once_is_no_reason_to_stay_old(
    old: Path, tmp_path: Path, new: dict[str, str]
) -> None:
    before = content_of(old)
    with disk_with(old, tmp_path / "disk") as disk:
        disk.arm(Fault("error", 1))
        with pytest.raises(Unavailable):
            SqliteEngine(disk.directory / FILE, vfs=disk.vfs_name)
        disk.disarm()
        upgrade(disk)
    assert check_whole(tmp_path / "disk" / FILE, before, new) == UPGRADED


def child(name: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", "tests.faults.upgrade_children", name, *map(str, arguments)]


@one_old
def test_processes_that_open_an_old_file_at_once_upgrade_it_once(
    old: Path, new: dict[str, str]
) -> None:
    before = content_of(old)
    argv = child("open_together", old)
    processes = [
        subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(OPENERS)
    ]
    try:
        for process in processes:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        outputs = [process.communicate(timeout=60)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert outputs == [f"{UPGRADED}\n"] * OPENERS
    assert check_whole(old, before, new) == UPGRADED


# -- looking ---------------------------------------------------------------------------------------


def packed_rows(engine: SqliteLook, space: int) -> list[object]:
    reads = engine.reader()
    return [
        len(reads.segments(space, "words/1")), len(reads.segment_bodies(space, "words/1", [1])),
        len(reads.postings(space, "words/1", [1], ["a"])),
        len(reads.postings_of(space, "words/1", 1, after="", limit=9)),
        len(reads.vectors(space, "v", [b"h"])), len(reads.vector_names(space)),
        len(reads.vector_rows(space, "v", after=b"", limit=9)),
    ]  # fmt: skip


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_look_at_an_old_file_changes_nothing_and_finds_nothing_new(
    old: Path, tmp_path: Path, is_killed: bool
) -> None:
    path = tmp_path / "seen" / FILE
    path.parent.mkdir()
    with raw(old) as connection:
        connection.pragma("journal_mode", "wal")
        connection.execute("update spaces set name = name")
        if is_killed:  # its log is not in the file yet
            shutil.copytree(old.parent, path.parent, dirs_exist_ok=True)
    if not is_killed:
        shutil.copyfile(old, path)
    files = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    assert len(files) == (3 if is_killed else 1)
    look = SqliteLook(path)
    for space in look.spaces():
        assert packed_rows(look, space.number) == [0] * 7
        look.reader().events(space.number, after=0, limit=9)
    assert look.damage() == []
    look.backup(tmp_path / "copy.db")
    look.close()
    with rote.open(path, read_only=True) as store:
        assert all(space.verify().ok for space in store.spaces())
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == files
    with rote.open(tmp_path / "copy.db") as store:
        assert all(space.verify().ok for space in store.spaces())


@pytest.mark.parametrize("is_used", [False, True])
@pytest.mark.parametrize("is_own", [False, True])
def test_a_look_sees_what_an_upgrade_by_another_brings(
    old: Path, is_used: bool, is_own: bool
) -> None:
    """The one who upgrades is of this process or of another, and finds the file used by others or not."""
    with contextlib.ExitStack() as stack:
        if is_used:
            connection = stack.enter_context(raw(old))
            connection.pragma("journal_mode", "wal")
            connection.execute("update spaces set name = name")
        look = SqliteLook(old)
        stack.callback(look.close)
        space = look.spaces()[0].number
        assert packed_rows(look, space) == [0] * 7
        if is_own:
            engine = SqliteEngine(old)
            stack.callback(engine.close)
            fill(engine, space)
        else:
            subprocess.run(child("fill_first", old), cwd=ROOT, check=True, timeout=60)
        assert packed_rows(look, space) == [1] * 7


# -- damage ----------------------------------------------------------------------------------------

HEADERS = {
    "the number of another format": (APPLICATION_ID, None),
    "no number": (APPLICATION_ID, 0),
    "a number of the future": (APPLICATION_ID, FORMAT + 1),
    "a negative number": (APPLICATION_ID, -1),
    "no mark": (0, FORMAT),
    "no mark and the first number": (0, 1),
    "another mark": (APPLICATION_ID ^ 1, FORMAT),
    "nothing": (0, 0),
}


@pytest.mark.parametrize("format", range(1, FORMAT + 1))
@pytest.mark.parametrize("header", HEADERS)
def test_a_header_that_does_not_fit_the_tables_is_damage(
    old: Path, format: int, header: str
) -> None:
    application, number = HEADERS[header]
    path = of_format(format, old)
    refuse_after(path, application, 1 + format % FORMAT if number is None else number)


def of_format(format: int, old: Path) -> Path:
    """Return a file with the content of an old one."""
    if format == 1:
        return old
    engine = SqliteEngine(old)
    path = old
    if format == FORMAT:
        path = old.with_name("copy.db")
        engine.backup(path)
    engine.close()
    return path


def test_a_file_of_format_2_gets_checksums_by_a_backup_alone(old: Path) -> None:
    SqliteEngine(old).close()
    rote.open(old).close()
    before = content_of(old)
    assert before[0] == FORMAT_WITH_SEGMENTS
    format, statements, rows = content_of(of_format(FORMAT, old))
    assert format == FORMAT
    assert statements.keys() - before[1].keys() == {"page_checksums"}
    assert rows == before[2]


def refuse_after(path: Path, application: int, number: int, statement: str = "") -> None:
    with raw(path) as connection:
        connection.execute(statement)
        connection.pragma("application_id", application)
        connection.pragma("user_version", number)
    content = path.read_bytes()
    for read_only in (True, False):
        with pytest.raises(Corrupt, match="restore a backup"):
            rote.open(path, read_only=read_only)
    assert path.read_bytes() == content


@pytest.mark.parametrize("name", ["segments", "postings", "vectors"])
def test_a_file_without_a_table_of_its_format_is_damaged(tmp_path: Path, name: str) -> None:
    SqliteEngine(tmp_path / FILE).close()
    refuse_after(tmp_path / FILE, APPLICATION_ID, FORMAT, f"drop table {name}")


@pytest.mark.parametrize("name", ["leases", "commits_with_event", "vectors_by_hash"])
def test_a_file_without_an_index_of_its_format_is_damaged(tmp_path: Path, name: str) -> None:
    SqliteEngine(tmp_path / FILE).close()
    refuse_after(tmp_path / FILE, APPLICATION_ID, FORMAT, f"drop index {name}")


def test_a_file_with_a_part_of_a_later_format_is_damaged(old: Path) -> None:
    refuse_after(old, APPLICATION_ID, 1, FORMATS[1].partition("create table postings")[0])


def test_a_file_that_cannot_be_written_stays_as_it_was(old: Path, tmp_path: Path) -> None:
    """Nothing was written, and the next opening can try again."""
    before = content_of(old)
    with disk_with(old, tmp_path / "disk") as disk:
        disk.arm(Fault("disk_full", 1))
        with pytest.raises(RoteError):
            SqliteEngine(disk.directory / FILE, vfs=disk.vfs_name)
        disk.disarm()
    assert content_of(tmp_path / "disk" / FILE)[0] == before[0] == 1

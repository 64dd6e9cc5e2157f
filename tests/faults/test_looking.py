"""A store that is opened read only stays as it was, byte for byte, and so does its folder: after a
clean end, after a kill, with files missing, on a disk that refuses every write, and without rights."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import pytest

import rote
from rote.engines.sqlite import SqliteEngine, SqliteLook
from rote.engines.sqlite.checksums import checked
from rote.errors import Corrupt, InvalidInput, NotFound, Unavailable
from rote.opening.keys import FolderKeys, MemoryKeys
from rote.testing import StoreSettings, open_on
from rote.testing.faults import Fault, FaultDisk
from rote.values import Identity
from tests.faults.look_children import COMMITS, ID, OTHER, answers

ROOT = Path(__file__).parents[2]
FILE = "memory.db"
# What lies beside the file of a store, and what a look at it must see.
KILLED, COPIED, CLOSED = (FILE, f"{FILE}-wal", f"{FILE}-shm"), (FILE, f"{FILE}-wal"), (FILE,)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that a killed writer has left: most of its commits are in the log."""
    folder = tmp_path_factory.mktemp("killed")
    child([folder / FILE], "write_and_die", code=-signal.SIGKILL)
    assert {path.name for path in folder.iterdir() if path.is_file()} == set(KILLED)
    assert (folder / FILE).stat().st_size < (folder / f"{FILE}-wal").stat().st_size
    return folder


@pytest.fixture
def folder(killed: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Return a folder with some of the files, which others may enter.

    It is outside of pytest's own folders: each start of pytest closes those to others again.
    """
    with tempfile.TemporaryDirectory(prefix="rote-look-") as above:
        Path(above).chmod(0o755)
        folder = Path(above, "store")
        folder.mkdir()
        for name in KILLED:
            shutil.copy(killed / name, folder / name)
        if request.param == CLOSED:
            rote.open(folder / FILE).close()
        for path in folder.iterdir():
            if path.name not in request.param:
                path.unlink()
        yield folder
        if folder.exists():
            folder.chmod(0o755)


every_state = pytest.mark.parametrize("folder", [KILLED, COPIED, CLOSED], indirect=True)


def child(arguments: list[Any], name: str, *, code: int = 0) -> str:
    """Call a function of look_children.py in a process of its own, and return its output."""
    argv = [sys.executable, "-m", "tests.faults.look_children", name, *map(str, arguments)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stdout


def content(folder: Path) -> dict[str, str]:
    """Return the digests of all files; only for a folder that no connection of this process uses."""
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


EXPECTED = [COMMITS, {"number": COMMITS - 1}, {"number": 1}, COMMITS]


@every_state
def test_a_look_changes_no_byte_of_the_file_or_its_folder(folder: Path) -> None:
    before = content(folder)
    with rote.open(folder / FILE, read_only=True) as store:
        assert answers(store) == EXPECTED
        assert {path.name for path in folder.iterdir()} == set(before)
    assert content(folder) == before


@pytest.mark.parametrize("folder", [CLOSED], indirect=True)
def test_a_look_at_a_file_that_is_gone_is_in_nobodys_way(folder: Path, tmp_path: Path) -> None:
    """Every later opening for writing asked whether it was the same file, and failed."""
    with rote.open(folder / FILE, read_only=True) as store:
        assert answers(store) == EXPECTED
        shutil.rmtree(folder)
        with rote.open(tmp_path / "another.db") as other:
            other.space("x").set("urn:a", 1)


@pytest.mark.parametrize("folder", [KILLED, COPIED], indirect=True)
def test_a_look_at_a_file_with_a_new_name_is_in_no_writers_way(
    folder: Path, tmp_path: Path
) -> None:
    """The writer could not write, or lost its locks when the look ended: another process then took
    the log away from under it."""
    with rote.open(folder / FILE, read_only=True) as look:
        assert look.space("agent").version == COMMITS
        moved = folder.rename(tmp_path / "moved")
        with rote.open(moved / FILE) as store:
            space = store.space("agent")
            space.set(OTHER, 1)
            look.close()
            child([moved / FILE, 2], "write_one")
            assert space.get(OTHER) == 2
            space.set(OTHER, 3)
    with rote.open(moved / FILE) as store:
        assert store.space("agent").get(OTHER) == 3
        assert store.space("agent").verify().ok


@pytest.mark.parametrize("folder", [CLOSED], indirect=True)
def test_a_fork_beside_an_opening_leaves_the_child_able_to_look(folder: Path) -> None:
    """The child waited for ever for a lock whose owner does not exist there."""
    assert child([folder / FILE], "look_in_a_fork").splitlines() == [str(EXPECTED)]


@pytest.mark.parametrize("folder", [KILLED, CLOSED], indirect=True)
def test_a_look_asks_nothing_of_a_disk_that_refuses_every_write(folder: Path) -> None:
    before = content(folder)
    with FaultDisk(folder) as disk:
        disk.arm(Fault("disk_full", at=1))
        look = SqliteLook(folder / FILE, vfs=disk.vfs_name)
        with open_on(look, StoreSettings(read_only=True), keys=MemoryKeys()) as store:
            assert answers(store) == EXPECTED
        assert disk.operations == 0
    assert content(folder) == before


@every_state
def test_a_look_needs_no_right_to_write(folder: Path) -> None:
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    before = content(folder)
    looked, opened = child([folder / FILE], "look_as_a_guest").splitlines()
    assert (looked, opened in ("Denied", "Unavailable")) == (str(EXPECTED), True)
    assert content(folder) == before


@every_state
def test_the_command_line_looks_where_it_may_not_write(folder: Path) -> None:
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    before = content(folder)
    told = child([folder / FILE], "command_as_a_guest").splitlines()
    assert (told[0], json.loads(told[1])["value"]) == ("get 0", {"number": COMMITS - 1})
    assert told[2:] == ["verify 0", "log 0", "set 2", "recover 2"]
    assert content(folder) == before


@pytest.mark.parametrize("folder", [CLOSED], indirect=True)
def test_a_file_that_may_not_be_read_is_told_as_that(folder: Path) -> None:
    """The advice was to make it writable."""
    (folder / FILE).chmod(0o222)
    folder.chmod(0o777)
    told = child([folder / FILE], "told_as_a_guest").splitlines()
    expected = f"Denied {folder / FILE} may not be read; ask its owner for the right to read it"
    assert told == [expected]


@pytest.mark.parametrize("folder", [CLOSED], indirect=True)
def test_a_folder_that_cannot_be_listed_is_in_no_writers_way(folder: Path) -> None:
    (folder / FILE).chmod(0o666)
    folder.chmod(0o733)
    assert child([folder / FILE], "told_as_a_guest").splitlines() == ["it may be written"]


@every_state
def test_a_look_sees_what_a_writer_of_another_process_does(folder: Path) -> None:
    with rote.open(folder / FILE, read_only=True) as store:
        space = store.space("agent")
        watch = space.watch({"select": {OTHER: {}}}, timeout=30.0)
        assert next(watch)["upserts"] == []
        for number in range(3):
            child([folder / FILE, number], "write_one")
            assert space.get(OTHER) == number
            assert next(watch)["upserts"][0]["value"] == number
        assert space.verify().ok


@every_state
def test_a_writer_of_the_same_process_is_not_held_up_by_a_look(folder: Path) -> None:
    """SQLite shares what it knows of a file between the connections of a process: after a look that
    must not write to the shared memory, no connection could."""
    with rote.open(folder / FILE, read_only=True) as look:
        assert look.space("agent").get(OTHER) is None
        for number in range(2):
            with rote.open(folder / FILE) as store:
                store.space("agent").set(OTHER, number)
                assert look.space("agent").get(OTHER) == number
                # The locks of the writer still hold: another process does not take the log away.
                child([folder / FILE, "x"], "write_one")
                assert store.space("agent").get(OTHER) == look.space("agent").get(OTHER) == "x"
                store.space("agent").set(OTHER, number)
            assert look.space("agent").get(OTHER) == number
    with rote.open(folder / FILE) as store:
        assert store.space("agent").verify().ok


def empty_database(path: Path) -> None:
    connection = apsw.Connection(str(path), vfs=checked())
    connection.pragma("user_version", 0)
    connection.execute("create table t (a); drop table t")
    connection.close()


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda path: None, NotFound),
        (lambda path: path.touch(), NotFound),
        (lambda path: path.write_bytes(b"x"), InvalidInput),
        (lambda path: path.write_bytes(b"no database " * 1_000), InvalidInput),
        (empty_database, InvalidInput),
        (lambda path: path.mkdir(), InvalidInput),
    ],
    ids=["missing", "empty", "short", "text", "no tables", "folder"],
)
def test_what_is_no_store_is_not_looked_at(
    tmp_path: Path, make: Callable[[Path], None], kind: type[Exception]
) -> None:
    make(tmp_path / FILE)
    before = {path.name for path in tmp_path.iterdir()}
    for create in (True, False):
        with pytest.raises(kind):
            rote.open(tmp_path / FILE, read_only=create, create=create)
    assert {path.name for path in tmp_path.iterdir()} == before


def test_memory_cannot_be_looked_at() -> None:
    with pytest.raises(InvalidInput, match="memory begins empty"):
        rote.open(":memory:", read_only=True)
    with pytest.raises(InvalidInput):
        rote.open(":memory:", read_only="yes")  # type: ignore[arg-type]


def test_a_store_without_one_of_its_tables_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / FILE
    rote.open(path).close()
    connection = apsw.Connection(str(path), vfs=checked())
    connection.execute("drop table facts")
    connection.close()
    for read_only in (True, False):
        with pytest.raises(Corrupt, match="tables are damaged"):
            rote.open(path, read_only=read_only)


# -- a full disk -----------------------------------------------------------------------------------


def test_a_full_disk_is_told_by_its_path_and_nothing_was_written(tmp_path: Path) -> None:
    with FaultDisk(tmp_path) as disk:
        engine = SqliteEngine(tmp_path / FILE, vfs=disk.vfs_name)
        with open_on(engine, StoreSettings(), keys=MemoryKeys()) as store:
            space = store.space("agent")
            space.set(ID, 1, key="first")
            disk.arm(Fault("disk_full", at=1))
            for _ in range(2):
                with pytest.raises(Unavailable) as caught:
                    space.set(ID, 2, key="second")
                assert caught.value.code == "disk_full"
                assert caught.value.details["path"] == str(tmp_path / FILE)
                assert caught.value.details["outcome"] == "not_written"
                assert str(tmp_path / FILE) in str(caught.value)
                assert (space.get(ID), space.version) == (1, 1)
            disk.disarm()
            assert space.set(ID, 2, key="second").version == 2
            assert space.verify().ok


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_keys_that_find_no_room_are_told_as_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty file was left: with the same key, no space could ever be made again."""
    seed, keys = bytes(range(32)), tmp_path / f"{FILE}.keys"
    with rote.open(tmp_path / FILE, key=seed) as store:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(Unavailable) as caught:
            store.space("agent")
        monkeypatch.undo()
        assert caught.value.code == "disk_full"
        assert caught.value.details["path"] == str(keys)
        assert (store.spaces(), list(keys.iterdir())) == ([], [])
        assert store.space("agent").checkpoint()


def test_a_key_that_finds_no_room_takes_no_key_away_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes that copy a space to one store save the same key, each after it found none."""
    identity = Identity.from_seed(bytes(range(32)))
    keys = FolderKeys(tmp_path)
    keys.save(identity.did, identity.seed())
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Unavailable):
        keys.save(identity.did, identity.seed())
    kept = keys.load(identity.did)
    assert kept is not None
    assert kept.seed() == identity.seed()


def test_the_key_of_an_erased_space_is_not_left_unfinished(tmp_path: Path) -> None:
    """A process that was killed while it saved the key has left a file with another name."""
    with rote.open(tmp_path / FILE) as store:
        did = store.space("agent").did
        keys = tmp_path / f"{FILE}.keys"
        shutil.copy(keys / did, keys / f"{did}.4711-1")
        assert store.erase_space("agent", reason="asked to", confirm="agent").remaining == ()
        assert list(keys.iterdir()) == []

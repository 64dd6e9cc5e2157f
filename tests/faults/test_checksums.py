"""Each page of a store has its checksum, whoever wrote the page and however; a page that does not fit
is Corrupt. What cannot check the pages of a file does not get to write them.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

import rote
from rote.cli.demo.tampering import PAGE_BYTES
from rote.engines.sqlite import backup, identity
from rote.engines.sqlite.checksums import checked, reserve_room
from rote.engines.sqlite.schema import APPLICATION_ID, FORMATS
from rote.errors import Corrupt, Unavailable
from tests.faults.pages import wrong_pages
from tests.golden import stories
from tests.lanes import examples

ROOT = Path(__file__).parents[2]
FILE = "memory.db"
MAKERS = examples(3, 8)
# More pages than a connection keeps in memory, so that some are written before their transaction ends.
MANY_PAGES = 3_000


def fill(path: Path) -> rote.Store:
    """Return a store that was written to in large and in small transactions."""
    store = rote.open(path, durability="os")
    space = store.space("agent")
    for number in range(3):
        space.transact(
            [
                {"op": "set", "id": f"urn:{number}:{each}", "value": "x" * 12_000}
                for each in range(350)
            ]
        )
    space.set("urn:secret", "hidden")
    return store


def format_in(path: Path) -> int:
    return int.from_bytes(path.read_bytes()[60:64], "big")


def test_each_page_has_its_checksum_whatever_was_done(tmp_path: Path) -> None:
    path = tmp_path / FILE
    with fill(path) as store:
        store.space("agent").erase("urn:secret", reason="asked to")
        store.space("agent").compact(before=2)
        store.space("agent").set("urn:later", 1)
    assert path.stat().st_size > MANY_PAGES * PAGE_BYTES
    assert wrong_pages(path) == []


def test_each_page_of_a_backup_has_its_checksum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fill(tmp_path / FILE) as store:
        store.backup(tmp_path / "copy.db")
        assert wrong_pages(tmp_path / "copy.db") == []
        # SQLite alone does not write them.
        monkeypatch.setattr(backup, "seal", lambda part: None)
        store.backup(tmp_path / "unsealed.db")
        assert len(wrong_pages(tmp_path / "unsealed.db")) > MANY_PAGES
    with rote.open(tmp_path / "copy.db") as store:
        assert store.space("agent").verify().ok
    assert wrong_pages(tmp_path / "copy.db") == []


@pytest.mark.parametrize("name", ["sqlite-1.store", "sqlite-2.store", None])
def test_a_backup_has_checksums_also_of_a_store_without(tmp_path: Path, name: str | None) -> None:
    if name is not None:
        shutil.copyfile(stories.FOLDER / name, tmp_path / FILE)
    with rote.open(tmp_path / FILE if name else ":memory:") as store:
        store.space("files").set("urn:a", 1)
        store.backup(tmp_path / "copy.db")
    assert (wrong_pages(tmp_path / "copy.db"), format_in(tmp_path / "copy.db")) == ([], 3)
    with rote.open(tmp_path / "copy.db") as store:
        assert store.space("files").verify().ok


def test_a_page_that_does_not_fit_its_checksum_is_corrupt_and_found(tmp_path: Path) -> None:
    path = tmp_path / FILE
    fill(path).close()
    content = bytearray(path.read_bytes())
    place = content.index(b"x" * 2_000)
    content[place] ^= 1
    path.write_bytes(content)
    with rote.open(path) as store:
        space = store.space("agent")
        with pytest.raises(Corrupt, match="a page does not fit its checksum"):
            list(space.scan())
        report = space.verify()
        assert not report.ok
        assert any("checksum" in str(fault) for fault in report.faults)


def test_what_another_program_writes_without_checksums_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / FILE
    fill(path).close()
    connection = apsw.Connection(str(path))
    connection.execute("update commits set author = 'Eve'")
    connection.close()
    assert wrong_pages(path)
    with rote.open(path) as store, pytest.raises(Corrupt, match="checksum"):
        list(store.space("agent").log())


def test_a_room_for_checksums_that_does_not_fit_the_format_is_damage(tmp_path: Path) -> None:
    """So no connection reads or writes a file with checksums and does not compute them."""
    for number, (room, format) in enumerate([(0, 3), (8, 2)]):
        path = tmp_path / f"{number}.db"
        connection = apsw.Connection(str(path), vfs=checked())
        if room:
            reserve_room(connection)
        connection.execute("begin")
        for statements in FORMATS[:format]:
            connection.execute(statements)
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", format)
        connection.execute("commit")
        connection.close()
        assert path.read_bytes()[20] == room
        for read_only in (False, True):
            with pytest.raises(Corrupt, match="header is damaged"):
                rote.open(path, read_only=read_only)


def test_an_earlier_rote_asks_for_an_upgrade(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rote.open(tmp_path / FILE).close()
    monkeypatch.setattr(identity, "FORMAT", 2)
    monkeypatch.setattr(identity, "FORMATS", FORMATS[:2])
    content = (tmp_path / FILE).read_bytes()
    for read_only in (False, True):
        with pytest.raises(Unavailable, match="upgrade Rote"):
            rote.open(tmp_path / FILE, read_only=read_only)
    assert (tmp_path / FILE).read_bytes() == content


def test_other_databases_of_the_process_are_left_alone(tmp_path: Path) -> None:
    rote.open(tmp_path / FILE).close()
    assert apsw.vfs_names()[0] == "unix"
    assert apsw.Connection(":memory:").open_vfs == "unix"


def child(name: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", "tests.faults.checksum_children", name, *map(str, arguments)]


def test_processes_that_make_a_file_at_once_make_one_with_checksums(tmp_path: Path) -> None:
    path = tmp_path / FILE
    processes = [
        subprocess.Popen(
            child("make_together", path),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(MAKERS)
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
    assert outputs == ["3\n"] * MAKERS
    assert wrong_pages(path) == []


def test_without_the_shim_files_have_no_checksums_and_those_that_have_are_refused(
    tmp_path: Path,
) -> None:
    paths = [tmp_path / name for name in ("new.db", "sqlite-2.store", "sqlite-3.store")]
    for path in paths[1:]:
        shutil.copyfile(stories.FOLDER / path.name, path)
    said = subprocess.run(
        child("without_shim", *paths),
        cwd=ROOT,
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
    ).stdout
    assert said.split() == ["works", "works", "True"]
    assert [format_in(path) for path in paths] == [2, 2, 3]
    assert [format_in(Path(f"{path}.copy")) for path in paths[:2]] == [2, 2]
    assert paths[2].read_bytes() == (stories.FOLDER / "sqlite-3.store").read_bytes()
    for path in paths:  # with the shim
        with rote.open(path) as store:
            assert store.space("files").verify().ok

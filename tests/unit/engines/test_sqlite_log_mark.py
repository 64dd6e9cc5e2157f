"""The mark of the log: it moves with every commit of any process, and is gone with its connection."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

import rote
from rote.contract.commands import DropSide, PutSide
from rote.engines.sqlite.connections import connect, use_write_ahead_log
from rote.engines.sqlite.log_mark import log_mark
from rote.errors import Unavailable
from rote.space.sources import port_of_store
from tests.lanes import examples


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[apsw.Connection]:
    path = tmp_path / "memory.db"
    path.touch()
    connection = connect(str(path), durability="os", vfs=None)
    use_write_ahead_log(connection)
    connection.execute("create table t (a)")
    yield connection
    connection.close()


@pytest.fixture
def reader(writer: apsw.Connection) -> Iterator[apsw.Connection]:
    connection = connect(writer.filename, durability="os", vfs=None)
    count(connection)
    yield connection
    connection.close()


def count(connection: apsw.Connection) -> int:
    rows: int = connection.execute("select count(*) from t").get
    return rows


def test_no_two_commits_leave_the_same_mark(
    writer: apsw.Connection, reader: apsw.Connection
) -> None:
    mark = log_mark(reader)
    assert mark is not None
    seen = {mark.raw}
    for number in range(100):
        writer.execute("insert into t values (1)")
        assert mark.raw not in seen
        seen.add(mark.raw)
        if number % 10 == 9:
            # The log starts over, in the same place.
            writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
    assert count(reader) == 100


def test_a_mark_stays_while_nothing_is_committed(
    writer: apsw.Connection, reader: apsw.Connection
) -> None:
    mark = log_mark(reader)
    assert mark is not None
    before = mark.raw
    writer.execute("begin immediate; insert into t values (1)")
    assert mark.raw == before
    writer.execute("rollback")
    assert count(reader) == 0
    assert mark.raw == before


def test_all_connections_see_the_same_mark(
    writer: apsw.Connection, reader: apsw.Connection
) -> None:
    marks = [log_mark(writer), log_mark(reader)]
    writer.execute("insert into t values (1)")
    assert [mark and mark.raw for mark in marks] == [marks[0] and marks[0].raw] * 2
    assert None not in marks


def test_a_store_tells_its_mark_and_side_rows_of_others_move_it(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with rote.open(path) as store, rote.open(path) as other:
        open_store, did = store.space("notes").open_store, store.space("notes").did
        seen = open_store.mark()
        assert seen is not None and open_store.mark() == seen
        port_of_store(other).answer(did, PutSide("note", "a", 1, 0))
        moved = open_store.mark()
        assert moved != seen
        port_of_store(other).answer(did, DropSide("note", "a", 1))
        assert open_store.mark() not in (seen, moved)
    with rote.open(":memory:") as store:
        assert store.space("notes").open_store.mark() is None


def test_what_is_in_memory_has_no_log() -> None:
    with rote.open(":memory:") as store:
        space = store.space("notes")
        for number in range(3):
            space.set("urn:a", number)
            assert space.get("urn:a") == number
    connection = apsw.Connection(":memory:")
    assert log_mark(connection) is None
    connection.close()


def test_a_read_that_meets_the_closing_of_its_store_is_refused_and_touches_no_freed_memory(
    tmp_path: Path,
) -> None:
    for _ in range(examples(20, 400)):
        store = rote.open(tmp_path / "memory.db", durability="os")
        space = store.space("notes")
        space.set("urn:a", 1)
        with ThreadPoolExecutor(3) as pool:
            readers = [pool.submit(_read_until_closed, space) for _ in range(3)]
            while not all(reader.running() or reader.done() for reader in readers):
                space.get("urn:a")
            store.close()
        assert {reader.result() for reader in readers} == {"the store is closed; open it again"}


def _read_until_closed(space: rote.Space) -> str:
    try:
        while True:
            assert space.get("urn:a") == 1
    except Unavailable as error:
        return str(error)

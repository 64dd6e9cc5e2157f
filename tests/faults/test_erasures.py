"""Erased content is gone from the bytes, not only from the answers; work that a crash or a reader
interrupts is finished later."""

import contextlib
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

import rote
from rote.engines.postgres import connections as connections_of_postgres
from rote.engines.postgres import scrubbing
from rote.engines.sqlite import connections, engine
from rote.engines.sqlite.checksums import checked
from rote.engines.sqlite.schema import TABLES_OF_SPACES
from rote.errors import Busy, Corrupt, NotFound
from rote.testing.postgres import schema_of, server_url
from rote.values.limits import BLOB_CHUNK_BYTES, INLINE_SNAPSHOT_BYTES_MAX
from tests.faults.postgres_rig import open_postgres
from tests.faults.tampering import open_port, raw

ID, NEIGHBOUR = "urn:entity:person", "urn:entity:neighbour"
# Unique, of one kilobyte; its first bytes are unique too, wherever a page cuts it.
MARK = "".join(f"{number:04x}" for number in range(0x5A00, 0x5A00 + 256))
assert len(MARK) == INLINE_SNAPSHOT_BYTES_MAX
BUSY_SECONDS = 1


def write(space: rote.Space) -> None:
    """Write the mark in sets, patches, snapshots, a term of an index, and on two branches."""
    for number in range(30):
        space.set(f"urn:entity:{number}", {"tag": f"t{number}", "text": "x" * 500})
    space.set(ID, {"tag": MARK}, key="one")
    space.patch(ID, [{"op": "add", "path": "/more", "value": MARK * 3}], key="two")
    space.patch(ID, [{"op": "add", "path": "/few", "value": 1}])
    other = space.create_branch("other")
    other.set(ID, {"text": MARK})
    other.patch(ID, [{"op": "add", "path": "/few", "value": MARK[:100]}])
    space.delete(ID)
    space.set(ID, {"tag": MARK})
    for number in range(30):
        space.delete(f"urn:entity:{number}")
    space.set(NEIGHBOUR, {"tag": "stays"})


def found_in(data: bytes) -> list[str]:
    """Return the pieces of the mark that are in some bytes."""
    pieces = [MARK[start : start + 64] for start in range(0, len(MARK), 64)]
    forms = [*pieces, *(piece.encode().hex() for piece in pieces)]
    return [form for form in forms if form.encode() in data]


def files_of(path: Path) -> dict[str, bytes]:
    return {
        file.name: file.read_bytes() for file in path.parent.glob(f"{path.name}*") if file.is_file()
    }


# -- SQLite ----------------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (connections, engine):
        monkeypatch.setattr(module, "BUSY_SECONDS_MAX", BUSY_SECONDS)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[rote.Space]:
    """Yield a space with the index of tags declared."""
    port = open_port(path)
    with rote.Store(port, url=str(path), local=port) as store:
        yield store.space("agent")


@contextlib.contextmanager
def reader_of(path: Path) -> Iterator[None]:
    """Stand for another program that is in the middle of reading."""
    connection = apsw.Connection(str(path), vfs=checked())
    connection.execute("begin; select count(*) from facts").fetchall()
    try:
        yield
    finally:
        connection.close()


def test_no_file_of_the_store_holds_a_byte_of_it(store_path: Path, tmp_path: Path) -> None:
    with opened(store_path) as space:
        write(space)
        assert any(found_in(data) for data in files_of(store_path).values())
        erasure = space.erase(ID, reason="asked to")
        # While the store is open, with its log, and after it was closed.
        names = files_of(store_path)
        assert {store_path.name, f"{store_path.name}-wal"} <= names.keys()
        assert {name: found_in(data) for name, data in names.items()} == {
            name: [] for name in names
        }
        assert erasure.remaining == ()
        assert space.verify().ok
        assert space.get(NEIGHBOUR) == {"tag": "stays"}
    assert {name: found_in(data) for name, data in files_of(store_path).items()} == {
        store_path.name: []
    }


def test_what_was_deleted_or_replaced_long_ago_is_gone_too(store_path: Path) -> None:
    """Rows that moved have left copies in freed pages; only a new file has none."""
    with opened(store_path) as space:
        for number in range(200):
            space.set(ID, {"tag": MARK, "number": number})
            space.set(f"urn:entity:{number}", {"text": "x" * (number * 40 % 4_000)})
        space.erase(ID, reason="asked to")
        assert [found_in(data) for data in files_of(store_path).values()] == [[], [], []]


def test_a_reader_in_the_way_is_told_and_a_further_call_finishes(
    store_path: Path, impatient: None
) -> None:
    with opened(store_path) as space:
        write(space)
        with reader_of(store_path):
            with pytest.raises(Busy) as caught:
                space.erase(ID, reason="asked to")
            assert str(caught.value).endswith("when it is done, run `rote gc` to finish")
            version = caught.value.details["version"]
            assert (space.version, space.read(ID).version) == (version, version)
            assert space.read(ID).erased
            assert any(found_in(data) for data in files_of(store_path).values())
        again = space.erase(ID, reason="asked to")
        assert (again.commit.version, again.facts) == (version, 0)
        assert [found_in(data) for data in files_of(store_path).values()] == [[], [], []]
        assert space.gc().erasures == 0
        assert space.verify().ok


def test_gc_finishes_what_a_stop_has_left_over(store_path: Path, impatient: None) -> None:
    with opened(store_path) as space:
        write(space)
        with reader_of(store_path):
            with pytest.raises(Busy):
                space.erase(ID, reason="asked to")
            with pytest.raises(Busy):
                space.gc()
    with opened(store_path) as space:
        assert space.verify().ok
        assert space.gc().erasures == 1
        assert [found_in(data) for data in files_of(store_path).values()] == [[], [], []]
        assert space.gc().erasures == 0


def test_a_pinned_view_of_another_process_shows_it_no_more(store_path: Path) -> None:
    """A view of the past was answered from memory, without a look at what others did."""
    with rote.open(store_path) as here, rote.open(store_path) as there:
        space = here.space("notes")
        space.set("urn:a", "secret")
        space.set("urn:b", 1)
        view = there.space("notes").at(1)
        assert (view.get("urn:a"), view.glance("urn:a").exists) == ("secret", True)
        space.erase("urn:a", reason="r")
        assert (view.get("urn:a"), view.read("urn:a").erased) == (None, True)
        assert not view.glance("urn:a").exists
        here.erase_space("notes", reason="r", confirm="notes")
        with pytest.raises(NotFound):
            view.get("urn:b")


def test_a_reader_that_was_open_meanwhile_sees_it_erased(store_path: Path) -> None:
    with opened(store_path) as space, opened(store_path) as other:
        write(space)
        pinned = other.at(other.version)
        scan = other.scan("urn:entity:")
        assert (pinned.get(ID), other.get(ID)) == ({"tag": MARK}, {"tag": MARK})
        space.erase(ID, reason="asked to")
        assert other.read(ID).erased
        assert pinned.read(ID).erased
        assert [state.id for state in scan] == [NEIGHBOUR]
        other.set(ID, "new")
        assert space.get(ID) == "new"
        assert space.verify().ok


# -- payloads --------------------------------------------------------------------------------------


def write_payloads(space: rote.Space) -> list[str]:
    """Put the mark into a small blob and into one of several chunks, and put one that stays."""
    data = [MARK.encode(), MARK.encode() * (BLOB_CHUNK_BYTES // len(MARK) + 1), b"stays"]
    hashes = [space.put_blob(part) for part in data]
    space.set(ID, {"tag": MARK, "file": {"$blob": hashes[0]}})
    space.patch(ID, [{"op": "add", "path": "/more", "value": {"$blob": hashes[1]}}])
    space.set(NEIGHBOUR, {"file": {"$blob": hashes[2]}})
    return hashes


def erase_payloads(space: rote.Space, hashes: list[str]) -> None:
    """Erase as the guide says, up to the collection."""
    erasure = space.erase(ID, reason="asked to")
    assert erasure.blobs == tuple(sorted(hashes[:2]))
    for hash in erasure.blobs:
        described = space.erase(f"urn:blob-meta:{hash}", reason="asked to")
        assert described.blobs == (hash,)


def test_no_file_of_the_store_holds_a_byte_of_an_erased_payload(store_path: Path) -> None:
    with opened(store_path) as space:
        hashes = write_payloads(space)
        erase_payloads(space, hashes)
        assert any(found_in(data) for data in files_of(store_path).values())
        report = space.gc(grace_seconds=0)
        assert (report.blobs, report.kept, report.erasures) == (2, 1, 0)
        assert [found_in(data) for data in files_of(store_path).values()] == [[], [], []]
        assert space.erase(f"urn:blob-meta:{hashes[0]}", reason="asked to").blobs == ()
        assert space.blob(hashes[2]) == b"stays"
        assert space.verify().ok


def test_a_payload_whose_collection_was_stopped_is_gone_after_the_next(
    store_path: Path, impatient: None
) -> None:
    with opened(store_path) as space:
        hashes = write_payloads(space)
        erase_payloads(space, hashes)
        with reader_of(store_path), pytest.raises(Busy):
            space.gc(grace_seconds=0)
        assert any(found_in(data) for data in files_of(store_path).values())
    with opened(store_path) as space:
        assert space.gc().erasures == 0
        assert [found_in(data) for data in files_of(store_path).values()] == [[], [], []]
        assert space.verify().ok


@pytest.mark.parametrize("transaction", range(5))
def test_a_collection_that_dies_between_two_transactions_is_finished_by_the_next(
    store_path: Path, transaction: int
) -> None:
    """The next one finishes it also when an erasure of something else has rewritten the files in between."""
    with opened(store_path) as space:
        erase_payloads(space, write_payloads(space))
        with _dying_after(space, transaction), pytest.raises(_Killed):
            space.gc(grace_seconds=0)
        space.erase(NEIGHBOUR, reason="asked to, too")
        space.gc(grace_seconds=0)
        assert [found_in(data) for data in files_of(store_path).values()] == [[], [], []]
        assert space.verify().ok


class _Killed(BaseException):
    pass


@contextlib.contextmanager
def _dying_after(space: rote.Space, transactions: int) -> Iterator[None]:
    """Refuse the next transaction after so many."""
    kernel: Any = space._port
    opened, left = kernel.spaces.open(space.did), [transactions]
    actual = opened.engine

    class Dying:
        def __getattr__(self, name: str) -> Any:
            return getattr(actual, name)

        def writer(self, *arguments: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise _Killed()
            return actual.writer(*arguments, **named)

        def scrub(self, **named: Any) -> Any:
            raise _Killed()

    opened.engine = Dying()
    try:
        yield
    finally:
        opened.engine = actual


def test_a_payload_that_was_collected_before_goes_when_its_description_is_erased(
    store_path: Path,
) -> None:
    with opened(store_path) as space:
        hash = space.put_blob(MARK.encode())
        space.delete(f"urn:blob-meta:{hash}")
        assert space.gc(grace_seconds=0).blobs == 1
        assert any(found_in(data) for data in files_of(store_path).values())
        assert space.erase(f"urn:blob-meta:{hash}", reason="asked to").blobs == ()
        assert [found_in(data) for data in files_of(store_path).values()] == [[], [], []]


# -- by hand ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "salt = null, body = null, value = null",
        "salt = null",
        "body = null",
        "salt = null, body = null, value = cast('{}' as blob)",
        # The remains that an erasure would have left.
        "salt = null, body = null, value = (select value from facts where salt is null limit 1)",
    ],
)
def test_content_that_was_taken_away_by_hand_is_a_fault(store_path: Path, change: str) -> None:
    with opened(store_path) as space:
        space.set(ID, 1)
        space.erase(ID, reason="asked to")
        space.set(NEIGHBOUR, 2)
        space.set(NEIGHBOUR, 3)
    with raw(store_path) as connection:
        connection.execute(f"update facts set {change} where id = ? and version = 3", (NEIGHBOUR,))
    with opened(store_path) as space:
        report = space.verify()
        assert not report.ok
        assert ("fact", 3, NEIGHBOUR) in {(f.kind, f.version, f.id) for f in report.faults}
        with contextlib.suppress(Corrupt):
            assert space.at(3).get(NEIGHBOUR) in (None, 2)


@pytest.mark.parametrize("version", [2, 3, 4, 5], ids="version {}".format)
def test_only_an_erasure_of_the_same_entity_explains_that_content_is_missing(
    store_path: Path, version: int
) -> None:
    """Everything else was made to fit: the remains, and the pointer."""
    with opened(store_path) as space:
        salt = space.set(NEIGHBOUR, 1).facts[0].salt or ""
        space.set(ID, 1)
        space.erase(ID, reason="asked to")
        space.set(ID, 2)
    remains = {"body": sha256(bytes.fromhex(salt) + b"1").hexdigest(), "value": None}
    with raw(store_path) as connection:
        connection.execute(
            "update facts set salt = null, body = null, value = ? where id = ?",
            (rote.canonical({**remains, "version": version}), NEIGHBOUR),
        )
        connection.execute(
            "insert into tombstones select * from entities where id = ?", (NEIGHBOUR,)
        )
        connection.execute("delete from entities where id = ?", (NEIGHBOUR,))
    with opened(store_path) as space:
        faults = [(fault.kind, fault.version, fault.id) for fault in space.verify().faults]
        assert faults == [("fact", 1, NEIGHBOUR)]


def test_remains_that_were_changed_are_a_fault(store_path: Path) -> None:
    """The change is another digest, which only the fact's hash can tell."""
    with opened(store_path) as space:
        space.set(ID, 1)
        space.erase(ID, reason="asked to")
    other = rote.canonical({"body": "0" * 64, "value": None, "version": 2})
    with raw(store_path) as connection:
        connection.execute("update facts set value = ?", (other,))
    with opened(store_path) as space:
        faults = [(fault.kind, fault.version, fault.id) for fault in space.verify().faults]
        assert faults == [("fact", 1, ID)]


def test_content_that_came_back_is_a_fault(store_path: Path) -> None:
    """The content comes back as a restored copy of the row would bring it."""
    with opened(store_path) as space:
        space.set(ID, 1)
        space.patch(ID, [{"op": "replace", "path": "", "value": 2}])
    with raw(store_path) as connection:
        rows = connection.execute("select salt, body, value, version from facts").fetchall()
    with opened(store_path) as space:
        space.erase(ID, reason="asked to")
    with raw(store_path) as connection:
        connection.executemany(
            "update facts set salt = ?, body = ?, value = ? where version = ?", rows
        )
    with opened(store_path) as space:
        assert ("fact", ID) in {(fault.kind, fault.id) for fault in space.verify().faults}


# -- PostgreSQL ------------------------------------------------------------------------------------


def rows_of(schema: str) -> dict[str, bytes]:
    """Return the content of every table, and the statistics that the server has sampled from it."""
    with psycopg.connect(server_url(), autocommit=True) as server:
        server.execute("set bytea_output = 'escape'")
        tables = server.execute(
            "select tablename from pg_tables where schemaname = %s", (schema,)
        ).fetchall()
        found = {
            table: str(
                server.execute(f"select t::text from {schema}.{table} as t".encode()).fetchall()
            ).encode()
            for (table,) in tables
        }
        sampled = server.execute(
            "select s::text from pg_stats as s where schemaname = %s", (schema,)
        ).fetchall()
        return {**found, "statistics": str(sampled).encode()}


def relation_files(schema: str) -> dict[str, bytes]:
    """Return the files of all tables, indexes and large values, where they can be read."""
    with psycopg.connect(server_url(), autocommit=True) as server:
        server.execute("checkpoint")
        folder = Path(str(server.execute("show data_directory").fetchall()[0][0]))
        rows = server.execute(
            "select c.relname, pg_relation_filepath(c.oid) from pg_class as c"
            " where c.relkind in ('r', 'i', 't') and (c.relnamespace = %s::regnamespace or c.oid in"
            " (select reltoastrelid from pg_class where relnamespace = %s::regnamespace))",
            (schema, schema),
        ).fetchall()
    if not folder.is_dir():
        pytest.skip("the files of the server are elsewhere")
    return {name: (folder / str(path)).read_bytes() for name, path in rows if path}


def analyze(schema: str) -> None:
    with psycopg.connect(server_url(), autocommit=True) as server:
        for table in TABLES_OF_SPACES:
            server.execute(f"analyze {schema}.{table}".encode())


def test_no_row_index_or_statistic_of_postgres_holds_a_byte_of_it(tmp_path: Path) -> None:
    with open_postgres(tmp_path) as store:
        space, schema = store.space("agent"), schema_of(tmp_path)
        write(space)
        analyze(schema)
        assert found_in(rows_of(schema)["facts"])
        assert any(found_in(data) for data in relation_files(schema).values())
        erasure = space.erase(ID, reason="asked to")
        assert {
            name: found_in(data) for name, data in rows_of(schema).items() if found_in(data)
        } == {}
        files = relation_files(schema)
        assert {name: found_in(data) for name, data in files.items() if found_in(data)} == {}
        assert erasure.remaining == scrubbing.OUT_OF_REACH
        assert space.verify().ok


def test_gc_gives_the_room_back_that_a_reader_of_postgres_was_in_the_way_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrubbing, "BUSY_SECONDS_MAX", BUSY_SECONDS)
    with open_postgres(tmp_path) as store, psycopg.connect(server_url()) as reader:
        space = store.space("agent")
        for number in range(5):
            space.set(ID, number)
        reader.execute(f"select count(*) from {schema_of(tmp_path)}.facts".encode())
        assert not space.compact(keep=1).is_shrunk
        with pytest.raises(Busy, match="another program is using"):
            space.gc()
        reader.rollback()
        report = space.gc()
        assert (report.is_shrunk, report.erasures) == (True, 0)
        assert not space.gc().is_shrunk
        assert space.verify().ok


def test_no_relation_of_postgres_holds_a_byte_of_an_erased_payload(tmp_path: Path) -> None:
    with open_postgres(tmp_path) as store:
        space, schema = store.space("agent"), schema_of(tmp_path)
        hashes = write_payloads(space)
        early = space.put_blob(MARK[:512].encode())
        space.delete(f"urn:blob-meta:{early}")
        assert space.gc(grace_seconds=0).blobs == 1
        analyze(schema)
        erase_payloads(space, hashes)
        assert any(found_in(data) for data in relation_files(schema).values())
        assert space.gc(grace_seconds=0).blobs == 2
        files = {**relation_files(schema), **rows_of(schema)}
        assert {name: found_in(data) for name, data in files.items() if found_in(data)} == {}
        assert space.blob(hashes[2]) == b"stays"
        assert space.verify().ok


def test_a_payload_that_postgres_collected_before_goes_with_its_description(
    tmp_path: Path,
) -> None:
    with open_postgres(tmp_path) as store:
        space, schema = store.space("agent"), schema_of(tmp_path)
        hash = space.put_blob(MARK.encode())
        space.delete(f"urn:blob-meta:{hash}")
        assert space.gc(grace_seconds=0).blobs == 1
        assert any(found_in(data) for data in relation_files(schema).values())
        space.erase(f"urn:blob-meta:{hash}", reason="asked to")
        assert not any(found_in(data) for data in relation_files(schema).values())


def test_gc_finishes_what_a_reader_of_postgres_was_in_the_way_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrubbing, "BUSY_SECONDS_MAX", BUSY_SECONDS)
    schema = schema_of(tmp_path)
    with open_postgres(tmp_path) as store, psycopg.connect(server_url()) as reader:
        space = store.space("agent")
        write(space)
        reader.execute(f"select count(*) from {schema}.facts".encode())
        with pytest.raises(Busy) as caught:
            space.erase(ID, reason="asked to")
        assert caught.value.details["version"] == space.version
        assert space.read(ID).erased
        assert any(found_in(data) for data in relation_files(schema).values())
        reader.rollback()
        assert space.gc().erasures == 1
        assert not any(found_in(data) for data in relation_files(schema).values())
        assert space.gc().erasures == 0


@pytest.mark.parametrize(
    "statement",
    ["select 1", "select pg_current_xact_id()"],
    ids=["that reads elsewhere", "that writes elsewhere"],
)
def test_an_open_transaction_on_the_server_for_which_old_rows_stay_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """The transaction has no lock on any table of the store. PostgreSQL still keeps for it the rows
    that it could see, and rewriting a table copies them."""
    monkeypatch.setattr(scrubbing, "BUSY_SECONDS_MAX", BUSY_SECONDS)
    schema = schema_of(tmp_path)
    with open_postgres(tmp_path) as store, psycopg.connect(server_url()) as other:
        space = store.space("agent")
        write(space)
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute(statement.encode())
        with pytest.raises(Busy, match=f"session {other.info.backend_pid}") as caught:
            space.erase(ID, reason="asked to")
        assert caught.value.details["version"] == space.version
        other.rollback()
        assert space.gc().erasures == 1
        assert not any(found_in(data) for data in relation_files(schema).values())


def test_a_table_may_take_longer_to_write_anew_than_any_other_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that someone has locked stands for a large one: the answer comes late."""
    answer_seconds = 1
    schema = schema_of(tmp_path)
    with open_postgres(tmp_path) as store, psycopg.connect(server_url()) as holder:
        space = store.space("agent")
        write(space)
        monkeypatch.setattr(connections_of_postgres, "POSTGRES_ANSWER_SECONDS_MAX", answer_seconds)
        # Not a transaction that reads rows: scrub would wait for that one before it asks for the table.
        holder.execute(f"lock table {schema}.derived in access share mode".encode())
        release = threading.Timer(3 * answer_seconds, holder.rollback)
        release.start()
        assert space.erase(ID, reason="asked to").facts > 0
        release.join()

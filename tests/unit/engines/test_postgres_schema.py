"""Making a store in a schema, and the plans of the look-ups in it."""

import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import rote
from rote.engines.postgres import PostgresEngine
from rote.engines.postgres import schema as schemas
from rote.engines.postgres.schema import MIGRATIONS
from rote.engines.postgres.writes import Presumed
from rote.engines.rows import MAIN, Batch, DerivedRow, EntityRow
from rote.engines.sqlite import SqliteEngine
from rote.errors import InvalidInput, NotFound, RoteError, Unavailable
from rote.testing.engine_suite.ground import MAIN_BRANCH, ON_MAIN, commit, fact
from rote.testing.engine_suite.packed import segment, vector
from rote.testing.postgres import database_url, schema_of, server_url

STARTERS = 8


@pytest.fixture
def schema(tmp_path: Path) -> str:
    return schema_of(tmp_path)


@pytest.fixture
def server() -> Iterator[psycopg.Connection]:
    with psycopg.connect(server_url(), autocommit=True) as connection:
        yield connection


def run(server: psycopg.Connection, text: str) -> None:
    server.execute(text.encode())


def test_starters_at_once_make_one_store(schema: str) -> None:
    url, barrier = server_url(), threading.Barrier(STARTERS)
    outcomes: list[PostgresEngine | RoteError] = []

    def start() -> None:
        barrier.wait()
        try:
            outcomes.append(PostgresEngine(url, schema=schema))
        except RoteError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=start) for _ in range(STARTERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [type(outcome) for outcome in outcomes] == [PostgresEngine] * STARTERS
    for engine in outcomes:
        assert isinstance(engine, PostgresEngine)
        assert engine.spaces() == []
        engine.close()


def test_without_leave_to_create_a_missing_store_is_not_found_and_stays_missing(
    schema: str, server: psycopg.Connection
) -> None:
    with pytest.raises(NotFound):
        PostgresEngine(server_url(), schema=schema, create=False)
    found = server.execute("select 1 from pg_namespace where nspname = %s", (schema,)).fetchall()
    assert found == []


def test_a_schema_that_an_administrator_made_is_used(
    schema: str, server: psycopg.Connection
) -> None:
    run(server, f"create schema {schema}")
    PostgresEngine(server_url(), schema=schema).close()
    PostgresEngine(server_url(), schema=schema, create=False).close()


def test_a_schema_with_other_tables_is_refused_untouched(
    schema: str, server: psycopg.Connection
) -> None:
    run(server, f"create schema {schema}; create table {schema}.precious (n bigint)")
    with pytest.raises(InvalidInput):
        PostgresEngine(server_url(), schema=schema)
    found = server.execute(
        "select count(*) from pg_tables where schemaname = %s", (schema,)
    ).fetchall()
    assert found == [(1,)]


def test_a_store_of_a_newer_rote_is_refused(schema: str, server: psycopg.Connection) -> None:
    PostgresEngine(server_url(), schema=schema).close()
    run(server, f"update {schema}.store set format = {len(MIGRATIONS) + 1}")
    with pytest.raises(Unavailable, match="upgrade Rote"):
        PostgresEngine(server_url(), schema=schema)


@pytest.mark.parametrize(
    "name", ["", "Rote", "ro te", "pg_rote", "1", 'x"; drop', "é", "a" * 64, 7]
)
def test_a_name_that_is_another_one_without_quotes_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        PostgresEngine(server_url(), schema=name)


@pytest.mark.parametrize("name", ["user", "order", "table"])
def test_a_schema_may_have_the_name_of_a_word_of_sql(name: str, tmp_path: Path) -> None:
    url = database_url(tmp_path)
    with rote.open(url, schema=name, keys=tmp_path / "keys") as store:
        space = store.space("notes")
        space.set("urn:a", 1, key="k")
        space.transact([{"op": "set", "id": id, "value": 2} for id in ("urn:a", "urn:b")])
        space.delete("urn:b")
        assert [state.id for state in space.scan()] == ["urn:a"]
        assert space.verify().ok
        store.backup(tmp_path / "copy.db")
    with rote.open(url, schema=name, create=False) as store:
        assert store.space("notes").get("urn:a") == 2


@pytest.mark.parametrize("format", range(1, len(MIGRATIONS)))
def test_a_store_of_an_older_format_is_brought_up_to_date_and_works(
    schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: int
) -> None:
    url = server_url()
    with monkeypatch.context() as old:
        old.setattr(schemas, "MIGRATIONS", MIGRATIONS[:format])
        PostgresEngine(url, schema=schema).close()
    with rote.open(url, schema=schema, keys=tmp_path / "keys") as store:
        space = store.space("notes")
        space.set("urn:a", 1, key="k")
        space.set("urn:a", 2)
        assert space.verify().ok
    PostgresEngine(url, schema=schema, create=False).close()


def test_a_look_at_an_older_format_finds_nothing_new_until_it_is_brought_up_to_date(
    schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server_url()
    with monkeypatch.context() as old:
        old.setattr(schemas, "MIGRATIONS", MIGRATIONS[:5])
        engine = PostgresEngine(url, schema=schema)
    space = engine.create_space(did="d", name="x", seal=b"", main=MAIN_BRANCH).number
    engine.close()
    look = PostgresEngine(url, schema=schema, read_only="it is a test")

    def found() -> list[int]:
        reads = look.reader()
        return [
            len(reads.segments(space, "words/1")), len(reads.segment_bodies(space, "words/1", [1])),
            len(reads.postings(space, "words/1", [1], ["a"])),
            len(reads.postings_of(space, "words/1", 1, after="", limit=9)),
            len(reads.vectors(space, "v", [b"h"])), len(reads.vector_names(space)),
            len(reads.vector_rows(space, "v", after=b"", limit=9)),
        ]  # fmt: skip

    assert found() == [0] * 7
    look.backup(tmp_path / "copy.db")
    copy = SqliteEngine(tmp_path / "copy.db")
    assert [row.name for row in copy.spaces()] == ["x"]
    copy.close()
    engine = PostgresEngine(url, schema=schema)
    with engine.writer(space) as writes:
        writes.put_segment(space, "words/1", segment(1), [("a", b"1")])
        writes.put_vectors(space, "v", [vector(b"h")])
    engine.close()
    assert found() == [1] * 7
    look.close()


def test_tables_that_are_gone_are_told_by_a_store_that_is_written_to(
    schema: str, server: psycopg.Connection
) -> None:
    engine = PostgresEngine(server_url(), schema=schema)
    run(server, f"drop table {schema}.segments")
    with pytest.raises(Unavailable, match="the tables are gone"):
        engine.reader().segments(1, "words/1")
    engine.close()


def test_a_store_is_opened_by_its_url_and_its_keys_are_in_the_folder_that_was_named(
    schema: str, tmp_path: Path
) -> None:
    url = server_url()
    with rote.open(url, schema=schema, keys=tmp_path / "keys") as store:
        space = store.space("notes")
        space.set("urn:a", 1)
        assert [file.name for file in (tmp_path / "keys").iterdir()] == [space.did]
    with rote.open(url.replace("postgresql:", "postgres:"), schema=schema, create=False) as store:
        assert store.space("notes").get("urn:a") == 1
        with pytest.raises(NotFound):
            store.space("other")


@pytest.mark.parametrize("options", [{"schema": "other"}, {"keys": "folder"}])
def test_what_only_postgresql_has_is_refused_for_a_file(options: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        rote.open(":memory:", **options)  # type: ignore[arg-type]


def test_a_head_row_that_was_changed_is_found(
    schema: str, server: psycopg.Connection, tmp_path: Path
) -> None:
    with rote.open(server_url(), schema=schema, keys=tmp_path) as store:
        space = store.space("notes")
        for value in range(3):
            space.set("urn:a", value)
        assert space.verify().ok
        run(server, f"update {schema}.spaces set version = 2, changes = changes + 1")
        assert not space.verify().ok


# -- look-ups --------------------------------------------------------------------------------------

ROWS = 3_000
PACKED = ("segments", "postings", "vectors")


@pytest.fixture
def filled(schema: str) -> Iterator[tuple[PostgresEngine, int]]:
    """Yield rows without statistics: the server has not sampled them yet, as after a first load."""
    engine = PostgresEngine(server_url(), schema=schema, durability="os")
    space = engine.create_space(did="d", name="x", seal=b"", main=MAIN_BRANCH).number
    for start in range(1, ROWS, 500):
        facts = [fact(f"urn:{version}", version) for version in range(start, start + 500)]
        pointers = [EntityRow(MAIN, row.id, row.version, 0, True) for row in facts]
        terms = [DerivedRow(row.id, row.id, MAIN, row.version, None) for row in facts]
        with engine.writer(space) as writes:
            writes.append(space, Batch([commit(row.version) for row in facts], facts, pointers))
            writes.derive(space, "words/1", rows=terms, ended=[], indexed=start + 499)
            postings = [(f"{number:05}", bytes(100)) for number in range(500)]
            writes.put_segment(space, "words/1", segment(start), postings)
            writes.put_vectors(space, "v", [vector(f"{row.version:05}".encode()) for row in facts])
    yield engine, space
    engine.close()


@pytest.mark.parametrize("has_statistics", [False, True])
def test_every_look_up_goes_by_an_index(
    filled: tuple[PostgresEngine, int], server: psycopg.Connection, has_statistics: bool
) -> None:
    engine, space = filled
    if has_statistics:
        for table in ("facts", "commits", "entities", "tombstones", "sides", "derived", *PACKED):
            run(server, f"analyze {engine._schema}.{table}")
    asked: list[tuple[str, tuple[object, ...]]] = []
    reads = engine.reader()
    ask = reads._ask

    def remember(text: str, values: tuple[object, ...]) -> list[object]:
        asked.append((text, values))
        return ask(text, values)

    reads._ask = remember  # type: ignore[assignment]
    newest = ((2, 2**62), *ON_MAIN)
    reads.head(space)
    reads.newest(space, ["urn:7"], ON_MAIN)
    reads.newest(space, ["urn:7", "urn:8", "urn:never"], newest)
    reads.history(space, "urn:7", newest, before=None, after=0, limit=9)
    reads.salts(space, ["urn:7", "urn:never"])
    reads.commits(space, after=7, limit=2)
    reads.facts(space, after=7, until=8)
    reads.changed(space, after=7, until=9, limit=9)
    reads.entities(space, ((MAIN, 9),), start="urn:7", end="urn:7\0", limit=9)
    reads.entities(space, newest, start="urn:7", end=None, limit=9)
    reads.written(space, [(MAIN, ROWS - 9, ROWS)])
    reads.last_written(space, newest)
    reads.events(space, after=0, limit=9)
    reads.entity_rows(space, after=(MAIN, "urn:7"), limit=9)
    reads.pointers(space, MAIN, ["urn:7"])
    reads.newest_in_range(space, newest, start="urn:7", end="urn:8", after=ROWS - 9)
    reads.side(space, "run", "r")
    reads.sides(space, "run", after=("run", ""), limit=9)
    reads.derived(space, "words/1", ON_MAIN, start="urn:7", end="urn:8", after=None, limit=9)
    reads.derived_of(space, "words/1", "urn:7")
    reads.segment_bodies(space, "words/1", [1, 501])
    reads.postings(space, "words/1", [1, 501], ["00007", "00009"])
    reads.postings_of(space, "words/1", 501, after="00007", limit=9)
    reads.vectors(space, "v", [b"00007", b"00009"])
    reads.vector_names(space)
    reads.vector_rows(space, "v", after=b"00007", limit=9)
    for text, values in asked:
        rows = ask(f"explain (analyze, timing off) {text}", values)
        plan = "\n".join(line for (line,) in rows)
        assert "Seq Scan on facts" not in plan, plan
        assert "Seq Scan on commits" not in plan, plan
        assert "Seq Scan on entities" not in plan, plan
        assert "Seq Scan on derived" not in plan, plan
        assert "Seq Scan on postings" not in plan, plan
        assert "Seq Scan on vectors" not in plan, plan
        if "facts_by_log" in plan and "f.id = " in text:
            raise AssertionError(f"walks through a branch for one entity:\n{plan}")


@pytest.mark.parametrize("has_statistics", [False, True])
def test_that_many_entities_are_new_is_found_by_their_ids(
    filled: tuple[PostgresEngine, int], server: psycopg.Connection, has_statistics: bool
) -> None:
    """For an array of ids the planner walked through the whole log, in each commit."""
    engine, space = filled
    if has_statistics:
        run(server, f"analyze {engine._schema}.facts")
    values: list[object] = [space]
    presumed = Presumed({f"urn:never:{number}" for number in range(100)})
    conditions = presumed.conditions(engine._schema, "$1", values)
    text = f"select number from {engine._schema}.spaces where number = $1{conditions}"
    reads = engine.reader()
    assert reads._ask(text, values) == [(space,)]
    plan = "\n".join(line for (line,) in reads._ask(f"explain {text}", values))
    assert "facts_pkey" in plan, plan
    assert "facts_by_log" not in plan, plan
    assert "Seq Scan on facts" not in plan, plan

"""Statements that the sqlite adapter refuses, and those that it runs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from rote.errors import LimitExceeded, RoteError
from rote.tiers.sqlite.adapter import Tables, open_sqlite
from tests.lanes import SLOW
from tests.unit.tiers.calling import call, refusal
from tests.unit.tiers.sqlite.legitimate import QUERIES, WRITES
from tests.unit.tiers.sqlite.refused import BOMBS, REFUSED
from tests.unit.tiers.sqlite.scene import ALLOWED, SECRET, contents, make_database

SECONDS = 0.1


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sqlite") / "pristine.db"
    make_database(path)
    return path


@pytest.fixture
def path(pristine: Path, tmp_path: Path) -> Path:
    path = tmp_path / "m.db"
    path.write_bytes(pristine.read_bytes())
    return path


def opened(path: Path, **options: Any) -> Tables:
    return open_sqlite(
        {"path": str(path), "allow_tables": list(ALLOWED), "allow_write": True, **options}
    )


@pytest.fixture
def box(path: Path) -> Iterator[Tables]:
    box = opened(path)
    yield box
    box.close()


def test_the_tables_of_statements_are_as_long_as_they_should_be() -> None:
    assert len(set(REFUSED)) >= 300
    assert len({sql for sql, *_ in (*QUERIES, *WRITES)}) >= 150


def test_no_way_round_the_allow_list_is_open(box: Tables, path: Path) -> None:
    before = contents(path)
    wrong = []
    for verb, code, sql in REFUSED:
        try:
            answer = call(box, verb, sql)
        except RoteError as error:
            if error.code != code or SECRET in str(error.to_dict()):
                wrong.append((verb, sql, repr(error)))
        else:
            wrong.append((verb, sql, str(answer)))
    assert not wrong, "\n".join(map(str, wrong))
    assert contents(path) == before


def test_with_every_table_allowed_only_tables_are(path: Path) -> None:
    box = opened(path, allow_tables=["*"])
    assert call(box, "query", "SELECT password FROM users WHERE id = 1")["rows"] == [
        {"password": SECRET}
    ]
    assert call(box, "query", "SELECT name FROM leaky LIMIT 1")["rows"] == [{"name": "root"}]
    assert call(box, "execute", "INSERT INTO logged VALUES (1)")["rows_affected"] == 1
    assert call(box, "execute", "CREATE TABLE anything(a, b AS (a))")["rows_affected"] == 0
    for sql in (
        "SELECT * FROM sqlite_schema", "SELECT * FROM pragma_table_info('users')", "SELECT * FROM docs",
        "SELECT count(*) FROM pragma_table_info('users')", "SELECT * FROM schema_view",
        "SELECT count(*) FROM sqlite_master", "SELECT load_extension('x')", "SELECT * FROM carray(1, 2)",
        "SELECT * FROM temp.sqlite_schema", "SELECT count(*) FROM docs", "SELECT * FROM sqlite_sequence",
    ):  # fmt: skip
        assert refusal(box, "query", sql).code == "sql_denied", sql
    box.close()


@pytest.mark.parametrize("allowed", [["*"], ["docs_data", "boxes_node", "DOCS_NEW", "docs"]])
def test_the_tables_below_a_virtual_one_are_not_written(allowed: list[str], path: Path) -> None:
    """Another program that knows the virtual table would read what was put there."""
    before = contents(path)
    box = opened(path, allow_tables=allowed)
    for sql in (
        "DELETE FROM docs_data", "UPDATE docs_data SET block = x'00'", "INSERT INTO docs VALUES ('x')",
        "INSERT INTO Docs_Data VALUES (9, x'')", "REPLACE INTO boxes_node VALUES (1, x'')",
        "DROP TABLE docs_data", "CREATE INDEX i ON docs_data(block)", "CREATE TABLE docs_new(a)",
    ):  # fmt: skip
        assert refusal(box, "execute", sql).code == "sql_denied", sql
    assert call(box, "query", "SELECT count(*) AS n FROM docs_data")["rows"][0]["n"] > 0
    box.close()
    assert contents(path) == before


def test_no_table_is_allowed_by_an_empty_list(path: Path) -> None:
    box = opened(path, allow_tables=[])
    assert call(box, "query", "SELECT 1")["rows"] == [{"1": 1}]
    assert refusal(box, "query", "SELECT * FROM metrics").code == "sql_denied"
    box.close()


def test_names_on_the_list_open_nothing_that_is_no_table(path: Path) -> None:
    names = ["sqlite_schema", "pragma_table_info", "docs", "carray", "sqlite_master", "leaky"]
    box = opened(path, allow_tables=names)
    for sql in (
        "SELECT * FROM sqlite_schema", "SELECT * FROM pragma_table_info('users')", "SELECT * FROM docs",
        "SELECT count(*) FROM sqlite_master", "SELECT * FROM leaky",
    ):  # fmt: skip
        assert refusal(box, "query", sql).code == "sql_denied", sql
    box.close()


@pytest.mark.parametrize(
    "granted", [("events",), ("EVENTS",), ("events", "users"), ("é", "events")]
)
def test_a_grant_only_narrows(granted: tuple[str, ...], box: Tables) -> None:
    grant = {"allow_tables": granted}
    assert call(box, "query", "SELECT count(*) AS n FROM events", granted=grant)["rows"] == [
        {"n": 2}
    ]
    for sql in ("SELECT * FROM metrics", "SELECT * FROM users", "SELECT * FROM é"):
        assert refusal(box, "query", sql, granted=grant).code == "sql_denied"
    assert call(box, "query", "SELECT count(*) AS n FROM metrics")["rows"] == [{"n": 4}]


@pytest.mark.parametrize("kind", ["delete", "wal"])
def test_legitimate_queries_work(kind: str, path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", kind)
    connection.close()
    box = opened(path, allow_write=False)
    wrong = []
    for sql, params, rows in QUERIES:
        try:
            answer = call(box, "query", sql, params)
        except RoteError as error:
            wrong.append((sql, repr(error)))
            continue
        got = [[row[name] for name in answer["columns"]] for row in answer["rows"]]
        if rows is not None and got != rows:
            wrong.append((sql, str(got)))
    assert not wrong, "\n".join(map(str, wrong))
    box.close()


def test_legitimate_writes_work_and_are_there_for_others(pristine: Path, path: Path) -> None:
    template, other = apsw.Connection(str(pristine)), apsw.Connection(str(path))
    before = contents(path)
    box = opened(path)
    wrong = []
    for sql, params, affected, rowid in WRITES:
        try:
            answer = call(box, "execute", sql, params)
        except RoteError as error:
            wrong.append((sql, repr(error)))
            continue
        if answer != {"rows_affected": affected, "lastrowid": rowid}:
            wrong.append((sql, str(answer)))
        is_changed = contents(path) != before
        changes = affected > 0 or sql.startswith(("CREATE", "DROP", "INSERT INTO good_inlet"))
        if is_changed != changes and "EXISTS" not in sql:
            wrong.append((sql, "changed" if is_changed else "nothing was written"))
        with other.backup("main", template, "main") as backup:
            backup.step()
    assert not wrong, "\n".join(map(str, wrong))
    box.close()


def test_bombs_end_in_time_and_the_next_call_works(path: Path) -> None:
    box = opened(
        path,
        timeout_seconds=SECONDS,
        max_memory_bytes=64 * 2**20,
        max_rows=100,
        max_result_bytes=50_000,
    )
    for limit, sql in BOMBS if SLOW else BOMBS[::3]:
        error = refusal(box, "query", sql)
        assert isinstance(error, LimitExceeded), (sql, error)
        assert limit in str(error), (sql, error)
        assert call(box, "query", "SELECT 1 AS x")["rows"] == [{"x": 1}]
    box.close()

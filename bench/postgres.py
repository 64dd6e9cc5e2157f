"""Rote on PostgreSQL, on a server of its own with every safety on, against the driver alone.

The raw side writes the same rows into the same tables, one statement each, between BEGIN and COMMIT,
with the driver's prepared statements. The connection is a Unix socket, where a round trip is
cheapest. So the gain from fewer round trips is not exaggerated.
"""

import contextlib
from collections.abc import Callable, Iterator
from functools import cache, partial

import orjson
import psycopg

import rote
from bench.documents import Document, Documents
from bench.harness import Benchmark, Effort, Measure, Result, compare_rates, timed
from bench.raw import RawCommit, RawRows
from rote import Space
from rote.engines.postgres import PostgresEngine
from rote.testing.postgres import DURABLE, PostgresServer

WARM_UP = 20
RAW, ROTE = "raw", "rote"

_COMMIT = "insert into raw.commits values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
_FACT = "insert into raw.facts values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
_ENTITY = "insert into raw.entities values (%s, %s, %s, %s, %s)"
_CURRENT = "select body from raw.facts where space = %s and id = %s order by version desc limit 1"

_View = Callable[[Space], contextlib.AbstractContextManager[Space | rote.Transaction]]


@cache
def server() -> PostgresServer:
    return PostgresServer(DURABLE)


def fresh_schemas() -> None:
    """Drop both schemas; make the tables of the raw side, which are the same as Rote's."""
    url = server().url
    with psycopg.connect(url, autocommit=True) as connection:
        for schema in (RAW, ROTE):
            connection.execute(f"drop schema if exists {schema} cascade")
    PostgresEngine(url, schema=RAW).close()


def single(effort: Effort) -> Result:
    sides = _Sides()
    count = effort.count(300, 20)
    return compare_rates(effort, partial(sides.raw, count), partial(sides.rote, count, 1))


def by_100(effort: Effort) -> Result:
    """Compare operations a second; a commit of 100 counts 100 times."""
    sides = _Sides()
    count = effort.count(300, 20)
    commits = effort.count(20, 2)
    return compare_rates(effort, partial(sides.raw, count), partial(sides.rote, commits, 100))


def warm(effort: Effort, *, view: _View) -> Result:
    sides = _Sides()
    ids = sides.fill(effort.count(500, 50))
    again = ids * effort.count(4, 1)
    return compare_rates(effort, partial(sides.select, again), partial(sides.get, ids, again, view))


class _Sides:
    """Two schemas with the same tables, emptied for each benchmark."""

    def __init__(self) -> None:
        fresh_schemas()
        self._url = server().url
        self._rows = RawRows()
        self._raw_documents, self._rote_documents = Documents(), Documents()

    def raw(self, count: int) -> Measure:
        documents = self._raw_documents
        warm, commits = (
            self._rows.commits([documents.notes(1) for _ in range(number)])
            for number in (WARM_UP, count)
        )
        with psycopg.connect(self._url, autocommit=True) as connection:
            _write_raw(connection, warm)
            return timed(count, lambda: _write_raw(connection, commits))

    def rote(self, commits: int, size: int) -> Measure:
        documents = self._rote_documents
        warm, batches = (
            [documents.notes(size) for _ in range(number)] for number in (WARM_UP, commits)
        )
        with self._space() as space:
            _write(space, warm)
            return timed(commits * size, lambda: _write(space, batches))

    def fill(self, count: int) -> list[str]:
        """Write the same entities on both sides; return their ids."""
        notes = Documents().notes(count)
        with psycopg.connect(self._url, autocommit=True) as connection:
            _write_raw(connection, self._rows.commits([[note] for note in notes]))
        with self._space() as space:
            _write(space, [notes])
        return [id for id, _ in notes]

    def select(self, ids: list[str]) -> Measure:
        def work() -> None:
            execute, loads = cursor.execute, orjson.loads
            for id in ids:
                row = execute(_CURRENT, (1, id)).fetchone()
                assert row is not None
                loads(row[0])

        with psycopg.connect(self._url, autocommit=True) as connection:
            cursor = connection.cursor()
            return timed(len(ids), work)

    def get(self, before: list[str], ids: list[str], view: _View) -> Measure:
        with self._space() as space, view(space) as seen:
            for id in before:
                seen.get(id)

            def work() -> None:
                get = seen.get
                for id in ids:
                    get(id)

            return timed(len(ids), work)

    @contextlib.contextmanager
    def _space(self) -> Iterator[Space]:
        with rote.open(self._url, schema=ROTE) as store:
            yield store.space("bench")


def _write_raw(connection: psycopg.Connection, commits: list[RawCommit]) -> None:
    execute = connection.cursor().execute
    for commit in commits:
        execute("begin")
        execute(_COMMIT, commit.commit)
        for fact in commit.facts:
            execute(_FACT, fact)
        for entity in commit.entities:
            execute(_ENTITY, entity)
        execute("commit")


def _write(space: Space, batches: list[list[tuple[str, Document]]]) -> None:
    for batch in batches:
        space.transact([{"op": "set", "id": id, "value": value} for id, value in batch])


def _transaction(space: Space) -> contextlib.AbstractContextManager[rote.Transaction]:
    return space.transaction()


def _head(space: Space) -> contextlib.AbstractContextManager[Space]:
    return contextlib.nullcontext(space)


BENCHMARKS = [
    Benchmark("postgres/set", "one set, against a five-statement transaction", 1.3, 1.7, single),
    Benchmark(
        "postgres/100", "operations in commits of 100, against single raw commits", 8, 20, by_100
    ),
    Benchmark(
        "postgres/read/pinned",
        "warm read in a transaction, against a select by key",
        5,
        20,
        partial(warm, view=_transaction),
    ),
    Benchmark(
        "postgres/read/head",
        "warm read at the head, which asks for the version, against the same",
        0.8,
        1.0,
        partial(warm, view=_head),
    ),
]

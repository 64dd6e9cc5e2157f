"""The cost of the sandboxes: statements in a worker process, files by descriptors alone."""

import os
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import apsw

import rote
from bench.harness import Benchmark, Effort, Result, compare_times, timed

ROWS = 10_000
PAGE = 100
TEXT = "x" * 4_000


def _database(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.execute(
        "create table metrics(id integer primary key, name text, value real, at text)"
    )
    with connection:
        connection.executemany(
            "insert into metrics(name, value, at) values (?, ?, ?)",
            ((f"metric-{n % 50}", n / 7, f"2026-01-01T00:00:{n % 60:02}Z") for n in range(ROWS)),
        )
    connection.pragma("synchronous", "extra")
    return connection


def _statements(
    effort: Effort, verb: str, sql: str, parameters: Callable[[], list[Any]], times: int
) -> Result:
    raw = _database(effort.folder / "m.db")
    options = {
        "path": str(effort.folder / "m.db"),
        "allow_tables": ["metrics"],
        "allow_write": True,
    }
    with rote.Host("compute-and-store", sqlite=options) as host:
        host.call("sqlite", "query", ["SELECT 1"])  # starts the worker

        def in_process() -> None:
            for _ in range(times):
                cursor = raw.execute(sql, parameters())
                if verb == "query":
                    names = [name for name, *_ in cursor.get_description()]
                    assert [dict(zip(names, row, strict=True)) for row in cursor]

        def by_host() -> None:
            for _ in range(times):
                host.call("sqlite", verb, [sql, parameters()])

        sides = partial(timed, times, in_process), partial(timed, times, by_host)
        result = compare_times(effort, *sides)
    raw.close()
    return result


def one_row(effort: Effort) -> Result:
    """Measure a query of one row by its key, against apsw in this process."""
    numbers = count(1)
    sql = "SELECT * FROM metrics WHERE id = ?"
    times = effort.count(2_000, 20)
    return _statements(effort, "query", sql, lambda: [next(numbers) % ROWS + 1], times)


def many_rows(effort: Effort) -> Result:
    """Measure a query that reads all rows and returns groups of them."""
    sql = "SELECT name, count(*) AS n, avg(value) AS mean FROM metrics WHERE id > ? GROUP BY name"
    return _statements(effort, "query", sql, lambda: [5], effort.count(100, 2))


def page(effort: Effort) -> Result:
    """Measure a query of a page of rows."""
    sql = f"SELECT * FROM metrics WHERE id > ? LIMIT {PAGE}"
    return _statements(effort, "query", sql, lambda: [500], effort.count(500, 5))


def insert(effort: Effort) -> Result:
    """Measure a durable insert."""
    sql = "INSERT INTO metrics(name, value) VALUES (?, ?)"
    return _statements(effort, "execute", sql, lambda: ["new", 1.5], effort.count(300, 5))


def write(effort: Effort) -> Result:
    """Measure a write of 4 KB against the calls of the system that it needs."""
    times = effort.count(300, 5)
    folders = {name: effort.folder / name for name in ("raw", "rote")}
    for folder in folders.values():
        (folder / "reports").mkdir(parents=True)

    def bare() -> None:
        place = folders["raw"] / "reports"
        for number in range(times):
            file = os.open(place / "draft", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            os.write(file, TEXT.encode())
            os.fsync(file)
            os.close(file)
            (place / "draft").rename(place / f"{number % 10}.txt")
            folder = os.open(place, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)

    with rote.Host("compute-and-store", fs={"sandbox_root": str(folders["rote"])}) as host:

        def by_host() -> None:
            for number in range(times):
                host.call("fs", "write", [f"reports/{number % 10}.txt", TEXT])

        return compare_times(effort, partial(timed, times, bare), partial(timed, times, by_host))


def read(effort: Effort) -> Result:
    """Measure a read of 4 KB, two folders deep, against the file's own."""
    times = effort.count(2_000, 20)
    (effort.folder / "a" / "b").mkdir(parents=True)
    path = effort.folder / "a" / "b" / "f.txt"
    path.write_text(TEXT)

    def bare() -> None:
        for _ in range(times):
            with path.open(encoding="utf-8") as file:
                assert file.read()

    with rote.Host("compute-and-store", fs={"sandbox_root": str(effort.folder)}) as host:

        def by_host() -> None:
            for _ in range(times):
                host.call("fs", "read", ["a/b/f.txt"])

        return compare_times(effort, partial(timed, times, bare), partial(timed, times, by_host))


BENCHMARKS = [
    Benchmark(
        "tier/sqlite-row", "sqlite.query of one row vs apsw in process", 40, 15, one_row, "at most"
    ),
    Benchmark(
        "tier/sqlite-page", "sqlite.query of 100 rows vs apsw in process", 12, 5, page, "at most"
    ),
    Benchmark(
        "tier/sqlite-groups",
        "sqlite.query over 10,000 rows vs apsw in process",
        2,
        1.2,
        many_rows,
        "at most",
    ),
    Benchmark(
        "tier/sqlite-insert",
        "sqlite.execute of an insert vs apsw in process, fsync",
        2,
        1.2,
        insert,
        "at most",
    ),
    Benchmark(
        "tier/fs-write",
        "fs.write of 4 KB vs open, write, fsync, rename, fsync",
        1.5,
        1.1,
        write,
        "at most",
    ),
    Benchmark("tier/fs-read", "fs.read of 4 KB vs open and read", 6, 2, read, "at most"),
]

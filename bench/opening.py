"""The cost of opening a store with many spaces, against one with a single space.

The spaces are rows without content, made by the engine itself. In one of them a run is open, which
every opening finds and leaves alone, because its lease has not run out.
"""

import os
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

import rote
from bench.harness import Benchmark, Effort, Measure, Result, compare_times, timed
from bench.postgres import server
from rote.cli.app import app
from rote.engines import Engine
from rote.engines.postgres import PostgresEngine
from rote.engines.sqlite import SqliteEngine
from rote.kernel.log.branch_rows import main_row
from rote.kernel.log.seals import space_seal

MANY = 10_000
ID = "urn:entity:a"


def open_file(effort: Effort, *, with_run: bool) -> Result:
    return compare_times(
        effort, *(partial(_open, str(path), effort) for path in _files(effort, with_run=with_run))
    )


def get(effort: Effort) -> Result:
    """Compare `rote get`, in this process: starting the interpreter costs the same everywhere."""
    return compare_times(
        effort, *(partial(_get, str(path), effort) for path in _files(effort, with_run=True))
    )


def open_postgres(effort: Effort) -> Result:
    keys = effort.folder / "keys"
    urls = []
    for schema, count in (("one", 1), ("many", effort.count(MANY, 20))):
        _fill(
            partial(PostgresEngine, server().url, schema=schema, durability="os"),
            partial(rote.open, server().url, schema=schema, keys=keys),
            count,
            with_run=True,
        )
        urls.append(f"{server().url}&schema={schema}")
    return compare_times(effort, *(partial(_open, url, effort, keys=keys) for url in urls))


def _open(url: str, effort: Effort, keys: Path | None = None) -> Measure:
    def work() -> None:
        for _ in range(count):
            rote.open(url, keys=keys).close()

    count = effort.count(100, 3)
    return timed(count, work)


def _get(path: str, effort: Effort) -> Measure:
    def work() -> None:
        for _ in range(count):
            _command("get", ID, "--store", path)

    count = effort.count(50, 2)
    with Path(os.devnull).open("w") as nothing, redirect_stdout(nothing):
        return timed(count, work)


def _command(*arguments: str) -> None:
    try:
        app(list(arguments))
    except SystemExit as end:
        if end.code != 0:
            raise RuntimeError(f"rote {arguments[0]} ended with {end.code}") from None


def _files(effort: Effort, *, with_run: bool) -> list[Path]:
    """Return a store with one space, and one with many."""
    paths = []
    for name, count in (("one", 1), ("many", effort.count(MANY, 20))):
        effort.report(f"making {count:,} spaces", effort.rounds)
        path = effort.folder / f"{name}.db"
        _fill(
            partial(SqliteEngine, path, durability="os"), partial(rote.open, path), count,
            with_run=with_run,
        )  # fmt: skip
        paths.append(path)
    return paths


def _fill(
    make: Callable[[], Engine], open: Callable[..., rote.Store], count: int, *, with_run: bool
) -> None:
    store = open(modes=("buffered_write",))
    space = store.space("default")
    space.set(ID, 1)
    engine = make()
    for number in range(count - 1):
        did, name = f"did:key:z{number}", f"space-{number}"
        engine.create_space(did=did, name=name, seal=space_seal(did, name), main=main_row(did))
    engine.close()
    if with_run:
        # It stays open: its store goes on renewing its lease.
        run = space.run(workflow_id="w", model=None, policy_set_id="p", mode="buffered_write")
        _OPEN.append((store, run.__enter__()))
    else:
        store.close()


_OPEN: list[tuple[rote.Store, rote.Run]] = []

BENCHMARKS = [
    Benchmark("open/spaces", "open a store of 10,000 spaces vs 1", 1.5, 1.0,
              partial(open_file, with_run=False), "at most"),
    Benchmark("open/spaces-run", "the same with an open run in one of them", 1.5, 1.0,
              partial(open_file, with_run=True), "at most"),
    Benchmark("open/get", "`rote get` in a store of 10,000 spaces vs 1", 1.5, 1.0, get, "at most"),
    Benchmark("open/postgres", "open a store of 10,000 spaces vs 1 on PostgreSQL", 1.5, 1.0,
              open_postgres, "at most"),
]  # fmt: skip

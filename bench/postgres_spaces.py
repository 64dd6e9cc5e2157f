"""The gain of processes that write to different spaces of one server instead of one.

Eight processes commit single sets to eight spaces, then to one space. Their gain is compared with
the gain of eight processes that do the raw work of such a commit: insert its commit and its fact,
and move the row of the space. In one space the raw side waits for that row as Rote does.
"""

import multiprocessing
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from time import perf_counter

import psycopg

import rote
from bench.documents import Documents
from bench.harness import Benchmark, Effort, Result, compared
from bench.postgres import ROTE, fresh_schemas, server
from bench.raw import RawRows

PROCESSES = 8
WARM_UP = 5

# Commits `count` times to space number `space` when the barrier opens.
_Worker = Callable[[str, int, int, int, Barrier], None]

_COMMIT = "insert into raw.commits values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
_FACT = "insert into raw.facts values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
_MOVE = (
    "update raw.spaces set version = version + 1, changes = changes + 1 where number = %s"
    " returning version"
)
_SPACE = "insert into raw.spaces values (%s, %s, %s, '', 0, '', 0, 0) on conflict do nothing"


def spaces(effort: Effort) -> Result:
    fresh_schemas()
    url, count = server().url, effort.count(100, 5)
    raw: list[float] = []
    rote_: list[float] = []
    for done in range(effort.rounds + 1):
        effort.report("warming up" if done == 0 else "measuring", effort.rounds - done)
        for worker, gains in ((_raw, raw), (_rote, rote_)):
            gains.append(_rate(worker, url, count, apart=True) / _rate(worker, url, count))
    return compared(raw[1:], rote_[1:], "x")


def _rate(worker: _Worker, url: str, count: int, *, apart: bool = False) -> float:
    """Return the commits a second of all processes together."""
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(PROCESSES + 1)
    processes = [
        context.Process(
            target=worker, args=(url, number, 1 + (number if apart else 0), count, ready)
        )
        for number in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    ready.wait()
    start = perf_counter()
    for process in processes:
        process.join()
        if process.exitcode != 0:
            raise RuntimeError(f"a writer ended with {process.exitcode}")
    return PROCESSES * count / (perf_counter() - start)


def _rote(url: str, number: int, space: int, count: int, ready: Barrier) -> None:
    prefix = f"urn:{perf_counter()}:{number}"
    documents = Documents(number)
    with rote.open(url, schema=ROTE) as store:
        target = store.space(f"space-{space}")
        for place in range(WARM_UP):
            target.set(f"{prefix}:warm:{place}", documents.note())
        notes = [documents.note() for _ in range(count)]
        ready.wait()
        for place, note in enumerate(notes):
            target.set(f"{prefix}:{place}", note)


def _raw(url: str, number: int, space: int, count: int, ready: Barrier) -> None:
    documents, prefix = Documents(number), f"urn:{perf_counter()}:{number}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_SPACE, (space, f"did:{space}", f"space-{space}"))
        notes = [(f"{prefix}:{place}", documents.note()) for place in range(WARM_UP + count)]
        commits = RawRows().commits([[note] for note in notes])
        execute = connection.cursor().execute
        for place, commit in enumerate(commits):
            if place == WARM_UP:
                ready.wait()
            execute("begin")
            row = execute(_MOVE, (space,)).fetchone()
            assert row is not None
            version: int = row[0]
            execute(_COMMIT, (space, version, *commit.commit[2:]))
            for fact in commit.facts:
                execute(_FACT, (space, fact[1], version, *fact[3:]))
            execute("commit")


BENCHMARKS = [
    Benchmark(
        "postgres/spaces",
        "8 processes, gain of 8 spaces over one, against the raw gain",
        0.75,
        1.0,
        spaces,
    ),
]

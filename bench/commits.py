"""The cost of a commit that validates, hashes and chains, against inserting the same rows."""

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import rote
from bench.documents import NOTE_SCHEMA, Document, Documents
from bench.harness import Benchmark, Effort, Measure, Result, compare_rates, compare_times, timed
from bench.raw import RawFile, RawRows
from rote import Space

THREADS = 16
# Commits before each turn, which prepare statements and fill caches.
WARM_UP = 32
# Where Linux keeps files in memory.
_MEMORY = Path("/dev/shm")

_Note = tuple[str, Document]


def single_sets(effort: Effort, *, durability: str) -> Result:
    count = effort.count(400 if durability == "fsync" else 2_000, 50)
    return _compared(effort, count, 1, durability)


def sets_by_100(effort: Effort) -> Result:
    return _compared(effort, effort.count(40, 4), 100, "os")


def processor_time(effort: Effort) -> Result:
    """Compare the processor time of single sets in memory, where no disk disturbs it."""
    count = effort.count(2_000, 50)
    with TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        sides = _Sides(replace(effort, folder=Path(folder)), 1, "os", clock=process_time)
        return compare_times(effort, partial(sides.raw, count), partial(sides.rote, count))


def threads(effort: Effort) -> Result:
    """Compare threads that commit together with one raw writer that writes the same commits."""
    count = effort.count(100, 10) * THREADS
    sides = _Sides(effort, 1, "fsync")
    return compare_rates(effort, partial(sides.raw, count // 4), partial(sides.threads, count))


def judged_sets(effort: Effort) -> Result:
    """Compare commits that check a schema with commits of Rote without a registry."""
    count = effort.count(2_000, 50)
    free, governed = (_Judged(effort, name) for name in ("free", "governed"))
    governed.govern()
    return compare_rates(effort, partial(free.write, count), partial(governed.write, count))


def _compared(effort: Effort, commits: int, size: int, durability: str) -> Result:
    sides = _Sides(effort, size, durability)
    return compare_rates(effort, partial(sides.raw, commits), partial(sides.rote, commits))


class _Sides:
    """The files of both sides, which grow from turn to turn with the same documents."""

    def __init__(
        self,
        effort: Effort,
        size: int,
        durability: str,
        *,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._clock = clock
        self._raw_path = effort.folder / "raw.db"
        self._rote_path = effort.folder / "rote.db"
        self._size = size  # sets in one commit
        self._durability = durability
        self._rows = RawRows()
        self._raw_documents, self._rote_documents = Documents(), Documents()

    def raw(self, count: int) -> Measure:
        warm, commits = (
            self._rows.commits(self._batches(self._raw_documents, number))
            for number in (WARM_UP, count)
        )
        with RawFile(self._raw_path, durability=self._durability) as file:
            file.write(warm)
            return timed(count, lambda: file.write(commits), clock=self._clock)

    def rote(self, count: int) -> Measure:
        warm, batches = (self._batches(self._rote_documents, n) for n in (WARM_UP, count))
        with rote.open(self._rote_path, durability=self._durability) as store:
            space = store.space("bench")
            _write(space, warm)
            return timed(count, lambda: _write(space, batches), clock=self._clock)

    def threads(self, count: int) -> Measure:
        warm, batches = (self._batches(self._rote_documents, n) for n in (WARM_UP, count))
        with rote.open(self._rote_path, durability=self._durability) as store:
            space = store.space("bench")
            _write(space, warm)
            workers = [
                threading.Thread(target=_write, args=(space, batches[start::THREADS]))
                for start in range(THREADS)
            ]
            return timed(count, lambda: _run(workers))

    def _batches(self, documents: Documents, count: int) -> list[list[_Note]]:
        return [documents.notes(self._size) for _ in range(count)]


class _Judged:
    """A file of Rote that grows from turn to turn."""

    def __init__(self, effort: Effort, name: str) -> None:
        self._path = effort.folder / f"{name}.db"
        self._documents = Documents()

    def govern(self) -> None:
        with rote.open(self._path) as store:
            space = store.space("bench")
            space.set("urn:schema:note", NOTE_SCHEMA)
            space.set("urn:schemas", {"": "note"})

    def write(self, count: int) -> Measure:
        warm, notes = (self._documents.notes(number) for number in (WARM_UP, count))
        with rote.open(self._path, durability="os") as store:
            space = store.space("bench")
            _write(space, [[note] for note in warm])
            batches = [[note] for note in notes]
            return timed(count, lambda: _write(space, batches))


def _write(space: Space, batches: list[list[_Note]]) -> None:
    for batch in batches:
        if len(batch) == 1:
            space.set(*batch[0])
        else:
            space.transact([{"op": "set", "id": id, "value": value} for id, value in batch])


def _run(workers: list[threading.Thread]) -> None:
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


BENCHMARKS = [
    Benchmark(
        "commit/set/fsync",
        "one set of a new 300 byte document, fsync",
        0.65,
        0.80,
        partial(single_sets, durability="fsync"),
    ),
    Benchmark(
        "commit/set/os",
        "one set of a new 300 byte document, os",
        0.55,
        0.70,
        partial(single_sets, durability="os"),
    ),
    # Rote may add 60 us where raw takes 26.
    Benchmark(
        "commit/processor",
        "processor time of one set, os, files in memory",
        3.3,
        2.35,
        processor_time,
        "at most",
    ),
    Benchmark(
        "commit/judged/os", "one set that must conform to a schema, os", 0.75, 0.95, judged_sets
    ),
    Benchmark("commit/100/os", "one commit of 100 sets, os", 0.42, 0.60, sets_by_100),
    Benchmark(
        "commit/threads/fsync", "16 threads, single sets, against one raw writer", 1.5, 5, threads
    ),
]

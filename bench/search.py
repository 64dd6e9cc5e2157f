"""The cost of a search by lexical-1 against SQLite's full-text search, in processor time.

Both sides answer the same questions about the same texts with the same words, and take turns. No
question comes twice. `python -m bench.search ROTE|RAW PATH QUESTION` measures one in a new process.
"""

import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter, process_time

import apsw

import rote
from bench.harness import (
    Benchmark,
    Effort,
    Measure,
    Result,
    compare_times,
    compared,
    interleave,
    timed,
)
from bench.memories import Memories
from bench.postgres import fresh_schemas, server
from bench.searched import (
    CONTENT,
    CONTENTLESS,
    FEW,
    HIGHLIGHTED,
    NOTES,
    TALKS,
    FullText,
    batches_of,
    load,
    retrieve,
    search,
    searched,
)
from rote import Memory, Store
from rote.engines.postgres import PostgresEngine
from rote.engines.sqlite import SqliteEngine
from rote.opening.keys import MemoryKeys
from rote.records.index import RECORDS
from rote.testing import StoreSettings, open_on

ROOT = Path(__file__).parents[1]
ROTE, RAW = "rote", "raw"
# A first question may take so long, and so many times as long as that of the raw side.
FIRST_SECONDS, FIRST_TIMES = 0.150, 3


class _Sides:
    """Both sides with the same questions in each round."""

    def __init__(self, effort: Effort, name: str) -> None:
        self.searched = searched(effort.quick)
        self._name = name
        self._count = effort.count(20, 3)
        self._questions: list[str] = []

    def raw(self) -> Measure:
        self._questions = self.searched.questions(self._count)
        return _asked(partial(self.searched.raw.search, self._name), self._questions)

    def rote(self) -> Measure:
        return _asked(partial(retrieve, self.searched.store, self._name), self._questions)

    def warm(self) -> Measure:
        self._questions = self.searched.questions(self._count)
        return self.rote()

    def still(self) -> Measure:
        """Measure one question after the other by itself."""
        return self._one_by_one(lambda question: None)

    def moved(self) -> Measure:
        """Measure a question after each of some puts, without the puts."""
        memory, texts = Memory(self.searched.store.space(self._name)), self.searched.memories
        return self._one_by_one(
            lambda question: memory.put("ops", "later", question, {"text": texts.text()})
        )

    def _one_by_one(self, before: Callable[[str], object]) -> Measure:
        ask, seconds = partial(retrieve, self.searched.store, self._name), 0.0
        for question in self.searched.questions(self._count):
            before(question)
            seconds += _asked(ask, [question]).seconds
        return Measure(self._count, seconds)


def _asked(
    ask: Callable[[str], int],
    questions: list[str],
    *,
    clock: Callable[[], float] = process_time,
) -> Measure:
    found: list[int] = []
    measure = timed(len(questions), lambda: found.extend(map(ask, questions)), clock=clock)
    assert len(questions) == 1 or any(found)
    return measure


def warm(effort: Effort, *, name: str) -> Result:
    """Compare questions after all caches were filled."""
    sides = _Sides(effort, name)
    return compare_times(effort, sides.raw, sides.rote)


def marked(effort: Effort) -> Result:
    """Compare searches that mark the words that matched."""
    data, questions = searched(effort.quick), list[str]()

    def raw() -> Measure:
        questions[:] = data.questions(effort.count(20, 3))
        return _asked(partial(data.raw.search, NOTES, shown=HIGHLIGHTED), questions)

    def kept() -> Measure:
        return _asked(partial(search, data.store, NOTES), questions)

    return compare_times(effort, raw, kept)


def moved(effort: Effort) -> Result:
    """Compare a question after one more put with one that nothing came before."""
    sides = _Sides(effort, NOTES)
    return compare_times(effort, sides.still, sides.moved)


def growth(effort: Effort) -> Result:
    """Compare questions to all notes with questions to a hundredth of them."""
    return compare_times(effort, _Sides(effort, FEW).warm, _Sides(effort, NOTES).warm)


# -- a new process ---------------------------------------------------------------------------------


def first(effort: Effort) -> Result:
    """Compare the first question of a process, opening included, with what it may take."""
    data = searched(effort.quick)
    questions: list[str] = []

    def raw() -> Measure:
        questions[:] = data.questions(1)
        return _in_process(RAW, data.raw_path, questions[0])

    raws, rotes = interleave(effort, raw, lambda: _in_process(ROTE, data.path, questions[0]))
    allowed = [(FIRST_SECONDS + FIRST_TIMES * each.seconds) * 1_000 for each in raws]
    return compared(allowed, [each.seconds * 1_000 for each in rotes], "ms")


def _in_process(side: str, path: Path, question: str) -> Measure:
    program = [sys.executable, "-m", "bench.search", side, str(path), question]
    return Measure(1, float(subprocess.check_output(program, cwd=ROOT, text=True)))


def measure_first(side: str, path: Path, question: str) -> float:
    start = process_time()
    if side == RAW:
        FullText(path).search(NOTES, question)
    else:
        with rote.open(path) as store:
            retrieve(store, NOTES, question)
    return process_time() - start


# -- writing ---------------------------------------------------------------------------------------


def size(effort: Effort, *, kind: str) -> Result:
    """Compare the bytes of the index of words with those of full-text search, over all texts."""
    data = searched(effort.quick)
    tables = [f"{name}_{kind}_{part}" for name in (FEW, NOTES, TALKS) for part in _PARTS]
    raw = _bytes_of(data.raw.database, tables)
    with FullText(data.path).database as database:
        index = _bytes_of(database, _INDEX)
    assert index, "there is no index"
    return compared([raw / 1_000], [index / 1_000], "kB")


# The tables below one of full-text search; and those of Rote that hold packed indexes.
_PARTS = ("data", "idx", "content", "docsize", "config")
_INDEX = ("segments", "segments_by_place", "postings", "postings_by_term")


def _bytes_of(database: apsw.Connection, tables: Sequence[str]) -> int:
    """Return the bytes of the pages that some tables and indexes take."""
    marks = ", ".join("?" * len(tables))
    rows = database.execute(
        f"select sum(pgsize) from dbstat where name in ({marks})",
        tuple(tables),
    )
    (total,) = rows.fetchall()[0]
    return int(total or 0)


def puts(effort: Effort) -> Result:
    """Compare puts into a store that keeps the index of words with puts into one that does not."""
    count = effort.count(10_000, 300)
    memories = Memories()
    raw = _store_with(effort.folder / "raw.db", StoreSettings(indexes=(RECORDS,)))
    kept = _store_with(effort.folder / "rote.db", StoreSettings())
    with raw, kept:

        def put(store: Store) -> Measure:
            memory, new = Memory(store.space(NOTES)), list(memories.memories(count))
            return timed(
                count,
                lambda: [memory.put("ops", "note", each.id, {"text": each.text}) for each in new],
                clock=process_time,
            )

        return compare_times(effort, partial(put, raw), partial(put, kept))


def _store_with(path: Path, settings: StoreSettings) -> Store:
    return open_on(SqliteEngine(path, durability="os"), settings, keys=MemoryKeys())


# -- PostgreSQL ------------------------------------------------------------------------------------


def on_postgres(effort: Effort) -> Result:
    """Compare questions to a store on PostgreSQL, by the clock on the wall: the server works, too."""
    data = searched(effort.quick)
    fresh_schemas()
    engine = PostgresEngine(server().url, schema="rote", durability="os")
    questions: list[str] = []
    with open_on(engine, StoreSettings(), keys=MemoryKeys()) as store:
        for batch in batches_of(NOTES, data.count, Memories()):
            load(store, NOTES, batch)

        def raw() -> Measure:
            questions[:] = data.questions(effort.count(20, 3))
            return _asked(partial(data.raw.search, NOTES), questions, clock=perf_counter)

        def kept() -> Measure:
            return _asked(partial(retrieve, store, NOTES), questions, clock=perf_counter)

        return compare_times(effort, raw, kept)


if __name__ == "__main__":
    print(measure_first(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))


BENCHMARKS = [
    Benchmark("search/warm", "a retrieval from 100,000 notes, against FTS5", 1, 0.3,
              partial(warm, name=NOTES), "at most"),
    Benchmark("search/marked", "memory.search, against FTS5 with highlight()", 2, 0.5,
              marked, "at most"),
    Benchmark("search/threads", "the same from 5,000 talks of 20 turns, against FTS5", 4, 1,
              partial(warm, name=TALKS), "at most"),
    Benchmark("search/first", "the first of a process, against 150 ms and 3 times FTS5's", 1, 0.25,
              first, "at most"),
    Benchmark("search/moved", "a search after one more put, against before", 1.2, 1.02,
              moved, "at most"),
    Benchmark("search/growth", "a search in 100,000 notes, against in 1,000", 100, 25,
              growth, "at most"),
    Benchmark("search/bytes", "bytes of the index, against FTS5 without the texts", 1.5, 0.8,
              partial(size, kind=CONTENTLESS), "at most"),
    Benchmark("search/bytes-content", "the same against FTS5 with the texts", 1.5, 0.4,
              partial(size, kind=CONTENT), "at most"),
    Benchmark("search/puts", "10,000 puts, against without the index of words", 1.5, 1.2,
              puts, "at most"),
    Benchmark("search/postgres", "a search on PostgreSQL, against FTS5 (wall time, no floor)",
              math.inf, 1, on_postgres, "at most"),
]  # fmt: skip

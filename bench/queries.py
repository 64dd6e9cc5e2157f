"""The cost of following links, of a frame in a large graph, and of watchers for a writer."""

import itertools
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import rote
from bench.documents import Documents
from bench.harness import Benchmark, Effort, Measure, Result, compare_rates, compare_times, timed
from rote import Space
from rote.contract import View
from rote.contract.commands import Read, Watch
from rote.kernel.watching.watches import Watcher

ROOT = Path(__file__).resolve().parent.parent
# Links in each entity of a tree.
FAN = 10
BATCH = 1_000
WATCHERS = 200
STALLED = 20
# Parts of the 400 notes that are written; several watchers share each part.
PARTS = 40


def id_of(number: int) -> str:
    return f"urn:note:{number:08d}"


def query_of(count: int) -> dict[str, Any]:
    """Return a query for everything from the root of a tree."""
    select = {id_of(0): {"schema": True}}
    return {"select": select, "max_entities": count + 1, "max_depth": 100}


def write_tree(space: Space, count: int) -> None:
    """Write `count` notes; each links to the next few that no other note links to."""
    notes = [note for _, note in Documents().notes(count)]
    for number, note in enumerate(notes):
        below = range(number * FAN + 1, min((number + 1) * FAN + 1, count))
        note["see"] = [{"/": {"link@1": {"id": id_of(target)}}} for target in below]
    for start in range(0, count, BATCH):
        operations = [
            {"op": "set", "id": id_of(number), "value": notes[number]}
            for number in range(start, min(start + BATCH, count))
        ]
        space.transact(operations)


def traversal(effort: Effort) -> Result:
    """Compare walking a tree, in a store that was just opened, with reading its entities by id."""
    effort.report("writing a tree", effort.rounds)
    count = effort.count(10_000, 300)
    path = effort.folder / "rote.db"
    with rote.open(path, durability="os") as store:
        write_tree(store.space("bench"), count)

    def by_id() -> Measure:
        with rote.open(path) as store:
            space = store.space("bench")
            port, view = space._port, View("main", space.version)
            batches = [
                [id_of(number) for number in range(start, min(start + BATCH, count))]
                for start in range(0, count, BATCH)
            ]
            return timed(
                count, lambda: [port.answer(space.did, Read(batch, view)) for batch in batches]
            )

    def by_links() -> Measure:
        with rote.open(path) as store:
            space = store.space("bench")
            space.version  # noqa: B018  both sides know the head
            found: list[int] = []
            measure = timed(count, lambda: found.append(len(space.query(query_of(count))["facts"])))
            assert found == [count]
            return measure

    return compare_rates(effort, by_id, by_links)


def frame(effort: Effort) -> Result:
    """Measure the time from a write in a watched tree until its frame arrives, without pauses."""
    effort.report("writing trees", effort.rounds)
    with rote.open(effort.folder / "rote.db", durability="os") as store:
        sides = []
        for size in (100, effort.count(10_000, 1_000)):
            space = store.space(f"bench-{size}")
            write_tree(space, size)
            kernel: Any = space._port
            watcher = Watcher(kernel.spaces.open(space.did), Watch(query_of(size)))
            watcher.start(None)
            sides.append(partial(_frames, space, watcher, effort.count(200, 20)))
        return compare_times(effort, *sides)


def _frames(space: Space, watcher: Watcher, count: int) -> Measure:
    seconds = 0.0
    for number in range(count):
        space.set(id_of(99 - number % 50), {"changed": number})
        start = perf_counter()
        frame = watcher.advance(watcher.look())
        seconds += perf_counter() - start
        assert frame is not None and len(frame["upserts"]) == 1
    return Measure(count, seconds)


def writer(effort: Effort, *, parts: int) -> Result:
    """Compare a writer with fsync alone and while another process watches its entities."""
    path = effort.folder / "rote.db"
    count = effort.count(400, 30)
    names = (f"bench-{number}" for number in itertools.count())

    def write(name: str) -> Measure:
        notes = Documents().notes(count)
        with rote.open(path) as store:
            space = store.space(name)
            return timed(count, lambda: [space.set(*note) for note in notes])

    def watched() -> Measure:
        name = next(names)
        with watchers(path, name, effort.count(WATCHERS, 10), effort.count(STALLED, 1), parts):
            return write(name)

    return compare_rates(effort, lambda: write(next(names)), watched)


@contextmanager
def watchers(path: Path, name: str, count: int, stalled: int, parts: int) -> Iterator[None]:
    """Run a process with `count` watchers, each of one part; `stalled` of them stop after a frame."""
    numbers = [str(number) for number in (count, stalled, parts)]
    argv = [sys.executable, "-m", "bench.watchers", str(path), name, *numbers]
    with subprocess.Popen(
        argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield
        finally:
            process.communicate("stop\n", timeout=60)


BENCHMARKS = [
    Benchmark(
        "query/walk", "10,000 linked entities, against by id in batches", 0.25, 0.5, traversal
    ),
    Benchmark(
        "watch/frame", "a frame in a watched graph of 10,000 vs 100", 3, 1.2, frame, "at most"
    ),
    Benchmark(
        "watch/writer/parts",
        "a writer beside 200 watchers in another process, each of ten entities",
        0.8,
        0.95,
        partial(writer, parts=PARTS),
    ),
    Benchmark(
        "watch/writer/all",
        "a writer beside 200 watchers in another process, each of everything",
        0.8,
        0.95,
        partial(writer, parts=1),
    ),
]

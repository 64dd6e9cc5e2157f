"""The cost of memory records: against plain entities, and in large memories against small ones."""

from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import rote
from bench.documents import Documents
from bench.harness import (
    Benchmark,
    Effort,
    Measure,
    Result,
    compare_rates,
    compare_times,
    timed,
)
from rote import Memory, Space
from rote.bridges import import_records
from rote.values import canonical, format_time

LARGE, HALF_LARGE, SMALL = 200_000, 100_000, 2_000
MINUTE, EPOCH = 60_000_000, 1_767_225_600_000_000  # microseconds; 2026 begins
BATCH = 50_000
# Records with the same tag, source or prefix in either memory, so that their lists are equally long.
SHARED = 120
WARM_UP = 32

Records = list[dict[str, Any]]
Order = dict[str, Any]


def put(effort: Effort, *, durability: str) -> Result:
    """Compare a new record with a new entity of the same payload."""
    count = effort.count(300 if durability == "fsync" else 1_500, 40)
    raw_documents, rote_documents = Documents(), Documents()

    def sides(path: Path, documents: Documents, write: Callable[[Space, Any], Any]) -> Measure:
        warm, notes = (documents.notes(number) for number in (WARM_UP, count))
        with rote.open(path, durability=durability) as store:
            space = store.space("bench")
            for note in warm:
                write(space, note)
            return timed(count, lambda: [write(space, note) for note in notes])

    def set_one(space: Space, note: Any) -> None:
        space.set(*note)

    def put_one(space: Space, note: Any) -> None:
        Memory(space).put("ops", "note", note[0], note[1])

    return compare_rates(
        effort,
        partial(sides, effort.folder / "set.db", raw_documents, set_one),
        partial(sides, effort.folder / "put.db", rote_documents, put_one),
    )


def append(effort: Effort) -> Result:
    """Compare appending to a record of 10,000 entries with appending to one of 10."""
    count = effort.count(150, 20)

    def turn(entries: int) -> Measure:
        with rote.open(":memory:") as store:
            memory = Memory(store.space("bench"))
            key = ("daily_log", "note", "2026-01-01")
            memory.put(*key, {"entries": [{"text": f"entry {n}"} for n in range(entries)]})
            memory.append(*key, {"text": "the first one reads the record"})
            memory.search("entry")  # so that the index of words follows
            return timed(
                count, lambda: [memory.append(*key, {"text": f"new {n}"}) for n in range(count)]
            )

    return compare_times(effort, partial(turn, 10), partial(turn, 10_000))


def lists(effort: Effort, *, arguments: tuple[Any, ...], order: Order) -> Result:
    """Compare the same list in a memory of 200,000 records and in one of 2,000."""
    turns = [
        _list_turn(effort, _memory(effort, size), arguments, order)
        for size in (SMALL, effort.count(LARGE, 2 * SMALL))
    ]
    return compare_times(effort, turns[0], turns[1])


def _list_turn(
    effort: Effort, path: Path, arguments: tuple[Any, ...], order: Order | None = None
) -> Callable[[], Measure]:
    order = order or {}
    count = effort.count(30, 3)

    def turn() -> Measure:
        with rote.open(path, durability="os") as store:
            memory = Memory(store.space("bench"))
            assert memory.list(*arguments, **order)["items"]
            return timed(count, lambda: [memory.list(*arguments, **order) for _ in range(count)])

    return turn


def offset_page(effort: Effort) -> Result:
    """Compare a page far down a list with the first one."""
    size = effort.count(10_000, 400)
    path = _memory(effort, size)
    first, far = ({"limit": 100, "offset": offset} for offset in (0, size * 9 // 10))
    return compare_times(
        effort,
        _list_turn(effort, path, ("ops", None, None, None, first)),
        _list_turn(effort, path, ("ops", None, None, None, far)),
    )


def common(effort: Effort, *, filters: dict[str, Any]) -> Result:
    """Compare a list by what every tenth record has, in 100,000 records and in 2,000."""
    arguments = ("ops", None, None, None, {**filters, "limit": 100})
    turns = [
        _list_turn(effort, _memory(effort, size), arguments)
        for size in (SMALL, effort.count(HALF_LARGE, 2 * SMALL))
    ]
    return compare_times(effort, turns[0], turns[1])


def bring_in(effort: Effort) -> Result:
    """Compare importing records from JSON lines with one plain commit of the same values."""
    count = effort.count(20_000, 200)
    records = _records(count)
    lines = b"".join(canonical(record) + b"\n" for record in records)
    sets = [{"op": "set", "id": f"urn:n:{n}", "value": r} for n, r in enumerate(records)]

    def commit(space: Space) -> object:
        return space.transact(sets)

    def load(space: Space) -> object:
        return import_records(Memory(space), BytesIO(lines))

    def turn(name: str, write: Callable[[Space], object]) -> Measure:
        path = effort.folder / f"{name}.db"
        with rote.open(path, durability="os") as store:
            measure = timed(count, lambda: write(store.space("bench")))
        for file in effort.folder.glob(f"{name}.db*"):
            if file.is_file():
                file.unlink()
        return measure

    return compare_rates(effort, partial(turn, "plain", commit), partial(turn, "import", load))


def _memory(effort: Effort, size: int) -> Path:
    """Return the path of a file with `size` records."""
    path = effort.folder / f"{size}.db"
    with rote.open(path, durability="os") as store:
        memory = Memory(store.space("bench"))
        records = _records(size)
        for start in range(0, size, BATCH):
            effort.report(f"making {size:,} records", (size - start) // BATCH)
            some = records[start : start + BATCH]
            import_records(memory, BytesIO(b"".join(canonical(r) + b"\n" for r in some)))
    return path


def _records(size: int) -> Records:
    """Return records; each group of SHARED has a tag, a source, a prefix and a window in common.

    Every tenth record has the same tag, and those between them the same source.
    """
    documents = Documents().notes(size)
    return [
        {
            "namespace": "ops",
            "record_kind": f"kind-{number % 2}",
            "record_id": f"{number // SHARED:06d}/{number % SHARED:03d}",
            "created_at": format_time(EPOCH),
            "updated_at": format_time(EPOCH + number * MINUTE),
            "ttl_seconds": None,
            "payload": document,
            "metadata": {
                "tags": [f"tag-{number // SHARED}", "all", f"tenth-{number % 10}"],
                "source": "tenth" if number % 10 == 5 else f"source-{number // SHARED}",
            },
        }
        for number, (_, document) in enumerate(documents)
    ]


def _listed(name: str, words: str, *arguments: Any, **order: Any) -> Benchmark:
    operation = f"list of {words}, 200,000 records against 2,000"
    run = partial(lists, arguments=("ops", *arguments), order=order)
    return Benchmark(f"record/list-{name}", operation, 3, 1.2, run, "at most")


_WINDOW = {
    "updated_after": format_time(EPOCH + 600 * MINUTE),
    "updated_before": format_time(EPOCH + 700 * MINUTE),
}
BENCHMARKS = [
    Benchmark("record/put/fsync", "put of a new record against a set, fsync", 0.5, 0.8,
              partial(put, durability="fsync")),
    Benchmark("record/put/os", "put of a new record against a set, os", 0.5, 0.8,
              partial(put, durability="os")),
    Benchmark("record/append", "append to 10,000 entries against 10", 1.5, 1.05, append, "at most"),
    _listed("prefix", "100 by kind and prefix", "kind-0", "000005/", None, {"limit": 100}),
    _listed("tag", "100 by tag", None, None, None, {"tags_any": ["tag-5"], "limit": 100}),
    _listed("source", "100 by source", None, None, None, {"source": "source-5", "limit": 100}),
    _listed("window", "100 by window of time", None, None, None, {**_WINDOW, "limit": 100}),
    _listed("newest", "the last 20 by time", "kind-0", None, None, {"limit": 20}, order="updated",
            descending=True),
    _listed("last", "the last 20 by id", "kind-0", None, None, {"limit": 20}, descending=True),
    Benchmark("record/list-offset", "page of 100 at 9,000 of 10,000 records against the first", 3,
              1.5, offset_page, "at most"),
    Benchmark("record/list-common-tag", "list of 100 by a tag of every tenth, 100,000 against 2,000",
              3, 1.2, partial(common, filters={"tags_any": ["tenth-3"]}), "at most"),
    Benchmark("record/list-common-source",
              "list of 100 by a source of every tenth, 100,000 against 2,000",
              3, 1.2, partial(common, filters={"source": "tenth"}), "at most"),
    Benchmark("record/import", "import of 20,000 records against one plain commit", 0.4, 0.6,
              bring_in),
]  # fmt: skip

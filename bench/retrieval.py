"""The cost of a retrieval from a space, in processor time.

The raw side is one millisecond, so a ratio is a number of milliseconds.
"""

from collections.abc import Callable, Sequence
from functools import partial
from io import BytesIO
from time import process_time
from typing import Any

import rote
from bench.harness import Benchmark, Effort, Measure, Result, compare_times, timed
from bench.memories import Memories
from rote import Memory, Store
from rote.bridges import import_records
from rote.values import canonical, format_time

RECORDS, RECORDS_QUICK = 100_000, 500
WORDS = 55
BATCH = 20_000
MILLISECOND = Measure(1, 0.001)

Questions = Callable[[Store, Memories, int], Measure]


def retrieval(effort: Effort, *, questions: Questions) -> Result:
    """Measure questions to a space after all caches were filled."""
    memories = Memories(words=WORDS)
    with rote.open(effort.folder / "rote.db", durability="os") as store:
        _fill(effort, store, memories)
        for _ in range(20):  # the first one reads everything, the others build the vocabulary
            _ask(store, memories.question())
        turn = partial(questions, store, memories, effort.count(20, 2))
        return compare_times(effort, lambda: MILLISECOND, turn)


def unchanged(store: Store, memories: Memories, count: int) -> Measure:
    """Measure one question after the other."""
    return _measured([memories.question() for _ in range(count)], store)


def changed(store: Store, memories: Memories, count: int) -> Measure:
    """Measure a question after each of some commits, without the cost of the commits."""
    memory, seconds = Memory(store.space("bench")), 0.0
    for new in memories.memories(count):
        memory.put("ops", "note", new.id, {"text": new.text}, metadata={"tags": list(new.tags)})
        seconds += _measured([memories.question()], store).seconds
    return Measure(count, seconds)


def _measured(questions: Sequence[str], store: Store) -> Measure:
    """Measure the processor time of asking the questions."""
    spent: list[float] = []

    def ask() -> None:
        start = process_time()
        for question in questions:
            _ask(store, question)
        spent.append(process_time() - start)

    timed(len(questions), ask)
    return Measure(len(questions), spent[0])


def _ask(store: Store, query: str) -> None:
    request: dict[str, Any] = {
        "query": query,
        "store_paths": ["rote:bench"],
        "budget": {"max_excerpt_tokens": 2_000},
    }
    package = rote.retrieve(request, store=store, dropped="counts")
    assert package["selection"]["selected"]


def _fill(effort: Effort, store: Store, memories: Memories) -> None:
    count = effort.count(RECORDS, RECORDS_QUICK)
    memory = Memory(store.space("bench"))
    for start in range(0, count, BATCH):
        effort.report(f"making {count:,} records", (count - start) // BATCH)
        lines = [
            canonical(
                {
                    "namespace": "ops",
                    "record_kind": "note",
                    "record_id": new.id,
                    "created_at": format_time(new.at),
                    "updated_at": format_time(new.at),
                    "ttl_seconds": None,
                    "payload": {"text": new.text},
                    "metadata": {"tags": list(new.tags)},
                }
            )
            for new in memories.memories(min(BATCH, count - start))
        ]
        import_records(memory, BytesIO(b"\n".join(lines)))


BENCHMARKS = [
    Benchmark("retrieve/space", "retrieval from a space of 100,000 records, ms of CPU", 60, 15,
              partial(retrieval, questions=unchanged), "at most"),
    Benchmark("retrieve/space-moved", "the same after one more commit, ms of CPU", 60, 20,
              partial(retrieval, questions=changed), "at most"),
]  # fmt: skip

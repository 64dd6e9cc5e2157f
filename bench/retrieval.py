"""The cost of a retrieval from a space, in processor time.

The raw side is one millisecond, so a ratio is a number of milliseconds.
"""

from collections.abc import Callable, Sequence
from functools import partial
from io import BytesIO
from itertools import accumulate
from random import Random
from time import process_time
from typing import Any

import rote
from bench.harness import Benchmark, Effort, Measure, Result, compare_times, timed
from rote import Memory, Store
from rote.bridges import import_records
from rote.values import canonical, format_time

RECORDS, RECORDS_QUICK = 100_000, 500
BATCH = 20_000
MINUTE, EPOCH = 60_000_000, 1_767_225_600_000_000  # microseconds; 2026 begins
LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS, WORDS_IN_TEXT = 20_000, 62
TAGGED = 100
MILLISECOND = Measure(1, 0.001)

Questions = Callable[[Store, int], Measure]


def retrieval(effort: Effort, *, questions: Questions) -> Result:
    """Measure questions to a space after all caches were filled."""
    words = Words()
    with rote.open(effort.folder / "rote.db", durability="os") as store:
        _fill(effort, store, words)
        for _ in range(20):  # the first one reads everything, the others build the vocabulary
            _ask(store, words.question(3))
        turn = partial(questions, store, effort.count(20, 2))
        return compare_times(effort, lambda: MILLISECOND, turn)


def unchanged(store: Store, count: int) -> Measure:
    """Measure one question after the other."""
    words = Words()
    return _measured([words.question(3) for _ in range(count)], store)


def changed(store: Store, count: int) -> Measure:
    """Measure a question after each of some commits, without the cost of the commits."""
    words, memory, seconds = Words(), Memory(store.space("bench")), 0.0
    for number in range(count):
        memory.put("ops", "note", f"{number % RECORDS_QUICK:08d}", {"text": words.text(number)})
        seconds += _measured([words.question(3)], store).seconds
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


class Words:
    """A language in which few words are frequent and most are rare."""

    def __init__(self) -> None:
        self._random = Random(1)
        lengths = [self._random.randint(2, 11) for _ in range(WORDS)]
        self._words = ["".join(self._random.choices(LETTERS, k=length)) for length in lengths]
        self._weights = list(accumulate(1 / (rank + 3) for rank in range(WORDS)))

    def text(self, number: int) -> str:
        """Return about 440 bytes of text; no other text has its last word."""
        words = self._random.choices(self._words, cum_weights=self._weights, k=WORDS_IN_TEXT)
        return " ".join([*words, f"n{number}"])

    def question(self, terms: int) -> str:
        """Return words that are long enough for a query."""
        rare = [word for word in self._words[WORDS // 20 :] if len(word) > 4]
        return " ".join(self._random.sample(rare, terms))


def _fill(effort: Effort, store: Store, words: Words) -> None:
    count = effort.count(RECORDS, RECORDS_QUICK)
    memory = Memory(store.space("bench"))
    for start in range(0, count, BATCH):
        effort.report(f"making {count:,} records", (count - start) // BATCH)
        lines = [
            canonical(
                {
                    "namespace": "ops",
                    "record_kind": "note",
                    "record_id": f"{number:08d}",
                    "created_at": format_time(EPOCH),
                    "updated_at": format_time(EPOCH + number * MINUTE),
                    "ttl_seconds": None,
                    "payload": {"text": words.text(number)},
                    "metadata": {"tags": [f"tag-{number // TAGGED}", "all"]},
                }
            )
            for number in range(start, min(start + BATCH, count))
        ]
        import_records(memory, BytesIO(b"\n".join(lines)))


BENCHMARKS = [
    Benchmark("retrieve/space", "retrieval from a space of 100,000 records, ms of CPU", 60, 15,
              partial(retrieval, questions=unchanged), "at most"),
    Benchmark("retrieve/space-moved", "the same after one more commit, ms of CPU", 60, 20,
              partial(retrieval, questions=changed), "at most"),
]  # fmt: skip

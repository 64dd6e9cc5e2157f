"""The cost of a difference: the patch between two large documents, against reading both."""

import copy
from functools import partial
from typing import Any

import orjson

from bench.documents import Documents
from bench.harness import Benchmark, Effort, Measure, Result, compare_times, timed
from rote.patch import diff

CHANGES = 5
OPERATIONS_MAX = 10


def leaves(effort: Effort) -> Result:
    """Compare documents of 2 MB that differ in five leaves."""
    before = Documents().profile(effort.count(2_000_000, 20_000))
    after = copy.deepcopy(before)
    notes = after["notes"]
    for number in range(CHANGES):
        notes[number * len(notes) // CHANGES]["uses"] = -1
    return _compare(effort, before, after)


def elements(effort: Effort) -> Result:
    """Compare arrays of 16,000 elements, with a deletion near one end and an insertion near the other."""
    documents = Documents()
    before = [documents.note() for _ in range(effort.count(16_000, 200))]
    after = copy.deepcopy(before)
    del after[len(after) // 10]
    after.insert(len(after) * 9 // 10, documents.note())
    return _compare(effort, before, after)


def _compare(effort: Effort, before: Any, after: Any) -> Result:
    assert len(diff(before, after)) <= OPERATIONS_MAX
    texts = [orjson.dumps(value) for value in (before, after)]
    count = effort.count(3, 1)

    def read() -> Measure:
        return timed(count, lambda: [orjson.loads(text) for _ in range(count) for text in texts])

    return compare_times(
        effort, read, partial(timed, count, lambda: [diff(before, after) for _ in range(count)])
    )


BENCHMARKS = [
    Benchmark("patch/diff-leaves", "difference of 2 MB in five leaves against orjson.loads of both",
              30, 5, leaves, "at most"),
    Benchmark("patch/diff-elements", "one insertion and one deletion in 16,000 elements, the same",
              30, 5, elements, "at most"),
]  # fmt: skip

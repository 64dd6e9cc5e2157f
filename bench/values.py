"""The cost of canonical bytes: the digest of a value, against sorted orjson and SHA-256."""

from functools import partial
from hashlib import sha256
from typing import Any

import orjson

import rote
from bench.documents import Documents, embeddings
from bench.harness import Benchmark, Effort, Measure, Result, compare_rates, timed


def digests(effort: Effort, *, size_bytes: int) -> Result:
    supply = Documents()
    count = effort.count(1_000, 100)
    if size_bytes > 300:
        documents = [supply.profile(size_bytes) for _ in range(count)]
    else:
        documents = [supply.note() for _ in range(count)]
    repeated = documents * effort.count(30 if size_bytes <= 300 else 6, 1)
    return compare_rates(effort, partial(_raw, repeated), partial(_rote, repeated))


def floats(effort: Effort) -> Result:
    """Return the worst of several distributions of the numbers in embeddings."""
    count, repeated = effort.count(40, 4), effort.count(10, 1)
    results = [
        compare_rates(effort, partial(_raw, vectors * repeated), partial(_rote, vectors * repeated))
        for vectors in embeddings(count).values()
    ]
    return min(results, key=lambda result: result.ratio)


def _raw(documents: list[Any]) -> Measure:
    dumps, options = orjson.dumps, orjson.OPT_SORT_KEYS

    def work() -> None:
        for document in documents:
            sha256(dumps(document, option=options)).hexdigest()

    return timed(len(documents), work)


def _rote(documents: list[Any]) -> Measure:
    digest = rote.digest

    def work() -> None:
        for document in documents:
            digest(document)

    return timed(len(documents), work)


BENCHMARKS = [
    Benchmark(
        "digest/300",
        "digest of a 300 byte document",
        0.22,
        0.6,
        partial(digests, size_bytes=300),
    ),
    Benchmark(
        "digest/3000",
        "digest of a 3 KB document",
        0.25,
        0.5,
        partial(digests, size_bytes=3_000),
    ),
    Benchmark(
        "digest/floats",
        "digest of 1,536 floats, the worst of several distributions",
        0.3,
        0.6,
        floats,
    ),
]

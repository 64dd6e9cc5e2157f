"""The cost of branches: making, reading through ancestors, comparing, merging.

The size of a space must not matter: each row compares the same work in a small and in a large space.
Reads compare a branch that has ancestors with main. Each side reads every entity once, from a store
that was just opened.
"""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import rote
from bench.documents import Documents
from bench.harness import Benchmark, Effort, Measure, Result, compare_rates, compare_times, timed
from rote import Space

SMALL, LARGE = 1_000, 100_000

_Work = Callable[[Space, Space, int], Measure]


def create(effort: Effort) -> Result:
    spaces = _spaces(effort)
    return compare_times(effort, *(partial(_create, space, effort) for space in spaces))


def _create(space: Space, effort: Effort) -> Measure:
    names = [f"b{space.version + number}" for number in range(effort.count(200, 5))]
    return timed(len(names), lambda: [space.create_branch(name) for name in names])


def read(effort: Effort, *, ancestors: int) -> Result:
    count = effort.count(20_000, 300)
    path = effort.folder / "read.db"
    with rote.open(path, durability="os") as store:
        ids = _fill(store.space("bench"), count)
        branch = store.space("bench")
        for number in range(ancestors):
            branch = branch.create_branch(f"b{number}")
    random.Random(1).shuffle(ids)
    return compare_rates(
        effort, partial(_read, path, "main", ids), partial(_read, path, branch.branch, ids)
    )


def _read(path: Path, branch: str, ids: list[str]) -> Measure:
    with rote.open(path, durability="os") as store:
        space = store.space("bench").on(branch)
        get = space.get
        get("urn:none")
        return timed(len(ids), lambda: [get(id) for id in ids])


def merge(effort: Effort, *, changes: int) -> Result:
    return _compare(effort, changes, _merge)


def _merge(space: Space, branch: Space, changes: int) -> Measure:
    return timed(changes, lambda: space.merge(branch.branch))


def diff(effort: Effort, *, changes: int) -> Result:
    return _compare(effort, changes, _diff)


def _diff(space: Space, branch: Space, changes: int) -> Measure:
    return timed(changes, lambda: space.diff(branch))


def _compare(effort: Effort, changes: int, work: _Work) -> Result:
    changes, turns = effort.count(changes, 5), effort.count(max(400 // changes, 1), 1)
    small, large = (
        partial(_changed, space, size, changes, turns, work)
        for space, size in zip(_spaces(effort), _sizes(effort), strict=True)
    )
    return compare_times(effort, small, large)


def _changed(space: Space, size: int, changes: int, turns: int, work: _Work) -> Measure:
    """Measure the work on `turns` branches, each with `changes` changes all over the space."""
    seconds = 0.0
    for _ in range(turns):
        branch = space.create_branch(f"b{space.version}")
        numbers = random.Random(space.version).sample(range(size), changes)
        branch.transact(
            [{"op": "set", "id": _id(n), "value": {"n": space.version}} for n in numbers]
        )
        seconds += work(space, branch, changes).seconds
    return Measure(turns * changes, seconds)


def _spaces(effort: Effort) -> list[Space]:
    """Return a small and a large space."""
    spaces = []
    for name, count in zip(("small", "large"), _sizes(effort), strict=True):
        effort.report(f"writing {count:,} entities", effort.rounds)
        store = rote.open(effort.folder / f"{name}.db", durability="os")
        spaces.append(store.space("bench"))
        _fill(spaces[-1], count)
    return spaces


def _sizes(effort: Effort) -> tuple[int, int]:
    return effort.count(SMALL, 50), effort.count(LARGE, 500)


def _fill(space: Space, count: int) -> list[str]:
    notes = Documents().notes(count)
    for start in range(0, count, 1_000):
        numbers = range(start, min(start + 1_000, count))
        space.transact([{"op": "set", "id": _id(n), "value": notes[n][1]} for n in numbers])
    return [_id(number) for number in range(count)]


def _id(number: int) -> str:
    return f"urn:entity:{number:07d}"


BENCHMARKS = [
    Benchmark(
        "branch/create", "create a branch of 100,000 entities vs 1,000", 1.3, 1.0, create, "at most"
    ),
    Benchmark(
        "branch/read-8", "read through 8 ancestor branches vs none", 0.7, 0.95,
        partial(read, ancestors=8),
    ),
    Benchmark(
        "branch/read-64", "read through 64 ancestor branches vs none", 0.7, 0.95,
        partial(read, ancestors=64),
    ),
    *(
        Benchmark(
            f"merge/{changes}", f"merge {changes:,} changes in 100,000 entities vs 1,000", 1.5, 1.1,
            partial(merge, changes=changes), "at most",
        )
        for changes in (10, 100, 1_000)
    ),
    *(
        Benchmark(
            f"diff/{changes}", f"diff of {changes:,} changes in 100,000 entities vs 1,000", 1.5, 1.1,
            partial(diff, changes=changes), "at most",
        )
        for changes in (10, 100, 1_000)
    ),
]  # fmt: skip

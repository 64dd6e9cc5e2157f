"""The cost of a long history: reading it at any point, and its size in the file."""

import random
from collections.abc import Iterator
from functools import partial

import rote
from bench.documents import Documents
from bench.harness import Benchmark, Effort, Measure, Result, compare_times, timed
from rote import Space

KB = 1_000
SHORT = 100

# An entity and one of its versions.
_Point = tuple[str, int]


def point_in_time(effort: Effort) -> Result:
    """Read every point once, so that no cache of Rote helps; SQLite already holds the pages."""
    long = effort.count(100_000, 1_000)
    shorts = effort.count(40, 4)
    path = effort.folder / "rote.db"
    with rote.open(path, durability="os") as store:
        effort.report("writing a long history", effort.rounds)
        long_points = _grow(store.space("bench"), ["urn:profile:long"], long)
        short_ids = [f"urn:profile:short-{number}" for number in range(shorts)]
        short_points = _grow(store.space("bench"), short_ids, SHORT)
    count = shorts * SHORT // (effort.rounds + 1)
    with rote.open(path) as store:
        space = store.space("bench")
        for id in ["urn:profile:long", *short_ids]:
            space.history(id)
        small, large = _shuffled(short_points), _shuffled(long_points)
        return compare_times(
            effort, partial(_read, space, small, count), partial(_read, space, large, count)
        )


def _grow(space: Space, ids: list[str], patches: int) -> list[_Point]:
    """Set each entity and patch it, with one commit for each patch; return all points."""
    points: list[_Point] = []
    for seed, id in enumerate(ids):
        documents = Documents(seed)
        profile = documents.profile(3 * KB)
        space.set(id, profile)
        changes = documents.patches(profile)
        points += [(id, space.patch(id, next(changes)).version) for _ in range(patches)]
    return points


def _shuffled(points: list[_Point]) -> Iterator[_Point]:
    random.Random(4).shuffle(points)
    return iter(points)


def _read(space: Space, points: Iterator[_Point], count: int) -> Measure:
    views = [(space.at(version), id) for id, version in (next(points) for _ in range(count))]

    def work() -> None:
        for view, id in views:
            view.get(id)

    return timed(count, work)


def growth(effort: Effort) -> Result:
    """Compare the closed file with the limit: 1 KB for each patch and 20 documents."""
    patches = effort.count(10_000, 500)
    path = effort.folder / "rote.db"
    documents = Documents()
    archive = documents.profile(100 * KB)
    with rote.open(path, durability="os") as store:
        store.space("bench").set("urn:profile:large", archive)
    before = path.stat().st_size
    effort.report("patching", 0)
    with rote.open(path, durability="os") as store:
        space, changes = store.space("bench"), documents.patches(archive)
        for _ in range(patches):
            space.patch("urn:profile:large", next(changes))
    grown = path.stat().st_size - before
    limit = patches * KB + 20 * len(rote.canonical(archive))
    ratio = grown / limit
    return Result(limit / patches, grown / patches, "B/patch", ratio, ratio, ratio)


BENCHMARKS = [
    Benchmark(
        "history/depth",
        "point-in-time read of 3 KB, history 100,000 against 100",
        1.25,
        1.05,
        point_in_time,
        "at most",
    ),
    Benchmark(
        "history/growth",
        "small patches to 100 KB: growth of the store, against the limit",
        1.0,
        0.5,
        growth,
        "at most",
    ),
]

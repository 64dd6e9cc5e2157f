"""The cost of reading an entity by id, against selecting its bytes by key and decoding them.

Cold: a store that was just opened reads each of many entities once. Warm: it reads the same few again
and again. Both sides open a new connection in every turn, so SQLite's pages come from the system.
"""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import orjson

import rote
from bench.documents import Documents
from bench.harness import Benchmark, Effort, Measure, Result, compare_rates, timed
from bench.raw import CURRENT, RawFile, RawRows
from rote import Space

_View = Callable[[Space], Space]


def cold(effort: Effort) -> Result:
    sides = _Sides(effort)
    ids = sides.ids
    return compare_rates(effort, partial(sides.raw, [], ids), partial(sides.rote, [], ids, _head))


def warm(effort: Effort) -> Result:
    return _warm(effort, _head)


def pinned(effort: Effort) -> Result:
    return _warm(effort, _pinned)


def _warm(effort: Effort, view: _View) -> Result:
    sides = _Sides(effort)
    few = sides.ids[: effort.count(1_000, 100)]
    again = few * effort.count(20, 2)
    return compare_rates(
        effort, partial(sides.raw, few, again), partial(sides.rote, few, again, view)
    )


def _head(space: Space) -> Space:
    return space


def _pinned(space: Space) -> Space:
    return space.at(space.version)


class _Sides:
    """Two files with the same entities, and their ids in random order."""

    def __init__(self, effort: Effort) -> None:
        effort.report("writing entities", effort.rounds)
        notes = Documents().notes(effort.count(20_000, 500))
        batches = [notes[start : start + 100] for start in range(0, len(notes), 100)]
        self._raw_path: Path = effort.folder / "raw.db"
        self._rote_path: Path = effort.folder / "rote.db"
        with RawFile(self._raw_path) as file:
            file.write(RawRows().commits(batches))
        with rote.open(self._rote_path, durability="os") as store:
            for batch in batches:
                store.space("bench").transact(
                    [{"op": "set", "id": id, "value": value} for id, value in batch]
                )
        self.ids = [id for id, _ in notes]
        random.Random(3).shuffle(self.ids)

    def raw(self, before: list[str], ids: list[str]) -> Measure:
        with RawFile(self._raw_path) as file:
            _select(file, before)
            return timed(len(ids), lambda: _select(file, ids))

    def rote(self, before: list[str], ids: list[str], view: _View) -> Measure:
        with rote.open(self._rote_path) as store:
            space = view(store.space("bench"))
            _get(space, before)
            return timed(len(ids), lambda: _get(space, ids))


def _select(file: RawFile, ids: list[str]) -> None:
    execute, loads = file.cursor.execute, orjson.loads
    for id in ids:
        loads(execute(CURRENT, (1, id)).get)


def _get(space: Space, ids: list[str]) -> None:
    get = space.get
    for id in ids:
        get(id)


BENCHMARKS = [
    Benchmark("read/cold", "current read by id, cold", 0.45, 0.80, cold),
    Benchmark("read/warm", "current read by id, warm", 1.2, 3, warm),
    Benchmark("read/pinned", "warm read on a pinned view", 1.5, 10, pinned),
]

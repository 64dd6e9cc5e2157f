"""A compacted space is as small as one that never had more: 100,000 commits, of which 1,000 stay.

The quick lane does it with 2,000 and 100. The measure is a fresh store with the same content: the
state at the horizon, set at once, and then the same commits.
"""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rote.engines import Engine
from rote.engines.sqlite import SqliteEngine
from rote.opening.keys import MemoryKeys
from rote.space import Space, Store
from rote.testing import StoreSettings, open_on
from rote.testing.postgres import postgres_engine
from tests.lanes import examples

COMMITS = examples(2_000, 100_000)
KEPT = examples(100, 1_000)
ENTITIES = examples(100, 1_000)
RATIO_MAX = 1.5
THREADS = 16


class Place:
    """A store and its size: that of its file, or of its rows where they have no file of their own."""

    def __init__(self, folder: Path, kind: str) -> None:
        folder.mkdir()
        self._path = folder / "memory.db"
        self._engine: Any = (
            postgres_engine(folder)
            if kind == "postgres"
            else SqliteEngine(self._path, durability="os")
        )
        engine: Engine = self._engine
        self.store: Store = open_on(engine, StoreSettings(), keys=MemoryKeys())
        self.space: Space = self.store.space("agent")

    def size(self) -> int:
        if isinstance(self._engine, SqliteEngine):
            self._engine.scrub()
            return self._path.stat().st_size
        schema = self._engine._schema
        return sum(
            self._engine._pool.rows(f"select count(*) from {schema}.{table}", ())[0][0]
            for table in ("commits", "facts", "entities", "tombstones", "sides", "derived")
        )


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Place]]:
    made: list[Place] = []

    def make(name: str) -> Place:
        made.append(Place(tmp_path / name, request.param))
        return made[-1]

    yield make
    for each in made:
        each.store.close()


def entity(number: int) -> str:
    return f"urn:entity:{number * 7919 % ENTITIES}"


def write(space: Space, number: int) -> None:
    """Write sets and patches; of each entity one in four is a patch."""
    if number % 4 == 3 and number >= 4 * ENTITIES:
        space.patch(entity(number), [{"op": "add", "path": "/number", "value": number}])
    else:
        space.set(entity(number), {"number": number, "text": f"{number} " * 40})


def test_a_compacted_space_is_as_small_as_a_fresh_one(
    place: Callable[[str], Place], capsys: pytest.CaptureFixture[str]
) -> None:
    grown, fresh = place("grown"), place("fresh")
    line = COMMITS - KEPT + 1
    with ThreadPoolExecutor(THREADS) as threads:  # threads share transactions
        for _ in threads.map(partial(write, grown.space), range(line - 1)):
            pass
    for number in range(line - 1, COMMITS):
        write(grown.space, number)
    before = grown.size()
    view = grown.space.at(line - 1)
    fresh.space.transact(
        [{"op": "set", "id": state.id, "value": state.value} for state in view.scan()]
    )
    for number in range(line - 1, COMMITS):
        write(fresh.space, number)
    expected = [list(grown.space.at(version).scan()) for version in (line, COMMITS)]
    log = list(grown.space.log(since=line - 1))
    compaction = grown.space.compact(before=line)
    after, wanted = grown.size(), fresh.size()
    with capsys.disabled():
        sys.stdout.write(
            f"\n    {COMMITS:,} commits, {before:,} -> {after:,}, fresh {wanted:,}:"
            f" {after / wanted:.2f}; {compaction.facts:,} facts dropped\n"
        )
    assert after <= RATIO_MAX * wanted
    assert [list(grown.space.at(version).scan()) for version in (line, COMMITS)] == expected
    assert list(grown.space.log(since=line - 1)) == [*log, compaction.commit]
    report = grown.space.verify(against=compaction.checkpoint)
    assert report.ok, report.faults

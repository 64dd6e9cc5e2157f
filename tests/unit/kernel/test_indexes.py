"""An index is told of several changes together, and whoever asks writes nothing for that."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rote.contract import View
from rote.engines.sqlite import SqliteEngine
from rote.opening.keys import MemoryKeys
from rote.space import Space
from rote.testing import StoreSettings, open_on
from rote.testing.space_suite.indexes import WORDS
from rote.values.limits import INDEX_BATCH_COMMITS, INDEX_PENDING_MAX


@pytest.fixture
def engine(tmp_path: Path) -> SqliteEngine:
    return SqliteEngine(tmp_path / "memory.db", durability="os")


@pytest.fixture
def space(engine: SqliteEngine) -> Iterator[Space]:
    with open_on(engine, StoreSettings(indexes=(WORDS,)), keys=MemoryKeys()) as store:
        yield store.space("notes")


def write(space: Space, count: int) -> None:
    for _ in range(count):
        space.set(f"urn:{space.version:03d}", {"text": "red"})


def found(space: Space) -> int:
    return len(
        space._port.find(
            space.did, WORDS.name, start="", end=None, after=None, limit=99, view=View()
        )
    )


def test_rows_are_written_when_enough_has_changed(engine: SqliteEngine, space: Space) -> None:
    reads = engine.reader()
    write(space, INDEX_PENDING_MAX)
    assert reads.indexed(1, WORDS.name) == 0
    write(space, 1)
    assert reads.indexed(1, WORDS.name) == INDEX_PENDING_MAX + 1
    assert reads.derived_count(1, WORDS.name, until=space.version) == INDEX_PENDING_MAX + 1


def test_who_asks_writes_nothing(engine: SqliteEngine, space: Space) -> None:
    write(space, INDEX_PENDING_MAX)
    writes = engine._writer.connection.total_changes()
    assert found(space) == INDEX_PENDING_MAX
    assert engine._writer.connection.total_changes() == writes


def test_a_large_commit_is_in_the_rows_at_once(engine: SqliteEngine, space: Space) -> None:
    count = INDEX_PENDING_MAX + 1
    space.transact(
        [{"op": "set", "id": f"urn:{n:03d}", "value": {"text": "red"}} for n in range(count)]
    )
    assert engine.reader().indexed(1, WORDS.name) == 1
    assert found(space) == count


def test_what_is_pending_is_written_after_many_commits_that_concern_no_index(
    tmp_path: Path,
) -> None:
    """Others look at the log from where the rows end: it must not get long."""
    engine = SqliteEngine(tmp_path / "records.db", durability="os")
    with open_on(engine, StoreSettings(), keys=MemoryKeys()) as store:
        space = store.space("notes")
        write(space, INDEX_BATCH_COMMITS)
        assert engine.reader().indexed(1, "records/1") == INDEX_BATCH_COMMITS

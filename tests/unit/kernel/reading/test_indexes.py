"""An index gets several changes together, and a reader writes nothing for that."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rote.contract import View
from rote.contract.commands import Find
from rote.engines.rows import FactRow
from rote.engines.sqlite import SqliteEngine
from rote.engines.sqlite.reader import SqliteReader
from rote.kernel.reading.index_upkeep import catch_up, keepers
from rote.kernel.state.index_coverage import IndexChange
from rote.opening.keys import FolderKeys, MemoryKeys
from rote.records.index import NAME
from rote.space import Space
from rote.testing import StoreSettings, open_on
from rote.testing.space_suite.indexes import WORDS
from rote.values.limits import (
    INDEX_BATCH_COMMITS,
    INDEX_PENDING_BYTES_MAX,
    INDEX_PENDING_MAX,
)


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
        space._port.answer(
            space.did, Find(WORDS.name, start="", end=None, after=None, limit=99, view=View())
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
    """Other processes read the log from where the rows end: that part must stay short."""
    engine = SqliteEngine(tmp_path / "records.db", durability="os")
    with open_on(engine, StoreSettings(), keys=MemoryKeys()) as store:
        space = store.space("notes")
        write(space, INDEX_BATCH_COMMITS)
        assert engine.reader().indexed(1, NAME) == INDEX_BATCH_COMMITS


def pending(space: Space) -> tuple[IndexChange, ...]:
    """Return the changes that are remembered and not in the rows."""
    port: Any = space._port
    coverage = port.spaces.open(space.did).covered.get(WORDS.name)
    return () if coverage is None else tuple(coverage.pending)


def test_large_values_do_not_wait(engine: SqliteEngine, space: Space) -> None:
    """They would be kept in memory, and every search would read them."""
    text = "x" * (INDEX_PENDING_BYTES_MAX // 2)
    space.set("urn:a", {"text": text})
    assert len(pending(space)) == 1
    space.set("urn:b", {"text": text})
    assert pending(space) == ()
    assert engine.reader().indexed(1, WORDS.name) == 2


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[list[Space]]:
    """Yield one space, opened by two stores."""
    stores = [
        open_on(
            SqliteEngine(tmp_path / "shared.db", durability="os"),
            StoreSettings(indexes=(WORDS,)),
            keys=FolderKeys(tmp_path / "keys"),
        )
        for _ in range(2)
    ]
    yield [store.space("notes") for store in stores]
    for store in stores:
        store.close()


@pytest.mark.parametrize("eraser", [0, 1])
def test_what_is_erased_is_not_remembered(shared: list[Space], eraser: int) -> None:
    """The value stayed in the memory of a process that did nothing more, for as long as it ran."""
    shared[0].set("urn:a", {"text": "secret"})
    assert len(pending(shared[0])) == 1
    shared[eraser].erase("urn:a", reason="asked to")
    assert shared[0].version == 2
    assert pending(shared[0]) == ()


def test_who_asks_again_and_again_does_not_remember_everything(shared: list[Space]) -> None:
    """A store that finds the index behind leaves it alone, so a reader has to bring it up to date."""
    writer, reader = shared
    write(writer, 3)
    writer.compact(before=3)
    for _ in range(4 * INDEX_PENDING_MAX):
        write(writer, 1)
        assert found(reader) == writer.version - 1
        assert len(pending(reader)) <= INDEX_PENDING_MAX
    assert writer.verify().ok


def test_a_compaction_in_the_middle_of_catching_up_is_no_damage(
    shared: list[Space], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, reader = shared
    writer.set("urn:a", {"text": "red", "large": "x" * 20_000})
    reader.reindex()
    for number in range(3):
        writer.patch("urn:a", [{"op": "add", "path": "/n", "value": number}])
    history = SqliteReader.history

    def compacted_since(self: SqliteReader, *arguments: Any, **options: Any) -> list[FactRow]:
        rows = history(self, *arguments, **options)
        monkeypatch.undo()
        writer.compact(before=writer.version)
        return rows

    monkeypatch.setattr(SqliteReader, "history", compacted_since)
    port: Any = reader._port
    opened = port.spaces.open(reader.did)
    catch_up(opened, keepers(opened)[WORDS.name])
    assert reader.version == 5
    assert [hit.term for hit in reader.find(WORDS.name)] == ["red"]
    assert reader.verify().ok


class Named:
    """Lists every entity under its own name, if that has the prefix."""

    name = "named/1"
    prefix = "urn:a"

    def terms(self, id: str, value: Any, version: int, place: int, /) -> list[str]:
        return [id]


def test_after_a_compaction_an_index_lists_only_what_concerns_it(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path / "named.db", durability="os")
    with open_on(engine, StoreSettings(indexes=(Named(),)), keys=MemoryKeys()) as store:
        space = store.space("notes")
        for id in ("urn:a:1", "urn:b:1", "urn:a:2"):
            space.set(id, 1)
        space.create_branch("later")
        space.compact(before=space.version)
        assert [hit.id for hit in space.find("named/1")] == ["urn:a:1", "urn:a:2"]
        assert space.verify().ok

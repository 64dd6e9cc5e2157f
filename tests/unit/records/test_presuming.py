"""A put presumes an unknown record to be new, without a look; the commit proves it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rote.kernel.state.space_reader import SpaceReader
from rote.opening import open as open_store
from rote.records.memory import Memory
from rote.testing import SeededIds, SteppingClock


class Looks:
    """Counts the reads of an entity's newest state."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        current = SpaceReader.current

        def counted(reads: SpaceReader, *arguments: object) -> object:
            self.count += 1
            return current(reads, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(SpaceReader, "current", counted)


@pytest.fixture
def path(store_path: Path) -> Path:
    """Return a store with records 0 to 9."""
    with open_store(store_path) as store:
        memory = Memory(store.space("notes"))
        for number in range(10):
            memory.put("ops", "note", str(number), {"n": number})
    return store_path


@pytest.fixture
def memory(path: Path) -> Iterator[Memory]:
    """Yield a memory that has cached the branches, and nothing of the records."""
    with open_store(path) as store:
        memory = Memory(store.space("notes"))
        assert memory.space.version == 10
        yield memory


def put(memory: Memory, id: object) -> bool:
    """Whether the put created the record."""
    created: bool = memory.put("ops", "note", str(id), {"new": True})["created"]
    return created


def test_new_records_are_put_without_a_look(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(monkeypatch)
    assert all(put(memory, f"new {number}") for number in range(5))
    assert looks.count == 0


def test_a_record_that_nothing_is_known_of_keeps_when_it_was_made(memory: Memory) -> None:
    before = memory.space.at(memory.space.version).get(Memory.entity_id("ops", "note", "3"))
    assert not put(memory, 3)
    record = memory.get("ops", "note", "3")["record"]
    assert record["created_at"] == before["created_at"]
    assert record["payload"] == {"new": True}
    assert memory.space.version == 11


def test_a_deleted_record_that_nothing_is_known_of_is_created(path: Path) -> None:
    with open_store(path) as store:
        Memory(store.space("notes")).delete("ops", "note", "3")
    with open_store(path) as store:
        memory = Memory(store.space("notes"))
        assert put(memory, 3)
        assert memory.get("ops", "note", "3")["record"]["payload"] == {"new": True}


def test_after_a_wrong_guess_there_is_a_look_until_something_was_new(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(monkeypatch)
    counts = []
    for id in (0, 1, 2, "new", "newer", "newest"):
        put(memory, id)
        counts.append(looks.count)
    assert counts == [1, 2, 3, 4, 4, 4]


def test_nothing_is_presumed_where_everything_has_to_be_repeatable(tmp_path: Path) -> None:
    """A wrong guess asked the clock once more, so a restart between the calls changed the hashes."""
    heads = []
    for closed_between in (False, True):
        clock, ids = SteppingClock(), SeededIds(3)
        path = tmp_path / f"{closed_between}.db"
        store = open_store(path, clock=clock, ids=ids)
        put(Memory(store.space("notes")), 1)
        if closed_between:
            store.close()
            store = open_store(path, clock=clock, ids=ids)
            assert store.space("notes").version == 1
        put(Memory(store.space("notes")), 1)
        heads.append([commit.at for commit in store.space("notes").log()])
        store.close()
    assert heads[0] == heads[1]

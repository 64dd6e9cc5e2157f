"""Pointers: a living entity keeps its own, so that changing it writes one page less."""

from pathlib import Path

import pytest

from rote.engines.rows import MAIN, EntityRow
from rote.engines.sqlite import SqliteEngine
from rote.kernel.copying import foundation_copies
from rote.opening.keys import MemoryKeys
from rote.space import Space, Store
from rote.testing import StoreSettings, open_on
from rote.values.limits import PAGE_BYTES_MAX

A = "urn:a"


@pytest.fixture
def engine(tmp_path: Path) -> SqliteEngine:
    return SqliteEngine(tmp_path / "memory.db", durability="os")


@pytest.fixture
def store(engine: SqliteEngine) -> Store:
    return open_on(engine, StoreSettings(), keys=MemoryKeys())


@pytest.fixture
def space(store: Store) -> Space:
    return store.space("notes")


def pointers(engine: SqliteEngine) -> list[EntityRow]:
    return engine.reader().entity_rows(1, after=None, limit=9)


def test_a_pointer_to_what_lives_on_stays(engine: SqliteEngine, space: Space) -> None:
    space.set(A, {"n": 1})
    space.set(A, {"n": 2})
    space.patch(A, [{"op": "replace", "path": "/n", "value": 3}])
    assert pointers(engine) == [EntityRow(MAIN, A, 1, 0, True)]
    assert space.verify().ok


def test_a_delete_and_what_comes_after_it_move_the_pointer(
    engine: SqliteEngine, space: Space
) -> None:
    space.set(A, 1)
    space.set(A, 2)
    space.delete(A)
    assert pointers(engine) == [EntityRow(MAIN, A, 3, 0, False)]
    space.set(A, 3)
    space.set(A, 4)
    assert pointers(engine) == [EntityRow(MAIN, A, 4, 0, True)]
    assert space.verify().ok


def test_a_branch_has_a_pointer_to_what_it_writes_of_its_parents(
    engine: SqliteEngine, space: Space
) -> None:
    space.set(A, 1)
    child = space.create_branch("child")
    child.set(A, 2)
    child.set(A, 3)
    assert pointers(engine) == [EntityRow(MAIN, A, 1, 0, True), EntityRow(2, A, 3, 0, True)]
    assert [state.value for state in child.scan()] == [3]
    assert space.verify().ok


def test_an_erasure_leads_to_the_newest_fact(engine: SqliteEngine, space: Space) -> None:
    space.set(A, 1)
    space.set(A, 2)
    space.erase(A, reason="asked to")
    assert pointers(engine) == [EntityRow(MAIN, A, 2, 0, False)]
    assert space.verify().ok


def test_a_pointer_below_the_line_of_a_compaction_is_no_fault(
    engine: SqliteEngine, space: Space
) -> None:
    for number in range(9):
        space.set(A, number)
    space.compact(before=7)
    assert pointers(engine) == [EntityRow(MAIN, A, 1, 0, True)]
    assert space.verify().ok
    assert [state.value for state in space.at(7).scan()] == [6]


def test_a_copy_has_the_pointers_of_its_source(
    engine: SqliteEngine, store: Store, space: Space, tmp_path: Path
) -> None:
    space.set(A, 1)
    child = space.create_branch("child")
    for number in range(3):
        child.set(A, number)
        space.set("urn:b", number)
    space.delete(A)
    space.set(A, 2)
    space.set(A, 3)
    child.delete(A)
    target = SqliteEngine(tmp_path / "copy.db", durability="os")
    with open_on(target, StoreSettings(), keys=MemoryKeys()) as copy:
        assert store.copy("notes", copy).ok
        assert pointers(target) == pointers(engine)


@pytest.mark.parametrize("page_bytes_max", [1, PAGE_BYTES_MAX])
def test_a_copy_of_what_was_compacted_has_one_pointer_for_each_entity_of_a_branch(
    store: Store,
    space: Space,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    page_bytes_max: int,
) -> None:
    """Each fork keeps a fact of both entities, and the line's own commit writes one of them again."""
    monkeypatch.setattr(foundation_copies, "PAGE_BYTES_MAX", page_bytes_max)
    both = (A, "urn:b")
    space.transact([{"op": "set", "id": id, "value": 1} for id in both])
    space.create_branch("first")
    space.transact([{"op": "delete", "id": id} for id in both])
    space.create_branch("second")
    space.transact([{"op": "set", "id": id, "value": 2} for id in both])
    space.create_branch("third")
    space.set(A, 3)
    space.set("urn:c", 1)
    space.compact(before=7)
    target = SqliteEngine(tmp_path / "copy.db", durability="os")
    with open_on(target, StoreSettings(), keys=MemoryKeys()) as copy:
        assert store.copy("notes", copy).ok
        live = [(A, 7, 0), ("urn:b", 5, 1), ("urn:c", 8, 0)]
        assert pointers(target) == [EntityRow(MAIN, *place, True) for place in live]
        assert copy.space("notes").verify().ok


@pytest.mark.parametrize(("version", "index"), [(2, 0), (3, 0), (4, 1), (1, 1), (1, 2**63 - 1)])
def test_a_pointer_to_no_value_of_its_entity_is_a_fault(
    engine: SqliteEngine, space: Space, version: int, index: int
) -> None:
    space.set(A, 1)
    space.set("urn:b", 1)
    space.delete("urn:b")
    space.set(A, 2)
    with engine.writer(1) as writes:
        writes.connection.execute(
            "update entities set version = ?, position = ? where id = ?", (version, index, A)
        )
    assert [(fault.kind, fault.id) for fault in space.verify().faults] == [("head", A)]


def test_a_pointer_to_a_delete_says_so(engine: SqliteEngine, space: Space) -> None:
    space.set(A, 1)
    space.delete(A)
    space.set(A, 2)
    space.set(A, 3)
    with engine.writer(1) as writes:
        writes.connection.execute("update entities set version = 2 where id = ?", (A,))
    assert [(fault.kind, fault.id) for fault in space.verify().faults] == [("head", A)]

"""Pointers: a living entity keeps its own, so that changing it writes one page less."""

from pathlib import Path

import pytest

from rote.engines.rows import MAIN, EntityRow
from rote.engines.sqlite import SqliteEngine
from rote.opening.keys import MemoryKeys
from rote.space import Space
from rote.testing import StoreSettings, open_on

A = "urn:a"


@pytest.fixture
def engine(tmp_path: Path) -> SqliteEngine:
    return SqliteEngine(tmp_path / "memory.db", durability="os")


@pytest.fixture
def space(engine: SqliteEngine) -> Space:
    return open_on(engine, StoreSettings(), keys=MemoryKeys()).space("notes")


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

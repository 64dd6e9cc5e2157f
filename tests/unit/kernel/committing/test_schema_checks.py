"""The cost of a registry of schemas: nothing where there is none, no further read where there is one."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from rote.engines import Engine, Writer
from rote.engines.rows import SpaceRow
from rote.engines.sqlite import SqliteEngine
from rote.kernel.state.open_space import OpenSpace
from rote.opening.keys import MemoryKeys
from rote.space import Space
from rote.testing import StoreSettings, open_on
from rote.testing.stores import wiring_on

# The head, the state of the entity, and the rows: one call each.
FREE = Counter({"head": 1, "newest": 1, "append": 1})


class Counted:
    """A writer that counts its calls."""

    def __init__(self, writes: Writer, calls: Counter[str]) -> None:
        self._writes = writes
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        self._calls[name] += 1
        return getattr(self._writes, name)


class CountingEngine:
    """An engine whose writers count."""

    def __init__(self) -> None:
        self._engine = SqliteEngine(None)
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    @contextmanager
    def writer(self, space: int, *, optimistic: bool = False) -> Iterator[Counted]:
        with self._engine.writer(space, optimistic=optimistic) as writes:
            yield Counted(writes, self.calls)


@pytest.fixture
def engine() -> CountingEngine:
    return CountingEngine()


@pytest.fixture
def space(engine: CountingEngine) -> Iterator[Space]:
    with open_on(cast(Engine, engine), StoreSettings(), keys=MemoryKeys()) as store:
        space = store.space("notes")
        assert space.version == 0  # the branches are known from here on
        yield space


def cost(engine: CountingEngine, space: Space, id: str) -> Counter[str]:
    engine.calls.clear()
    space.set(id, {"text": "a"})
    return Counter(engine.calls)


def govern(space: Space) -> None:
    space.set("urn:schema:note", {"required": ["text"]})
    space.set("urn:schemas", {"urn:note:": "note"})


def test_whether_there_is_a_registry_never_costs_a_call(
    engine: CountingEngine, space: Space
) -> None:
    for number in range(3):
        assert cost(engine, space, f"urn:note:{number}") == FREE


def test_the_rules_of_a_space_are_looked_up_once(engine: CountingEngine, space: Space) -> None:
    govern(space)
    cost(engine, space, "urn:note:2")
    assert cost(engine, space, "urn:note:3") == FREE


def test_a_registry_that_was_taken_away_costs_nothing_any_more(
    engine: CountingEngine, space: Space
) -> None:
    govern(space)
    space.delete("urn:schemas")
    cost(engine, space, "urn:note:2")
    assert cost(engine, space, "urn:note:3") == FREE


def test_that_there_is_none_is_noted_only_of_what_is_known_now() -> None:
    """A thread that looked before another one caught up must not record an outdated answer."""
    space = OpenSpace(SpaceRow(1, "did:key:x", "notes", b""), wiring_on(SqliteEngine(None)))
    space.note_ungoverned(1, space.known + 1)
    assert not space.ungoverned
    space.note_ungoverned(1, space.known)
    assert space.ungoverned == {1}

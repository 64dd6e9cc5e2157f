"""The ground of the space suite: stores with a clock and ids of the test's own."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from rote.contract import Commit, Port
from rote.contract.commands import Command, Work
from rote.errors import RoteError
from rote.kernel import Kernel
from rote.space import Space, Store
from rote.testing.clocks import FixedClock
from rote.testing.sources import SeededIds
from rote.testing.stores import StoreSettings

A, B, C = "urn:a", "urn:b", "urn:c"


class SpaceGround:
    """Subclasses open the store; each test has its own place."""

    place: Path
    clock: FixedClock
    ids: SeededIds
    store: Store
    space: Space

    def open_store(self, place: Path, settings: StoreSettings) -> Store:
        """Return a store in `place`, a folder of this test alone; the same place is the same data."""
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _ground(self, tmp_path: Path) -> Iterator[None]:
        self.place = tmp_path
        self.clock = FixedClock()
        self.ids = SeededIds()
        self._opened: list[Store] = []
        self.store = self.open()
        self.space = self.store.space("notes")
        yield
        for store in self._opened:
            store.close()

    def open(self, place: Path | None = None, **changes: Any) -> Store:
        """Return a store with the test's clock and ids, or with other settings."""
        settings = replace(StoreSettings(clock=self.clock, ids=self.ids), **changes)
        store = self.open_store(place or self.place, settings)
        self._opened.append(store)
        return store

    def open_fresh(self, name: str, **changes: Any) -> Store:
        """Return a store in a place of its own, beside the test's."""
        place = self.place / name
        place.mkdir()
        return self.open(place, **changes)

    @property
    def port(self) -> Port:
        return port_of(self.store)

    @property
    def did(self) -> str:
        return self.space.did


def port_of(store: Store) -> Port:
    """Return the port behind a store; only suites look behind it."""
    return store._port


def kernel_of(port: Port) -> Kernel:
    """Return the kernel behind a port, whatever is wrapped around it."""
    while not isinstance(port, Kernel):
        port = cast(Any, port)._port
    return port


def answered(ground: SpaceGround, command: Command[Any]) -> Any:
    """Return the answer to any command to the space of a test, also of one that takes long."""
    if isinstance(command, Work):
        return ground.port.begin(ground.did, command).result()
    return ground.port.answer(ground.did, command)


def put(id: str, value: Any, **more: Any) -> dict[str, Any]:
    """Return a set operation."""
    return {"op": "set", "id": id, "value": value, **more}


def change(id: str, *operations: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a patch operation."""
    return {"op": "patch", "id": id, "ops": list(operations), **more}


def remove(id: str) -> dict[str, Any]:
    """Return a delete operation."""
    return {"op": "delete", "id": id}


def add(path: str, value: Any) -> dict[str, Any]:
    """Return one member of a patch."""
    return {"op": "add", "path": path, "value": value}


def logged(space: Space) -> list[Commit]:
    return list(space.log())


class Unchanged:
    """A block after which the space is exactly as it was before, and the ids drew nothing."""

    def __init__(self, ground: SpaceGround, kind: type[RoteError]) -> None:
        self._ground = ground
        self._raises = pytest.raises(kind)

    def __enter__(self) -> "pytest.ExceptionInfo[RoteError]":
        space = self._ground.space
        self._before = (logged(space), list(space.scan()), len(self._ground.ids.draws))
        return self._raises.__enter__()

    def __exit__(self, *error: Any) -> bool:
        expected = self._raises.__exit__(*error)
        space = self._ground.space
        after = (logged(space), list(space.scan()), len(self._ground.ids.draws))
        assert after == self._before, "a refused write left something behind"
        return bool(expected)

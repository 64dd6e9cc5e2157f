"""A store that a state machine runs, with its sources and its open handles."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rote.contract import Port
from rote.space import Space, Store
from rote.testing.clocks import FixedClock
from rote.testing.sources import SeededIds
from rote.testing.stores import StoreSettings

OpenStore = Callable[[Path, StoreSettings], Store]


@dataclass
class World:
    """One store under test: its place, its sources, and its open handles."""

    open_store: OpenStore
    place: Path
    handles_count: int
    clock: FixedClock = field(default_factory=FixedClock)
    ids: SeededIds = field(default_factory=SeededIds)
    stores: list[Store] = field(default_factory=list)
    spaces: list[Space] = field(default_factory=list)

    def open(self) -> None:
        settings = StoreSettings(clock=self.clock, ids=self.ids)
        for _ in range(self.handles_count):
            self.stores.append(self.open_store(self.place, settings))
            self.spaces.append(self.stores[-1].space("notes"))

    def space(self, handle: int, branch: str = "main") -> Space:
        space = self.spaces[handle % len(self.spaces)]
        return space if branch == "main" else space.on(branch)

    def port(self, handle: int) -> Port:
        """Return the port behind a handle, for calls that the public methods would not make."""
        return self.space(handle)._port

    def close(self) -> None:
        for store in self.stores:
            store.close()
        self.stores.clear()
        self.spaces.clear()

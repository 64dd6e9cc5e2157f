"""Opening a store for a test: clock, ids and keys come from the test instead of the system."""

from dataclasses import dataclass, field
from pathlib import Path

from rote.contract import Clock, IdSource, Index, KeyRing
from rote.engines import Engine
from rote.kernel import Kernel
from rote.kernel.state.wiring import Wiring
from rote.opening.keys import MemoryKeys
from rote.opening.sources import SystemTokens
from rote.records import RECORDS
from rote.runs import StoreRuns
from rote.space import Store
from rote.testing.clocks import FixedClock
from rote.testing.sources import SeededIds


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """The settings of a store that a suite opens."""

    clock: Clock = field(default_factory=FixedClock)
    ids: IdSource = field(default_factory=SeededIds)
    author: str | None = None  # noted in every commit
    seed: bytes | None = None  # the key seed of the next space that is made
    indexes: tuple[Index, ...] = (RECORDS,)  # derived indexes that the store keeps
    modes: tuple[str, ...] | None = None  # of runs that are enabled
    lease_seconds: float = 3_600  # of runs; long, so that none ends behind a test's back
    traces: Path | None = None  # folder of the traces of runs
    presumes: bool = False  # whether it may draw more ids than it needs


def wiring_on(engine: Engine) -> Wiring:
    """The wiring of a kernel on an engine that is used without a store."""
    keys, ids = MemoryKeys(), SeededIds()
    return Wiring(engine, FixedClock(), ids, SystemTokens(), keys, {}, presumes=False)


def open_on(engine: Engine, settings: StoreSettings, *, keys: KeyRing) -> Store:
    """Return an embedded store on any engine."""
    kernel = Kernel(
        engine,
        clock=settings.clock,
        ids=settings.ids,
        # Attempts never become part of the history, so they need not be repeatable.
        tokens=SystemTokens(),
        keys=keys,
        author=settings.author,
        seed=settings.seed,
        indexes=settings.indexes,
        presumes=settings.presumes,
    )
    runs = StoreRuns(
        kernel,
        ids=settings.ids,
        tokens=SystemTokens(),
        modes=settings.modes,
        lease_seconds=settings.lease_seconds,
        folder=settings.traces,
    )
    runs.recover_if_possible()
    return Store(kernel, url="test:", runs=runs)

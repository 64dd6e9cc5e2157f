"""Opening a store for a test: clock, ids and keys come from the test instead of the system."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rote.contract import (
    Caller,
    Clock,
    ContentRule,
    IdSource,
    Index,
    KeyRing,
    OpenStore,
    PackedIndex,
    Port,
)
from rote.engines import Engine
from rote.kernel import Kernel
from rote.kernel.state.wiring import Wiring
from rote.opening.keys import MemoryKeys
from rote.opening.sources import SystemIds, SystemTokens
from rote.records.contents import RECORD_CONTENTS
from rote.records.erasing import MATCHER
from rote.records.index import RECORDS
from rote.retrieval.searching import StateSearching
from rote.retrieval.segments.words import WORDS, WORDS_NONE
from rote.retrieval.texts import RecordTexts
from rote.runs.answers import RunQuestions
from rote.runs.side_rules import SIDE_RULES as RUN_RULES
from rote.runs.store_runs import StoreRuns
from rote.sessions.links import LocalLinker
from rote.sessions.side_rules import SIDE_RULES as SESSION_RULES
from rote.sessions.store_sessions import StoreSessions
from rote.space import Store
from rote.space.home import Home
from rote.space.receipts import ReceiptRule
from rote.testing.clocks import FixedClock
from rote.testing.sources import SeededIds
from rote.tiers.messages import MESSAGES


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """The settings of a store that a suite opens."""

    clock: Clock = field(default_factory=FixedClock)
    ids: IdSource = field(default_factory=SeededIds)
    author: str | None = None  # noted in every commit
    seed: bytes | None = None  # the key seed of the next space that is made
    # Derived indexes that the store keeps.
    indexes: tuple[Index | PackedIndex, ...] = (
        RECORDS,
        WORDS,
        WORDS_NONE,
        MESSAGES,
    )
    content_rules: tuple[ContentRule, ...] = (RECORD_CONTENTS,)  # what entities may hold
    modes: tuple[str, ...] | None = None  # of runs that are enabled
    lease_seconds: float = 3_600  # of runs; long, so that none ends behind a test's back
    traces: Path | None = None  # folder of the traces of runs
    presumes: bool = False  # whether it may draw more ids than it needs
    read_only: bool = False  # whether nothing may be written


def wiring_on(engine: Engine) -> Wiring:
    """The wiring of a kernel on an engine that is used without a store."""
    return Wiring(
        engine=engine, clock=FixedClock(), ids=SeededIds(), tokens=SystemTokens(),
        keys=MemoryKeys(), questions=RunQuestions(), indexes={}, packed={}, side_rules={},
        matchers=(), content_rules=(), guarded=(), texts=None,
        port=lambda: Kernel.__new__(Kernel), presumes=False,
        open_store=OpenStore(engine.mark),
    )  # fmt: skip


def open_on(
    engine: Engine,
    settings: StoreSettings,
    *,
    keys: KeyRing,
    layer: Callable[[Port], Port] = lambda port: port,
) -> Store:
    """Return an embedded store on any engine; `layer` wraps its port."""
    kernel = Kernel(
        engine,
        clock=settings.clock,
        ids=settings.ids,
        # Attempts never become part of the history, so they need not be repeatable.
        tokens=SystemTokens(),
        keys=keys,
        questions=RunQuestions(),
        caller=Caller(settings.author),
        seed=settings.seed,
        indexes=settings.indexes,
        side_rules=(*RUN_RULES, *SESSION_RULES, ReceiptRule()),
        matchers=(MATCHER,),
        content_rules=settings.content_rules,
        texts=RecordTexts(),
        presumes=settings.presumes,
    )
    port = layer(kernel)
    read_only = engine.read_only is not None
    runs = StoreRuns(
        port,
        ids=settings.ids,
        tokens=SystemTokens(),
        modes=settings.modes,
        lease_seconds=settings.lease_seconds,
        folder=settings.traces,
        read_only=read_only,
    )
    runs.recover_if_possible()
    return Store(
        port,
        url="test:",
        local=kernel,
        create=not read_only,
        read_only=read_only,
        runs=runs,
        searching=StateSearching(),
        home=Home(
            settings.ids,
            sessions=StoreSessions(
                LocalLinker(port, randomness=SystemIds()), randomness=SystemIds()
            ),
        ),
    )

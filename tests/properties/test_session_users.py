"""Whatever links do, users of sessions see their writes at once, and lose or repeat none."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import count, islice
from random import Random

import pytest

from rote.errors import RoteError
from rote.opening import open as open_store
from rote.opening.sources import SystemClock, SystemIds
from rote.server.sync import session as server_session
from rote.sessions import exchange, flow, links
from rote.sessions.links import LocalLinker
from rote.sessions.store_sessions import StoreSessions
from rote.space import Store
from rote.space.sources import port_of_store
from rote.testing.clocks import SteppingClock
from rote.testing.sources import SeededIds
from tests.lanes import examples, until_enough
from tests.properties import session_plants as plants
from tests.properties import session_users
from tests.properties.breaking_links import BreakingLinker
from tests.properties.session_histories import CrashingPort
from tests.properties.session_users import UserSchedule
from tests.properties.session_wires import Ground, ground

SCHEDULES = 40
# What forty schedules have at least; with less they would prove little.
LEAST = {
    "accepted": 120,
    "reads": 50,
    "rejected by conflict": 40,
    "rejected by dependency_rejected": 5,
    "rejected by withdrawn": 3,
    "at once": 12,
    "made again": 15,
    "cuts": 35,
    "resumes": 70,
    "lost openings": 4,
    "unheard": 30,
    "looks": 150,
    "frames": 40,
}
WIRED = 10
LEAST_WIRED = {"accepted": 25, "rejected by conflict": 4, "cuts": 6, "resumes": 12, "looks": 25}


@pytest.fixture(autouse=True)
def _without_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let steps and lines come as soon as they may."""
    for module in (links, server_session):
        monkeypatch.setattr(module, "WATCH_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(links, "WATCH_LOOK_SECONDS", 0.002)
    monkeypatch.setattr(flow, "SYNC_EMPTY_SECONDS", 0.0)
    monkeypatch.setattr(exchange, "LINE_PAUSE_SECONDS_MIN", 0.001)
    monkeypatch.setattr(exchange, "LINE_PAUSE_SECONDS_MAX", 0.01)


def run(seeds: Iterable[int], counts: Counter[str]) -> None:
    """Run schedules on stores in this process, each with two desks."""
    for seed in seeds:
        clock, ids = SteppingClock(), SeededIds(seed)
        with open_store(":memory:", clock=clock, ids=ids, durability="os") as store:
            port = CrashingPort(port_of_store(store))
            desks = [LocalLinker(port, randomness=SystemIds()) for _ in range(2)]
            linker = BreakingLinker(desks, Random(seed), counts)
            sessions = StoreSessions(linker, randomness=SystemIds())
            space = store.space("s")
            UserSchedule(
                seed, counts, spaces=[space], sessions=sessions, linker=linker, crash=port.crash
            ).run()


@pytest.mark.parametrize("share", range(examples(1, 20)))
def test_users_see_what_they_did_and_the_log_has_what_they_were_told(share: int) -> None:
    schedules = examples(SCHEDULES, 500)
    seeds = count(share * 1_000_000)
    least = {name: few * schedules / SCHEDULES for name, few in LEAST.items()}
    until_enough(lambda counts: run(islice(seeds, schedules), counts), least)


# -- over wires ------------------------------------------------------------------------------------


class Wired:
    """Two servers, and a store behind each of them."""

    def __init__(self, on: Ground, stores: list[Store]) -> None:
        self.on = on
        self.stores = stores


@pytest.fixture(scope="module")
def wired() -> Iterator[Wired]:
    with ground() as on, ExitStack() as ending:
        stores = [
            ending.enter_context(open_store(linker.url, token=linker.token))
            for linker in on.linkers
        ]
        yield Wired(on, stores)


@pytest.mark.parametrize("share", range(examples(1, 8)))
def test_users_behind_servers_see_what_they_did(share: int, wired: Wired) -> None:
    schedules = examples(WIRED, 250)
    seeds = count(share * 1_000_000)
    least = {name: few * schedules / WIRED for name, few in LEAST_WIRED.items()}
    until_enough(lambda counts: run_wired(islice(seeds, schedules), counts, wired), least)


def run_wired(seeds: Iterable[int], counts: Counter[str], wired: Wired) -> None:
    """Run schedules on the stores behind servers."""
    for seed in seeds:
        random = Random(seed)
        for below in wired.on.linkers:
            below.pool.break_some(random)
        linker = BreakingLinker(wired.on.linkers, random, counts)
        sessions = StoreSessions(linker, randomness=SystemIds(), clock=SystemClock())
        spaces = [store.space(f"u{seed}") for store in wired.stores]
        UserSchedule(
            seed,
            counts,
            spaces=spaces,
            sessions=sessions,
            linker=linker,
            crash=wired.on.port.crash,
            is_remote=True,
        ).run()


# -- planted bugs ----------------------------------------------------------------------------------

PLANTS = [
    plants.name_no_layers,
    plants.leave_dependents_alone,
    plants.show_later_layers_to_transactions,
    plants.integrate_without_a_step,
    plants.forget_what_was_not_answered,
    plants.take_refusals_for_verdicts,
]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_the_schedules_find_a_planted_bug(
    plant: plants.Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    monkeypatch.setattr(session_users, "REST_SECONDS", 1.0)
    with pytest.raises((AssertionError, RoteError, KeyError)):
        # Up to the first that fails; threads decide which one does.
        run(range(20 * SCHEDULES), Counter())

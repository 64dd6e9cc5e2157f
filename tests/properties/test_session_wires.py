"""Whatever breaking lines to two servers do to sessions, each commit is decided once, and nothing is shown
before its verdict."""

from collections import Counter
from collections.abc import Iterator

import pytest

from rote.errors import RoteError
from rote.server.sync import session as server_session
from rote.sessions import flow
from tests.lanes import examples, until_enough
from tests.properties import session_plants as plants
from tests.properties.session_wires import Ground, WireSchedule, ground

SCHEDULES = 15
# What as many schedules have at least; with less they would prove little.
LEAST = {
    "steps": 100,
    "folds": 100,
    "rejections": 30,
    "cascades": 15,
    "cuts": 35,
    "cuts in openings": 8,
    "delays": 12,
    "resumes": 60,
    "takeovers": 30,
    "late openings": 20,
    "lost openings": 12,
    "doubles": 12,
    "replays": 5,
    "refusals": 20,
    "withdrawn": 1,
    "watch changes": 10,
}


@pytest.fixture(scope="module")
def on() -> Iterator[Ground]:
    with ground() as made:
        yield made


@pytest.fixture(autouse=True)
def _without_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let steps come as soon as they are due: schedules do not depend on time."""
    monkeypatch.setattr(server_session, "WATCH_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(flow, "SYNC_EMPTY_SECONDS", 0.0)


def run(on: Ground, schedules: int, counts: Counter[str]) -> None:
    for _ in range(schedules):
        WireSchedule(on.next_seed(), counts, on).run()


@pytest.mark.parametrize("share", range(examples(1, 8)))
def test_every_schedule_over_breaking_lines_is_decided_as_the_log_says(
    share: int, on: Ground, capfd: pytest.CaptureFixture[str]
) -> None:
    schedules = examples(SCHEDULES, 500)
    on.begin_with(share * 1_000_000)
    least = {name: few * schedules // SCHEDULES for name, few in LEAST.items()}
    until_enough(lambda counts: run(on, schedules, counts), least)
    assert capfd.readouterr().err == "", "a line that breaks is an error, and nothing to print"


PLANTS = [
    plants.count_every_own_commit_as_seen,
    plants.forget_the_layers,
    plants.apply_a_resend_again,
    plants.accept_a_stale_token,
    plants.lose_verdicts_that_wait,
    plants.show_steps_before_their_verdicts,
    plants.lose_acknowledgements,
    plants.send_a_step_too_many,
    plants.let_a_step_overtake_a_verdict,
]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_the_schedules_find_a_planted_bug(
    plant: plants.Plant, on: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, RoteError, KeyError)):
        # Up to the first that fails; threads decide which one does.
        run(on, 30 * SCHEDULES, Counter())

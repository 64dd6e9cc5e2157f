"""Whatever lines do to the messages of sessions, each commit is decided once, and nothing is shown before
its verdict."""

from collections import Counter

import pytest

from rote.errors import RoteError
from rote.sessions import flow, links
from tests.lanes import examples
from tests.properties import session_plants as plants
from tests.properties.session_lines import LineSchedule

SCHEDULES = 100
# What a hundred schedules have at least; with less they would prove little.
LEAST = {
    "parts": 100,
    "rejected forks": 40,
    "hashes": 10,
    "keys again": 20,
    "steps": 1_000,
    "folds": 1_000,
    "rejections": 250,
    "cascades": 90,
    "cuts": 250,
    "resumes": 500,
    "takeovers": 150,
    "late openings": 150,
    "lost openings": 150,
    "lost answers": 40,
    "doubles": 100,
    "replays": 70,
    "refusals": 150,
    "withdrawn": 20,
    "watch changes": 100,
}


@pytest.fixture(autouse=True)
def _without_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let steps come as soon as they are due: schedules do not depend on time."""
    monkeypatch.setattr(links, "WATCH_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(flow, "SYNC_EMPTY_SECONDS", 0.0)


def run(schedules: int, first: int = 0) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in range(first, first + schedules):
        LineSchedule(seed, counts).run()
    return counts


@pytest.mark.parametrize("share", range(examples(1, 20)))
def test_every_schedule_over_lines_is_decided_as_the_log_says(share: int) -> None:
    schedules = examples(SCHEDULES, 1_000)
    counts = run(schedules, share * schedules)
    for name, least in LEAST.items():
        assert counts[name] >= least * schedules // SCHEDULES, (name, counts)


PLANTS = [
    plants.count_every_own_commit_as_seen,
    plants.forget_the_layers,
    plants.take_rejected_layers_for_accepted,
    plants.apply_a_resend_again,
    plants.accept_a_stale_token,
    plants.let_a_holder_before_go_on,
    plants.let_go_of_what_can_still_be_named,
    plants.lose_verdicts_that_wait,
    plants.miss_what_moves_in_an_array,
    plants.hash_the_session,
    plants.show_steps_before_their_verdicts,
    plants.go_on_without_the_verdict_before,
    plants.lose_acknowledgements,
    plants.send_a_step_too_many,
    plants.show_watches_before_their_answer,
]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_the_schedules_find_a_planted_bug(
    plant: plants.Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, RoteError, KeyError)):
        run(SCHEDULES // 2)

"""Whatever the line does, the desk decides each commit of a session once, rightly and for its owner."""

from collections import Counter

import pytest

from rote.errors import RoteError
from tests.lanes import examples
from tests.properties import session_plants as plants
from tests.properties.session_schedules import Schedule

SCHEDULES = 100
# What a hundred schedules have at least; with less they would prove little.
LEAST = {
    "rejections": 250,
    "cascades": 120,
    "resumes": 500,
    "takeovers": 200,
    "replays": 100,
    "lost answers": 100,
    "withdrawn": 15,
}


def run(schedules: int) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in range(schedules):
        Schedule(seed, counts).run()
    return counts


def test_every_schedule_is_decided_as_the_log_says() -> None:
    schedules = examples(SCHEDULES, 20_000)
    counts = run(schedules)
    for name, least in LEAST.items():
        assert counts[name] >= least * schedules // SCHEDULES, (name, counts)


# -- planted bugs ----------------------------------------------------------------------------------

PLANTS = [
    plants.count_every_own_commit_as_seen,
    plants.forget_the_layers,
    plants.take_rejected_layers_for_accepted,
    plants.apply_a_resend_again,
    plants.accept_a_stale_token,
    plants.let_a_holder_before_go_on,
    plants.let_go_of_what_can_still_be_named,
    plants.lose_verdicts_that_wait,
]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_the_schedules_find_a_planted_bug(
    plant: plants.Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, RoteError, KeyError)):
        run(SCHEDULES // 2)

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
    "parts": 100,
    "rejected forks": 40,
    "hashes": 10,
    "keys again": 20,
    "rejections": 250,
    "cascades": 90,
    "resumes": 500,
    "takeovers": 200,
    "replays": 100,
    "lost answers": 100,
    "withdrawn": 15,
}


def run(schedules: int, first: int = 0) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in range(first, first + schedules):
        Schedule(seed, counts).run()
    return counts


@pytest.mark.parametrize("share", range(examples(1, 20)))
def test_every_schedule_is_decided_as_the_log_says(share: int) -> None:
    schedules = examples(SCHEDULES, 1_000)
    counts = run(schedules, share * schedules)
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
    plants.miss_what_moves_in_an_array,
    plants.hash_the_session,
]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_the_schedules_find_a_planted_bug(
    plant: plants.Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, RoteError, KeyError)):
        run(SCHEDULES // 2)

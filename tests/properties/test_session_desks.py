"""Whatever the line does, the desk decides each commit of a session once, rightly and for its owner."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from rote.errors import RoteError
from rote.sessions import sittings
from rote.sessions.admission import admitted_reads
from rote.sessions.desk import Desk
from rote.sessions.rows import session_in
from rote.sessions.sittings import Sitting
from tests.lanes import examples
from tests.properties.session_schedules import Schedule

Plant = Callable[[pytest.MonkeyPatch], None]
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


def count_every_own_commit_as_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def named(reads: Any, window: Any, **more: Any) -> Any:
        return [
            {**read, "besides": [each.version for each in window.values()]}
            for read in admitted_reads(reads, window, **more)
        ]

    monkeypatch.setattr(sittings, "admitted_reads", named)


def forget_the_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(reads: Any, window: Any, **more: Any) -> Any:
        return [
            {name: part for name, part in read.items() if name != "besides"}
            for read in admitted_reads(reads, window, **more)
        ]

    monkeypatch.setattr(sittings, "admitted_reads", forgetful)


def take_rejected_layers_for_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(reads: Any, window: Any, **more: Any) -> Any:
        return admitted_reads(
            reads, {local: replace(each, error=None) for local, each in window.items()}, **more
        )

    monkeypatch.setattr(sittings, "admitted_reads", blind)


def apply_a_resend_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sitting, "_known", lambda self, local: None)


def accept_a_stale_token(monkeypatch: pytest.MonkeyPatch) -> None:
    def lenient(self: Desk, row: Any, token: str, given: str) -> Any:
        try:
            return resumed(self, row, token, given)
        except RoteError:
            return replace(session_in(row), opens=session_in(row).opens + 1)

    resumed = Desk._resumed
    monkeypatch.setattr(Desk, "_resumed", lenient)


def let_a_holder_before_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def same(self: Desk, row: Any, token: str, given: str) -> Any:
        body = resumed(self, row, token, given)
        return replace(body, opens=body.opens - 1)

    resumed = Desk._resumed
    monkeypatch.setattr(Desk, "_resumed", same)


def let_go_of_what_can_still_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def early(self: Sitting) -> None:
        self._drop([local for local in self._window if local <= self.acknowledged])

    monkeypatch.setattr(Sitting, "_let_go", early)


def lose_verdicts_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sitting, "verdicts", lambda self: [])


PLANTS = [
    count_every_own_commit_as_seen,
    forget_the_layers,
    take_rejected_layers_for_accepted,
    apply_a_resend_again,
    accept_a_stale_token,
    let_a_holder_before_go_on,
    let_go_of_what_can_still_be_named,
    lose_verdicts_that_wait,
]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_the_schedules_find_a_planted_bug(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, RoteError, KeyError)):
        run(SCHEDULES // 2)

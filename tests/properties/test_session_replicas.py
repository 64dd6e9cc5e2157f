"""A session's client shows what is confirmed with its own layers, and names all that its reads have seen."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from rote.sessions import links
from rote.sessions.layers import Fold, Layer
from rote.sessions.stack import Stack
from tests.lanes import examples
from tests.properties.session_replicas import ReplicaSchedule

SCHEDULES = 40
# What forty schedules have at least; with less they would prove little.
LEAST = {
    "writes": 100, "transactions": 10, "accepted": 60, "rejected": 20, "steps": 60, "left out": 20,
    "named": 20, "cancels": 3, "at once conflict": 3,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _without_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "WATCH_PAUSE_SECONDS", 0.0)


def run(schedules: int) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in range(schedules):
        ReplicaSchedule(seed, counts).run()
    return counts


def test_every_view_is_the_confirmed_state_with_the_layers() -> None:
    schedules = examples(SCHEDULES, 10_000)
    counts = run(schedules)
    for name, least in LEAST.items():
        assert counts[name] >= least * schedules // SCHEDULES, (name, counts)


def name_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Layer, "overlaps", lambda self, read: False)


def keep_what_is_integrated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stack, "_integrate", lambda self: None)


def integrate_without_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def early(self: Stack) -> None:
        for local, (laid, _) in list(self._accepted.items()):
            del self._accepted[local]
            self._folds.clear()
            laid.fate.status = "integrated"

    monkeypatch.setattr(Stack, "_integrate", early)


def show_later_layers_to_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Fold.own
    monkeypatch.setattr(Fold, "own", lambda self, id, until: own(self, id, 10**9))


def apply_parts_of_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    effect = Fold._effect

    def partial(self: Fold, layer: Layer) -> Any:
        made = effect(self, layer)
        if made is not None:
            return made
        markers = [each for each in layer.sent.operations if each["id"].startswith("urn:m:")]
        sent = type(layer.sent)(layer.local, layer.sent.basis, markers)
        ids = frozenset([each["id"] for each in markers])
        alone = effect(self, Layer(sent, layer.now, layer.size_bytes, ids, layer.names))
        return {**dict.fromkeys(layer.ids), **(alone or {})}

    monkeypatch.setattr(Fold, "_effect", partial)


def leave_dependents_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    reject = Stack.reject

    def alone(self: Stack, local: int, error: BaseException, version: int) -> None:
        waiting, self._waiting = self._waiting, {local: self._waiting[local]}
        reject(self, local, error, version)
        self._waiting = waiting

    monkeypatch.setattr(Stack, "reject", alone)


PLANTS = [
    name_nothing,
    keep_what_is_integrated,
    integrate_without_a_step,
    show_later_layers_to_transactions,
    apply_parts_of_layers,
    leave_dependents_alone,
]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        run(SCHEDULES)

"""Every order of two clients with two commits each, and every single loss in it, is decided rightly.

The search is complete within its bounds: 6 orders of the four commits, a fault of each kind at each of
them or none, and what each client relies on.
"""

from collections import Counter
from itertools import combinations, product
from typing import Any

import pytest

from rote.contract.sync import Transact
from rote.errors import RoteError, Unavailable
from rote.sessions import sittings
from rote.sessions.admission import admitted_reads
from rote.sessions.sittings import Sitting
from tests.lanes import examples
from tests.properties.session_schedules import Client, Schedule

ID = "urn:a:1"
ORDERS = [tuple(int(place in chosen) for place in range(4)) for chosen in combinations(range(4), 2)]
# Where a process is killed, and which row or commit (None) it was writing; or what the line has lost.
FAULTS: list[tuple[str, str | None]] = [
    *product(("before", "after"), (None, "session", "verdict")),
    ("question", None),
    ("answer", None),
    ("twice", None),
]
# What the first and the second commit of a client rely on: nothing, the entity as it was before all, or
# (the second) their first as well.
LIVES = [("", ""), ("", "layer"), ("read", "layer"), ("read", "read")]


class Search(Schedule):
    """One order with at most one fault."""

    def _prepare(self) -> None:
        """Begin with nothing."""

    def play(
        self,
        order: tuple[int, ...],
        lives: tuple[tuple[str, str], ...],
        fault: tuple[int, tuple[str, str | None]] | None,
    ) -> None:
        with self.store:
            for name, life in enumerate(lives):
                self.clients[name].sent = [
                    self._commit(name, local, relies) for local, relies in enumerate(life, 1)
                ]
            for place, name in enumerate(order):
                how = fault[1] if fault is not None and fault[0] == place else ("", None)
                self._step(self.clients[name], *how)
            for client in self.clients:
                self._settle(client)
            self._judge()

    def _commit(self, name: int, local: int, relies: str) -> Transact:
        layers = [1] if relies == "layer" else []
        reads = [{"id": ID, "version": 0, "layers": layers}] if relies else []
        operations = [{"op": "set", "id": ID, "value": [name, local]}]
        return Transact(local, 0, operations, reads=reads, meta=f"{name}:{local}")

    def _step(self, client: Client, fault: str, kind: str | None) -> None:
        sent = client.sent[len(client.verdicts)]
        if fault == "question":
            return
        if fault in ("before", "after"):
            self.port.crash.when, self.port.crash.kind = fault, kind
        try:
            verdict = client.sitting.transact(sent)
        except Unavailable:
            self._come_back(client)
            return
        finally:
            self.port.crash.when = None
        if fault == "answer":
            return
        client.note(verdict)
        if fault == "twice":
            client.note(client.sitting.transact(sent))
        client.sitting.acknowledge(verdicts=len(client.verdicts))


def search(lives: Any) -> int:
    """Play all orders and faults of these lives; return how many there were."""
    faults = [None, *product(range(4), FAULTS)]
    games = list(product(ORDERS, lives, faults))
    for order, life, fault in games:
        Search(0, Counter()).play(order, life, fault)
    return len(games)


def test_every_order_with_every_loss_is_decided_as_the_log_says() -> None:
    lives = list(product(LIVES, LIVES))
    chosen = lives[6:7] if examples(1, len(lives)) == 1 else lives
    assert search(chosen) == len(chosen) * len(ORDERS) * (1 + 4 * len(FAULTS))


def test_the_search_finds_a_resend_that_is_applied_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sitting, "_known", lambda self, local: None)
    with pytest.raises((AssertionError, RoteError, KeyError)):
        search([(LIVES[0], LIVES[1])])


def test_the_search_finds_a_layer_that_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(reads: Any, window: Any, **more: Any) -> Any:
        found = admitted_reads(reads, window, **more)
        return [{**read, "besides": []} for read in found]

    monkeypatch.setattr(sittings, "admitted_reads", forgetful)
    with pytest.raises(AssertionError):
        search([(LIVES[0], LIVES[1])])

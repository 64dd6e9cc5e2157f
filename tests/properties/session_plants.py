"""Bugs that are planted in sessions, so that tests show that they find them."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from rote.contract.commands import MakeCommit
from rote.contract.links import Done
from rote.errors import RoteError
from rote.patch import overlap
from rote.server.sync.decisions import Decisions
from rote.sessions import flow, sittings
from rote.sessions.admission import admitted_reads
from rote.sessions.desk import Desk
from rote.sessions.exchange import Exchange
from rote.sessions.layers import Fold, Layer
from rote.sessions.links import LocalLink
from rote.sessions.rows import session_in
from rote.sessions.sittings import GuardingPort, Sitting
from rote.sessions.stack import Stack

Plant = Callable[[pytest.MonkeyPatch], None]


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


def show_steps_before_their_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sitting, "is_told", lambda self: True)


def go_on_without_the_verdict_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(self: Sitting, local: int) -> Any:
        self.told = self.decided
        return known(self, local)

    known = Sitting._known
    monkeypatch.setattr(Sitting, "_known", careless)


def lose_acknowledgements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sitting, "acknowledge", lambda self, **_: None)


def send_a_step_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "SYNC_WINDOW", 3)


def show_watches_before_their_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def watch(self: LocalLink, id: int, request: Any) -> Done:
        reached = self._flow.change(request)
        self._look(time.monotonic())
        return Done(id, reached)

    monkeypatch.setattr(LocalLink, "_watch", watch)


def let_a_step_overtake_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told(self: Decisions) -> int:
        return self.sitting.told

    monkeypatch.setattr(Decisions, "told", told)


def miss_what_moves_in_an_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "_written", lambda path: path)


def hash_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(self: GuardingPort, space: str, command: Any) -> Any:
        if isinstance(command, MakeCommit):
            command = replace(command, key=self.guards[0].key + str(self.guards[0].fence))
        return plain(self, space, command)

    plain = GuardingPort.answer
    monkeypatch.setattr(GuardingPort, "answer", answer)


# -- in the client ---------------------------------------------------------------------------------


def name_no_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Layer, "overlaps", lambda self, read: False)


def leave_dependents_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def alone(self: Stack, local: int, error: BaseException, version: int) -> None:
        waiting, self._waiting = self._waiting, {local: self._waiting[local]}
        reject(self, local, error, version)
        self._waiting = waiting

    reject = Stack.reject
    monkeypatch.setattr(Stack, "reject", alone)


def show_later_layers_to_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Fold.own
    monkeypatch.setattr(Fold, "own", lambda self, id, until: own(self, id, 10**9))


def integrate_without_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def early(self: Stack) -> None:
        for local, (laid, _) in list(self._accepted.items()):
            del self._accepted[local]
            self._folds.clear()
            laid.fate.status = "integrated"

    monkeypatch.setattr(Stack, "_integrate", early)


def forget_what_was_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(self: Exchange, link: Any) -> None:
        self._replica.stack.decided = max(self._replica.stack.decided, self._next - 1)
        plain(self, link)

    plain = Exchange._begin
    monkeypatch.setattr(Exchange, "_begin", begin)


def take_refusals_for_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Exchange, "_take_refused", lambda self: self._refused.clear())

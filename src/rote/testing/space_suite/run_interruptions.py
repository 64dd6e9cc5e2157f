"""Runs that are interrupted at every call of the store, and stores that fail for a moment there.

As soon as the store answers again, each run was applied once and whole or not at all, the ledger
tells which, and nobody holds a lease for it.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from rote.contract.commands import Command, GetSide, ListSides, MakeCommit, PutSide
from rote.errors import Busy, Corrupt, RunAborted, Unavailable
from rote.runs.run import Run
from rote.runs.run_rows import LEASE, RUN, Lease, run_in
from rote.space import Space, Store
from rote.testing.intercepting import intercept
from rote.testing.marks import each_test_uses
from rote.testing.space_suite.ground import A, B, C, port_of
from rote.testing.space_suite.run_ground import ALL_MODES, RunGround
from rote.testing.space_suite.run_recovery import Stopped, expire_leases

FAILURES = (Stopped, Busy("the store does not answer"))
CALLS_MAX = 100  # calls of the store by one run; there are far fewer


@contextmanager
def failing_at(store: Store, number: int, failure: Any, when: str) -> Iterator[list[str]]:
    """Let the call of that number fail, before or after it has done its work; yield the calls so far."""
    made = list[str]()

    def counting(_: str, command: Command[Any], answer: Any) -> Any:
        made.append(type(command).__name__)
        is_now = len(made) == number
        if is_now and when == "before":
            raise failure
        answered = answer(command)
        if is_now and when == "after":
            raise failure
        return answered

    with pytest.MonkeyPatch.context() as patch:
        intercept(patch, port_of(store), Command, counting)
        yield made


@each_test_uses("agency")
class SharedRunInterruptionTests(RunGround):
    """A store ends later what it cannot end at once; when it is gone, others do."""

    @pytest.mark.parametrize("failure", FAILURES, ids=["interrupted", "failing"])
    @pytest.mark.parametrize("when", ["before", "after"])
    @pytest.mark.parametrize("how", ["commit", "exception", "empty", "rejected"])
    def test_a_run_that_is_interrupted_at_any_call_is_ended_by_its_store(
        self, failure: Any, when: str, how: str
    ) -> None:
        policy = (lambda _: False) if how == "rejected" else None
        for number in range(1, CALLS_MAX):
            store = self.open(modes=ALL_MODES)
            space = store.space(f"space-{number}")
            run = self.begin(space=space, commit_policy=policy)
            with failing_at(store, number, failure, when) as made:
                with suppress(Stopped, Busy, RunAborted, ZeroDivisionError), run:
                    if how != "empty":
                        run.set(B, "secret")
                        run.set(C, "secret")
                    if how == "exception":
                        raise ZeroDivisionError
                is_past = len(made) < number
            self.check_ended(store, space, run)
            if is_past:
                return
        raise AssertionError("a run has no end")

    @pytest.mark.parametrize("failure", FAILURES, ids=["interrupted", "failing"])
    @pytest.mark.parametrize("when", ["before", "after"])
    def test_a_run_whose_id_was_chosen_is_ended_too(self, failure: Any, when: str) -> None:
        """The other spaces are searched for its id, before it begins and after."""
        for number in range(1, CALLS_MAX):
            store = self.open(modes=ALL_MODES)
            run = self.begin(space=store.space("other"), run_id=f"run-{number}")
            with failing_at(store, number, failure, when) as made:
                with suppress(Stopped, Busy, RunAborted), run:
                    run.set(B, number)
                is_past = len(made) < number
            store.recover()
            row = port_of(store).answer(store.space("other").did, GetSide(RUN, run.run_id))
            assert row is None or run_in(row).has_ended
            store.close()
            if is_past:
                return
        raise AssertionError("a run has no end")

    def check_ended(self, store: Store, space: Space, run: Run) -> None:
        """Check that the run has ended, whole or not at all, and that nothing of it is left."""
        store.recover()
        row = port_of(store).answer(space.did, GetSide(RUN, run.run_id))
        if row is not None:
            entry = run_in(row)
            assert entry.has_ended
            assert "secret" not in str(row.body)
            wrote = "secret" if entry.version is not None else None
            assert [space.get(id) for id in (B, C)] == [wrote, wrote]
        assert space.version == (0 if space.get(B) is None else 1)
        store.close()
        # A lease of which the store never heard may be left; nobody renews it.
        expire_leases(self.store, space.did)
        assert self.store.recover() == []
        assert port_of(self.store).answer(space.did, ListSides(LEASE, after="", limit=9)).rows == ()

    @pytest.mark.parametrize("how", ["commit", "exception", "empty"])
    def test_a_lease_is_let_go_of_after_every_run(self, how: str) -> None:
        for failure in (None, Stopped, Busy("the store does not answer")):
            with (
                failing_at(self.agents, 6, failure or Busy(""), "before" if failure else "never"),
                suppress(Stopped, Busy, RunAborted, ZeroDivisionError),
                self.begin() as run,
            ):
                if how != "empty":
                    run.set(A, 1)
                if how == "exception":
                    raise ZeroDivisionError
            self.agents.recover()
        self.agents.close()
        assert (
            port_of(self.store).answer(self.notes.did, ListSides(LEASE, after="", limit=9)).rows
            == ()
        )

    def test_a_run_that_nobody_has_in_hand_any_more_is_ended(self) -> None:
        """An interruption before the first line of its block left the run open for as long as the
        process lived, with a lease that was renewed."""
        run = self.begin(run_id="r")
        run.__enter__()
        run.set(A, 1)
        del run
        gc.collect()
        (record,) = self.agents.recover()
        assert (record.run_id, record.discarded, self.notes.version) == ("r", True, 0)

    def test_one_run_that_cannot_be_ended_is_not_in_the_way_of_the_others(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two runs were left, the first failed again, and the second was forgotten."""
        port = port_of(self.agents)
        answer = port.answer

        def stop(*_: Any, **__: Any) -> Any:
            raise Stopped

        with monkeypatch.context() as patch:
            intercept(patch, port, MakeCommit, stop)
            for name, id in (("one", A), ("two", B)):
                with pytest.raises(Stopped), self.begin(run_id=name) as run:
                    run.set(id, name)

        def fail(*_: Any, **__: Any) -> Any:
            raise Busy("not now")

        with monkeypatch.context() as patch:
            intercept(patch, port, MakeCommit, fail)
            with pytest.raises(Unavailable):
                self.agents.recover()
        assert port.answer == answer
        self.agents.recover()
        assert (self.notes.get(A), self.notes.get(B)) == ("one", "two")
        assert {record.state for record in self.agents.runs()} == {"commit_applied"}

    @pytest.mark.parametrize("failure", FAILURES, ids=["interrupted", "failing"])
    @pytest.mark.parametrize("when", ["before", "after"])
    def test_a_recovery_that_is_interrupted_at_any_call_is_finished_by_the_next_one(
        self, failure: Any, when: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        did = self.notes.did
        for number in range(1, CALLS_MAX):
            owner, heir = (self.open(modes=ALL_MODES) for _ in range(2))
            space, before = owner.space("notes"), self.notes.version
            with monkeypatch.context() as patch:
                intercept(patch, port_of(owner), MakeCommit, _stop)
                with pytest.raises(Stopped), self.begin(space=space) as run:
                    run.set(A, number)
                self.begin(space=space).__enter__()
            expire_leases(self.store, did)
            with failing_at(heir, number, failure, when) as made, suppress(Stopped, Busy):
                heir.recover()
            expire_leases(self.store, did)
            heir.recover()
            assert all(record.ended_at is not None for record in heir.runs()), number
            assert (self.notes.version, self.notes.get(A)) == (before + 1, number)
            heir.close()
            expire_leases(self.store, did)
            assert self.store.recover() == []
            assert port_of(self.store).answer(did, ListSides(LEASE, after="", limit=9)).rows == ()
            if len(made) < number:
                return
        raise AssertionError("a recovery has no end")

    def test_the_ledger_is_read_once_however_many_owners_are_gone(self) -> None:
        """A store that many processes had used and left took minutes to open."""
        for _ in range(5):
            store = self.open(modes=ALL_MODES)
            self.begin(space=store.space("notes")).__enter__()
        expire_leases(self.store, self.notes.did)
        with failing_at(self.store, 0, Stopped, "never") as made:
            assert len(self.store.recover()) == 5
        assert made.count("sides") <= 5  # leases and runs of the one space, with the empty pages

    def test_a_damaged_row_is_told_and_the_other_runs_are_ended(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            intercept(patch, port_of(self.agents), MakeCommit, _stop)
            for name, id in (("one", A), ("two", B)):
                with pytest.raises(Stopped), self.begin(run_id=name) as run:
                    run.set(id, name)
        port = port_of(self.store)
        row = port.answer(self.notes.did, GetSide(RUN, "one"))
        assert row is not None
        assert type(row.body) is dict
        changed = {**row.body, "payload": '{"operations":[],"reads":[]}'}
        port.answer(self.notes.did, PutSide(RUN, "one", changed, fence=row.fence))
        expire_leases(self.store, self.notes.did)
        self.open()  # opening must not fail because of it
        assert self.notes.get(B) == "two"
        with pytest.raises(Corrupt, match="one"):
            self.open().recover()
        assert {each.run_id: each.state for each in self.store.runs()} == {
            "one": "commit_pending", "two": "commit_applied",
        }  # fmt: skip

    def test_a_lease_whose_renewal_was_made_without_an_answer_is_still_held(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The owner took its own write for a claim by another, and counted itself as dead."""
        with self.begin():
            pass
        port, leases = port_of(self.agents), self.agents._runs._leases  # type: ignore[union-attr]
        (row,) = port.answer(self.notes.did, ListSides(LEASE, after="", limit=9)).rows
        port.answer(self.notes.did, PutSide(LEASE, row.key, Lease(1).body(), fence=row.fence))
        with self.begin() as run:
            leases._held[self.notes.did].until = 0
            with self.begin() as other:
                assert self.entry_of(other).owner == self.entry_of(run).owner == row.key
        assert [
            each.key
            for each in port.answer(self.notes.did, ListSides(LEASE, after="", limit=9)).rows
        ] == [row.key]


def _stop(*_: Any, **__: Any) -> Any:
    raise Stopped

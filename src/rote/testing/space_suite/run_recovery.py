"""Runs of several stores on one place: leases, and stores that take over."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec import structs

from rote.contract.commands import GetSide, ListSides, MakeCommit, PutSide
from rote.errors import Busy, Conflict, RunAborted
from rote.opening.hosts import Host
from rote.records.memory import Memory
from rote.runs.run import Run
from rote.runs.run_rows import LEASE, RUN, Lease, lease_in
from rote.space import Store
from rote.testing.intercepting import intercept
from rote.testing.marks import each_test_uses
from rote.testing.space_suite.ground import A, B, C, port_of
from rote.testing.space_suite.run_ground import ALL_MODES, VAULT, RunGround, life_of
from rote.values import canonical


def expire_leases(store: Store, did: str) -> None:
    """Let the leases of all owners run out: on every engine, whatever its clock."""
    port = port_of(store)
    for row in port.answer(did, ListSides(LEASE, after="", limit=100)).rows:
        body = Lease(0, lease_in(row).claimed).body()
        port.answer(did, PutSide(LEASE, row.key, body, fence=row.fence))


class Stopped(BaseException):
    """Stands for a process that stops for good."""


@each_test_uses("agency")
class SharedRunTests(RunGround):
    """Runs of several stores on one place: several processes, as far as a store can tell."""

    def stop_at_commit(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let this store stop from now on where a pending run would be applied."""

        def stop(space: str, command: MakeCommit, answer: Any) -> Any:
            if command.guards:
                raise Stopped
            return answer(command)

        intercept(monkeypatch, port_of(store), MakeCommit, stop)

    def pending_run(
        self, monkeypatch: pytest.MonkeyPatch, work: Callable[[Run], Any] = lambda run: None
    ) -> Run:
        """Return a run whose owner stopped when its commit was pending."""
        with monkeypatch.context() as patch:
            self.stop_at_commit(self.agents, patch)
            with pytest.raises(Stopped), self.begin() as run:
                work(run)
                run.set(C, "secret")
        assert self.entry_of(run).state == "commit_pending"
        return run

    def test_a_living_run_is_never_touched(self) -> None:
        other = self.open(modes=ALL_MODES)
        with self.begin() as run:
            run.set(A, 1)
            assert other.recover() == []
            self.open()
        assert run.state == "commit_applied"

    def test_an_open_run_whose_owner_is_gone_is_discarded_and_its_owner_hears_of_it(self) -> None:
        other = self.open(modes=ALL_MODES)
        with self.aborts("storage_apply_failed"), self.begin() as run:
            run.set(A, 1)
            expire_leases(other, self.notes.did)
            (record,) = other.recover()
            assert (record.run_id, record.state, record.discarded) == (
                run.run_id, "buffer_open", True,
            )  # fmt: skip
        assert self.notes.version == 0
        assert self.record_of(run).discarded
        with self.begin() as again:
            again.set(A, 1)
        assert again.state == "commit_applied"

    def test_a_run_that_was_registered_by_a_store_that_failed_is_not_open_for_ever(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        port = port_of(self.agents)

        def fail_afterwards(space: str, command: PutSide, answer: Any) -> Any:
            row = answer(command)
            if command.kind == RUN:
                raise Busy("nobody knows whether it was written")
            return row

        with monkeypatch.context() as patch:
            intercept(patch, port, PutSide, fail_afterwards)
            with pytest.raises(Busy), self.begin(run_id="r"):
                pass
        assert self.agents.runs()[0].ended_at is None
        assert self.store.recover() == []
        (record,) = self.agents.recover()
        assert (record.run_id, record.discarded) == ("r", True)

    def test_an_owner_that_wakes_up_before_anyone_came_goes_on(self) -> None:
        other = self.open(modes=ALL_MODES)
        with self.begin() as run:
            run.set(A, 1)
            expire_leases(other, self.notes.did)
        assert run.state == "commit_applied"

    def test_opening_a_store_recovers_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        run = self.pending_run(monkeypatch)
        expire_leases(self.agents, self.notes.did)
        self.open()
        assert self.record_of(run).state == "commit_applied"
        assert self.notes.get(C) == "secret"

    def test_a_pending_run_is_applied_once_whoever_recovers_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = self.pending_run(monkeypatch)
        others = [self.open(modes=ALL_MODES) for _ in range(3)]
        expire_leases(self.agents, self.notes.did)
        with ThreadPoolExecutor(3) as threads:
            outcomes = [done for each in threads.map(Store.recover, others) for done in each]
        assert [(done.run_id, done.state, done.version) for done in outcomes] == [
            (run.run_id, "commit_applied", 1)
        ]
        assert self.agents.recover() == [self.record_of(run)]  # it could not end it before
        assert (self.notes.version, self.notes.get(C)) == (1, "secret")
        assert b"secret" not in canonical(self.entry_of(run).body())
        assert (
            port_of(self.agents).answer(self.notes.did, ListSides(LEASE, after="", limit=9)).rows
            != ()
        )

    def test_an_owner_that_comes_too_late_finds_its_commit_made(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other, port = self.open(modes=ALL_MODES), port_of(self.agents)

        def late(space: str, command: MakeCommit, answer: Any) -> Any:
            if command.guards:
                expire_leases(other, self.notes.did)
                assert [done.state for done in other.recover()] == ["commit_applied"]
            return answer(command)

        with monkeypatch.context() as patch:
            intercept(patch, port, MakeCommit, late)
            with self.begin() as run:
                run.set(A, 1)
        assert (run.state, self.notes.version) == ("commit_applied", 1)
        assert run.commit is not None
        assert run.commit.version == 1

    def test_an_owner_that_comes_too_late_cannot_apply_what_was_aborted(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other, port = self.open(modes=ALL_MODES), port_of(self.agents)
        self.notes.set(B, 1)

        def late(space: str, command: MakeCommit, answer: Any) -> Any:
            if command.guards:
                self.notes.set(B, 2)
                expire_leases(other, self.notes.did)
                assert [done.state for done in other.recover()] == ["commit_aborted"]
                # Even one that has read nothing.
                command = structs.replace(command, reads=(), unerased_since=None)
            return answer(command)

        with monkeypatch.context() as patch:
            intercept(patch, port, MakeCommit, late)
            with self.aborts("storage_apply_failed"), self.begin() as run:
                run.get(B)
                run.set(A, 1)
        assert self.notes.get(A) is None
        record = self.record_of(run)
        assert (record.state, record.reason_code) == ("commit_aborted", "storage_apply_failed")
        assert self.entry_of(run).conflicts[0]["id"] == B

    @pytest.mark.parametrize("ask", ["get", "scan", "retrieve", "search", "list", "query"])
    def test_a_recovered_run_is_validated_like_any_other(
        self, monkeypatch: pytest.MonkeyPatch, ask: str
    ) -> None:
        memory = Memory(self.notes)
        memory.put("ops", "fact", "x", {"text": "the vault has the keys"})
        asked: dict[str, Callable[[Run], Any]] = {
            "get": lambda run: run.get(Memory.entity_id("ops", "fact", "x")),
            "scan": lambda run: list(run.scan("record:")),
            "retrieve": lambda run: run.retrieve(VAULT),
            "search": lambda run: run.memory.search("vaults", limit=1),
            "list": lambda run: run.memory.list("ops"),
            "query": lambda run: run.query({"select": {"record:*": {}}}),
        }
        holding, failing = (self.pending_run(monkeypatch, asked[ask]) for _ in range(2))
        expire_leases(self.agents, self.notes.did)
        other = self.open(modes=ALL_MODES)
        assert {done.state for done in other.runs()} == {"commit_applied"}
        assert self.record_of(holding).state == self.record_of(failing).state
        failing = self.pending_run(monkeypatch, asked[ask])
        self.clock.move(seconds=1)
        memory.put("ops", "fact", "x", {"text": "others keep the keys"})
        expire_leases(self.agents, self.notes.did)
        (record,) = other.recover()
        assert (record.state, record.reason_code) == ("commit_aborted", "storage_apply_failed")
        assert self.entry_of(failing).conflicts

    @pytest.mark.parametrize("is_lost", [False, True])
    def test_a_recovered_run_acknowledges_its_message_unless_others_have_it(
        self, monkeypatch: pytest.MonkeyPatch, is_lost: bool
    ) -> None:
        host = Host("network-restricted", space=self.notes)
        host.queue.put("q", 1)

        def take(run: Run) -> None:
            with host.scope(run=run) as flow:
                message = flow.queue.take("q")["message"]
                flow.queue.ack("q", message["id"], message["lease"])
                flow.queue.put("done", 1)
                if is_lost:
                    host.queue.nack("q", message["id"], message["lease"])

        other = self.open(modes=ALL_MODES)
        run = self.pending_run(monkeypatch, take)
        expire_leases(other, self.notes.did)
        (record,) = other.recover()
        assert record.run_id == run.run_id
        assert record.reason_code == ("storage_apply_failed" if is_lost else None)
        assert host.queue.depth("q")["ready"] == int(is_lost)
        assert host.queue.depth("done")["ready"] == int(not is_lost)
        rows = self.port.answer(self.notes.did, ListSides("message", "", 10)).rows
        assert len(rows) == int(is_lost)

    def test_an_erasure_ends_a_pending_run_and_leaves_nothing_of_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.notes.set(C, "old")
        run = self.pending_run(monkeypatch)
        assert b"secret" in canonical(self.entry_of(run).body())
        self.open().space("notes").erase(C, reason="asked to")
        entry = self.entry_of(run)
        assert (entry.state, entry.reason_code) == ("commit_aborted", "validation_failed")
        assert b"secret" not in canonical(entry.body())
        assert entry.payload_fingerprint is None
        expire_leases(self.agents, self.notes.did)
        assert self.open().recover() == []
        assert self.notes.get(C) is None
        assert self.notes.verify().ok

    def test_an_erasure_while_a_run_commits_aborts_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.notes.set(C, "old")
        port = port_of(self.agents)

        def late(space: str, command: MakeCommit, answer: Any) -> Any:
            if command.guards:
                self.open().space("notes").erase(C, reason="asked to")
            return answer(command)

        with monkeypatch.context() as patch:
            intercept(patch, port, MakeCommit, late)
            with self.aborts("validation_failed") as caught, self.begin() as run:
                run.set(C, "new")
        assert "erased" in str(caught[0])
        assert self.notes.get(C) is None

    def test_a_pending_run_is_in_the_way_of_a_compaction_also_when_its_owner_is_gone(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.notes.set(A, 1)
        run = self.pending_run(monkeypatch)
        self.notes.set(A, 2)
        expire_leases(self.agents, self.notes.did)
        with pytest.raises(Busy, match=run.run_id):
            self.notes.compact(before=2)
        assert [done.state for done in self.open().recover()] == []
        assert self.notes.compact(before=2).commit is not None

    def test_a_copy_has_the_ledger_and_recovers_nothing_of_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = self.pending_run(monkeypatch)
        target = self.open_fresh("copy")
        self.agents.copy("notes", target)
        assert [record.state for record in target.runs()] == ["commit_pending"]
        assert target.recover() == []
        assert target.space("notes").version == 0
        expire_leases(self.agents, self.notes.did)
        assert [record.run_id for record in self.open().runs()] == [run.run_id]
        self.agents.copy("notes", target)
        assert [record.state for record in target.runs()] == ["commit_applied"]
        assert target.space("notes").get(C) == "secret"

    def test_a_run_that_is_pending_elsewhere_is_not_in_the_way_of_compacting_a_copy(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nobody could ever end the run there, so history grew for ever."""
        self.notes.set(A, 1)
        self.pending_run(monkeypatch)
        self.notes.set(A, 2)
        target = self.open_fresh("copy")
        self.agents.copy("notes", target, with_key=True)
        assert target.space("notes").compact(before=2).commit is not None
        with pytest.raises(Busy):
            self.notes.compact(before=2)

    def test_a_commit_that_is_sent_again_after_a_restart_is_the_first_one_or_a_mismatch(
        self,
    ) -> None:
        with self.begin() as run:
            run.set(A, 1)
        self.agents.close()
        port = port_of(self.open())
        life, did = life_of(port), self.notes.did
        same = [{"op": "set", "id": A, "value": 1}]
        assert life.repeat(did, run.run_id, same) == run.commit
        with pytest.raises(RunAborted):
            life.repeat(did, run.run_id, [{"op": "set", "id": A, "value": 2}])

    def test_leases_are_renewed_and_let_go_of(self) -> None:
        store = self.open(modes=ALL_MODES, lease_seconds=0.06)
        port, did = port_of(store), self.notes.did

        def until(condition: Callable[[], bool]) -> None:
            waiting = threading.Event()
            for _ in range(2_000):
                if condition():
                    return
                waiting.wait(0.005)
            raise AssertionError("it never came")

        with self.begin(space=store.space("notes")) as run:
            run.set(A, 1)
            until(lambda: port.answer(did, ListSides(LEASE, after="", limit=9)).rows[0].fence >= 4)
        assert run.state == "commit_applied"
        until(lambda: port.answer(did, ListSides(LEASE, after="", limit=9)).rows == ())

    def test_a_store_that_is_closed_lets_go_of_its_lease(self) -> None:
        with self.begin() as run:
            run.set(A, 1)
        assert (
            port_of(self.store).answer(self.notes.did, ListSides(LEASE, after="", limit=9)).rows
            != ()
        )
        self.agents.close()
        assert (
            port_of(self.store).answer(self.notes.did, ListSides(LEASE, after="", limit=9)).rows
            == ()
        )

    def test_a_run_that_begins_under_a_lease_that_was_just_claimed_gets_another(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The store that recovers has already read the ledger, so this run would stay there."""
        with self.begin():
            pass
        other, port = self.open(modes=ALL_MODES), port_of(self.agents)

        def late(space: str, command: PutSide, answer: Any) -> Any:
            if command.kind == RUN and command.fence == 0:
                patch.undo()
                expire_leases(other, self.notes.did)
                assert other.recover() == []
            return answer(command)

        with monkeypatch.context() as patch:
            intercept(patch, port, PutSide, late)
            with self.begin() as run:
                run.set(A, 1)
                owner = self.entry_of(run).owner
                assert port.answer(self.notes.did, GetSide(LEASE, owner)) is not None
        assert run.state == "commit_applied"

    def test_a_store_that_fails_while_a_run_commits_says_so_and_ends_it_later(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        port = port_of(self.agents)

        def fail(*_: Any, **__: Any) -> Any:
            raise Busy("others are writing all the time")

        with monkeypatch.context() as patch:
            intercept(patch, port, MakeCommit, fail)
            with self.aborts("storage_apply_failed"), self.begin() as run:
                run.set(A, 1)
        assert self.notes.version == 0
        with monkeypatch.context() as patch:
            intercept(patch, port, MakeCommit, fail)
            intercept(patch, port, GetSide, fail)
            begun = self.begin()
            with pytest.raises(Busy), begun:
                pass
        with monkeypatch.context() as patch:
            run = self.begin()
            with pytest.raises(Busy), run:
                run.set(A, 1)
                intercept(patch, port, MakeCommit, fail)
                intercept(patch, port, GetSide, fail)
        assert self.record_of(run).state == "commit_pending"
        ended = {done.run_id: done.state for done in self.agents.recover()}
        assert ended == {begun.run_id: "buffer_open", run.run_id: "commit_applied"}
        assert self.notes.get(A) == 1

    def test_conflicts_of_transactions_and_runs_are_the_same(self) -> None:
        self.notes.set(A, 1)
        with pytest.raises(Conflict) as conflict, self.notes.transaction() as transaction:
            transaction.get(A)
            transaction.set(B, 1)
            self.notes.set(A, 2)
        with self.aborts("validation_failed") as caught, self.begin(space=self.notes.at(1)) as run:
            run.get(A)
            run.set(B, 1)
        assert caught[0].conflicts == conflict.value.conflicts

"""Runs: reads from one state, writes that are applied once or not at all."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from rote.contract import CommitRequest, Guard
from rote.contract.runs import LEASE, RUN, Lease, LedgerEntry, entry_in, lease_in
from rote.errors import (
    Busy,
    Conflict,
    Denied,
    InvalidInput,
    InvalidValue,
    NotFound,
    PatchFailed,
    RunAborted,
)
from rote.records import Memory
from rote.runs import Run, RunRecord
from rote.runs.finishing import Finisher
from rote.runs.ledger import Ledger
from rote.runs.modes import check_modes
from rote.schemas import REGISTRY_ID, SCHEMA_PREFIX
from rote.space import Space, Store
from rote.testing.marks import each_test_uses
from rote.testing.space_suite.ground import A, B, C, SpaceGround, add, change, port_of, put
from rote.values import canonical, digest
from rote.values.limits import ANSWER_ROUNDS_MAX

ALL_MODES = ("off", "read_only", "buffered_write", "live_read_write")
VAULT = {"query": "vault keys", "budget": {"max_excerpt_tokens": 100, "max_items": 1}}


class RunGround(SpaceGround):
    """A space in which every mode is enabled, and short ways to run."""

    agents: Store
    notes: Space

    @pytest.fixture
    def agency(self) -> None:
        self.agents = self.open(modes=ALL_MODES)
        self.notes = self.agents.space("notes")

    def begin(self, mode: str = "buffered_write", space: Space | None = None, **more: Any) -> Run:
        asked = {"workflow_id": "w", "model": None, "policy_set_id": "p", "mode": mode, **more}
        return (space or self.notes).run(**asked)

    def record_of(self, run: Run) -> RunRecord:
        return next(each for each in self.agents.runs() if each.run_id == run.run_id)

    def entry_of(self, run: Run) -> LedgerEntry:
        row = port_of(self.agents).side(self.notes.did, RUN, run.run_id)
        assert row is not None
        return entry_in(row)

    @contextmanager
    def aborts(self, reason_code: str) -> "Iterator[list[RunAborted]]":
        """A block that a run leaves as aborted, with nothing applied."""
        before, caught = self.notes.version, list[RunAborted]()
        with pytest.raises(RunAborted) as error:
            yield caught
        caught.append(error.value)
        assert error.value.reason_code == reason_code
        assert self.notes.version >= before


@each_test_uses("agency")
class RunTests(RunGround):
    # -- isolation ---------------------------------------------------------------------------------

    def test_a_run_sees_its_start_and_nothing_that_comes_later_nor_its_own_writes(self) -> None:
        memory = Memory(self.notes)
        self.notes.set(A, {"n": 1})
        memory.put("ops", "fact", "one", {"text": "the vault has the keys"})

        def seen(run: Run) -> list[Any]:
            return [
                run.get(A),
                run.read(B),
                [state.id for state in run.scan()],
                run.query({"select": {"urn:*": {}}})["facts"],
                run.values({"select": {"urn:*": {}}})["values"],
                run.memory.get("ops", "fact", "one"),
                run.memory.list("ops", include=["payload"]),
                run.memory.stats(),
                run.retrieve(VAULT)["package_hash"],
            ]

        with self.begin() as run:
            before = seen(run)
            self.notes.transact([put(A, 2), put(B, 2)])
            memory.put("ops", "fact", "one", {"text": "changed"})
            memory.put("ops", "fact", "two", {"text": "vault keys vault keys"})
            run.set(C, "own")
            run.memory.put("ops", "fact", "three", {"text": "vault keys"})
            assert seen(run) == before
            with pytest.raises(ZeroDivisionError), self.begin() as other:
                assert seen(other) != before
                raise ZeroDivisionError
            run._buffer.operations.clear()  # what was read has changed: it could not be applied

    def test_eight_runs_at_once_see_what_there_was_when_each_began(self) -> None:
        self.notes.set(A, 0)
        begun, written = threading.Barrier(8), threading.Barrier(8)

        def agent(number: int) -> bool:
            with self.begin("read_only") as run:
                before = run.get(A)
                begun.wait(60)
                self.notes.set(f"urn:agent:{number}", 1)
                self.notes.set(A, number + 1)
                written.wait(60)
                return run.get(A) == before and [state.id for state in run.scan()] == [A]

        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(agent, range(8)))

    def test_nobody_sees_a_buffer_until_it_is_one_commit(self) -> None:
        with self.begin() as run:
            run.set(A, 1)
            run.set(B, {"n": 1})
            run.patch(B, [add("/m", 2)])
            run.memory.put("ops", "fact", "x", {"text": "t"})
            assert (self.notes.version, list(self.notes.scan())) == (0, [])
        assert run.state == "commit_applied"
        assert run.commit is not None
        assert (run.commit.version, len(run.commit.facts)) == (1, 4)
        assert (self.notes.get(A), self.notes.get(B)) == (1, {"n": 1, "m": 2})
        assert run.commit.key == f"rote:run:{run.commit_id}"
        assert self.record_of(run).version == 1
        assert self.notes.verify().ok

    def test_an_exception_discards_everything_and_the_ledger_says_so(self) -> None:
        with pytest.raises(ZeroDivisionError), self.begin() as run:
            run.set(A, "secret")
            raise ZeroDivisionError
        assert (self.notes.version, run.state, run.discarded, run.commit) == (
            0, "buffer_open", True, None,
        )  # fmt: skip
        record = self.record_of(run)
        assert (record.state, record.discarded) == ("buffer_open", True)
        assert record.ended_at is not None

    def test_a_run_without_writes_makes_no_commit(self) -> None:
        self.notes.set(A, 1)
        with self.begin() as run:
            run.get(A)
        assert (run.state, run.commit, self.notes.version) == ("commit_applied", None, 1)
        assert self.record_of(run).version is None

    def test_a_run_has_the_time_of_its_snapshot(self) -> None:
        Memory(self.notes).put("ops", "fact", "x", {"text": "vault keys"}, ttl_seconds=60)
        self.clock.move(seconds=3_600)
        with self.begin("read_only") as run:
            assert run.memory.get("ops", "fact", "x")["found"]
            assert run.retrieve(VAULT)["selection"]["selected"]
        self.notes.set(A, 1)
        with self.begin("read_only") as run:
            assert not run.memory.get("ops", "fact", "x")["found"]

    def test_records_are_stamped_when_they_are_committed_not_when_they_are_buffered(self) -> None:
        self.notes.set(A, 1)
        self.clock.move(seconds=60)
        with self.begin() as run:
            first = run.memory.put("ops", "fact", "x", {"text": "one"})
            second = run.memory.put("ops", "fact", "x", {"text": "two"})
            assert (first["created"], second["created"]) == (True, False)
            assert (first["version"], first["updated_at"]) == (None, None)
        assert run.commit is not None
        record = Memory(self.notes).get("ops", "fact", "x")["record"]
        assert (record["created_at"], record["updated_at"]) == (run.commit.at, run.commit.at)

    def test_verbs_tell_what_is_there_with_the_runs_own_writes(self) -> None:
        Memory(self.notes).append("ops", "log", "l", {"n": 0})
        with self.begin() as run:
            memory = run.memory
            assert memory.append("ops", "log", "l", {"n": 1})["entries"] == 2
            assert memory.append("ops", "log", "l", {"n": 2})["entries"] == 3
            new = memory.append("ops", "log", "new", {"n": 0})
            assert (new["created"], new["entries"]) == (True, 1)
            assert memory.append("ops", "log", "new", {"n": 1})["entries"] == 2
            assert memory.touch("ops", "log", "new")["access_count"] == 1
            assert memory.touch("ops", "log", "new")["access_count"] == 2
            assert memory.delete("ops", "log", "l") == {"ok": True, "deleted": True}
            assert memory.delete("ops", "log", "l") == {"ok": True, "deleted": False}
            assert memory.put("ops", "log", "l", {"entries": []})["created"]
        stored = Memory(self.notes)
        assert stored.get("ops", "log", "l")["record"]["payload"] == {"entries": []}
        assert len(stored.get("ops", "log", "new")["record"]["payload"]["entries"]) == 2

    def test_a_run_prunes_what_has_expired_at_its_snapshot(self) -> None:
        memory = Memory(self.notes)
        memory.put("ops", "fact", "x", {"text": "t"}, ttl_seconds=60)
        memory.put("ops", "fact", "y", {"text": "t"})
        self.clock.move(seconds=3_600)
        self.notes.set(A, 1)
        with self.begin() as run:
            assert run.memory.prune() == {"ok": True, "pruned": 1}
            assert run.memory.prune() == {"ok": True, "pruned": 0}
        assert [item["record_id"] for item in memory.list("ops")["items"]] == ["y"]
        assert memory.stats()["records"] == 1

    # -- snapshots ---------------------------------------------------------------------------------

    def snapshot_of(self, space: Space) -> str:
        with self.begin("read_only", space) as run:
            return run.memory_snapshot_id

    def test_a_snapshot_is_the_last_commit_that_made_the_state(self) -> None:
        assert self.snapshot_of(self.notes) == "main:0:none"
        first = self.notes.set(A, 1)
        here = f"main:1:{first.hash}"
        assert self.snapshot_of(self.notes) == here
        topic = self.notes.create_branch("topic")
        assert self.snapshot_of(self.notes) == here
        assert self.snapshot_of(topic) == f"topic:1:{first.hash}"
        on_topic = topic.set(B, 1)
        assert self.snapshot_of(self.notes) == here
        assert self.snapshot_of(topic) == f"topic:3:{on_topic.hash}"
        merged = self.notes.merge("topic").commit
        assert merged is not None
        assert self.snapshot_of(self.notes) == f"main:4:{merged.hash}"
        erased = self.notes.erase(B, reason="asked to").commit
        assert self.snapshot_of(self.notes) == f"main:5:{erased.hash}"
        assert self.snapshot_of(topic) == f"topic:3:{on_topic.hash}"

    def test_a_snapshot_that_was_compacted_away_is_where_history_begins(self) -> None:
        self.notes.set(A, 1)
        topic = self.notes.create_branch("topic")
        for number in range(5):
            topic.set(B, number)
        compacted = self.notes.compact(before=6)
        assert compacted.commit is not None
        with self.begin() as run:
            assert run.memory_snapshot_id.startswith("main:6:")
            assert run.get(A) == 1
            run.set(C, 1)
        assert run.state == "commit_applied"

    def test_a_run_may_begin_at_a_past_state(self) -> None:
        self.notes.set(A, 1)
        self.notes.set(A, 2)
        with self.begin(space=self.notes.at(1)) as run:
            assert run.get(B) is None
            run.set(C, 1)
        assert run.state == "commit_applied"
        with self.aborts("validation_failed"), self.begin(space=self.notes.at(1)) as run:
            assert run.get(A) == 1
            run.set(C, 2)
        assert self.notes.get(C) == 1

    def test_what_was_erased_before_a_run_on_a_branch_is_in_nobodys_way(self) -> None:
        topic = self.notes.create_branch("topic")
        self.notes.set(A, 1)
        self.notes.erase(A, reason="asked to")
        with self.begin(space=topic) as run:
            assert run.get(A) is None
            assert list(run.scan()) == []
            run.set(B, 1)
        assert run.state == "commit_applied"

    # -- what others write -------------------------------------------------------------------------

    def test_a_changed_entity_that_was_read_aborts(self) -> None:
        self.notes.set(A, 1)
        with self.aborts("validation_failed") as caught, self.begin() as run:
            run.get(A)
            run.set(B, 1)
            self.notes.set(A, 2)
        (conflict,) = caught[0].conflicts
        assert (conflict.id, conflict.expected_version, conflict.actual_version) == (A, 1, 2)
        assert (run.state, run.reason_code) == ("commit_aborted", "validation_failed")
        assert self.notes.get(B) is None
        assert self.record_of(run).reason_code == "validation_failed"

    def test_an_absent_entity_that_was_read_and_came_aborts(self) -> None:
        with self.aborts("validation_failed"), self.begin() as run:
            assert run.get(A) is None
            run.set(B, 1)
            self.notes.set(A, 1)

    def test_a_part_that_was_read_holds_when_another_part_changes(self) -> None:
        self.notes.set(A, {"x": 1, "y": 1})
        with self.begin() as run:
            assert run.glance(A, values=["/x"]).values == (1,)
            run.set(B, 1)
            self.notes.patch(A, [{"op": "replace", "path": "/y", "value": 2}])
        assert run.state == "commit_applied"
        with self.aborts("validation_failed"), self.begin() as run:
            run.glance(A, values=["/x"])
            run.set(B, 2)
            self.notes.patch(A, [{"op": "replace", "path": "/x", "value": 2}])

    def test_writes_without_reads_always_apply(self) -> None:
        self.notes.set(A, {"n": 1})
        with self.begin() as run:
            run.set(B, 1)
            run.patch(A, [add("/m", 1)])
            self.notes.set(B, 2)
            self.notes.set(A, {"n": 2})
        assert (self.notes.get(A), self.notes.get(B)) == ({"n": 2, "m": 1}, 1)

    @pytest.mark.parametrize(
        ("id", "state"),
        [("urn:m:0", "commit_aborted"), ("urn:m:x", "commit_aborted"), ("urn:n", "commit_applied")],
    )
    def test_a_scan_that_would_show_something_else_aborts(self, id: str, state: str) -> None:
        self.notes.transact([put("urn:m:0", 1), put("urn:m:1", 1)])
        run = self.begin()
        try:
            with run:
                assert len(list(run.scan("urn:m:"))) == 2
                run.set(C, 1)
                self.notes.set(id, 2)
        except RunAborted:
            assert state == "commit_aborted"
        assert run.state == state

    def test_a_scan_counts_as_far_as_it_was_walked(self) -> None:
        self.notes.transact([put(f"urn:m:{number}", 1) for number in range(3)])
        with self.begin() as run:
            assert next(run.scan("urn:m:")).id == "urn:m:0"
            assert [state.id for state in run.scan("urn:m:", limit=1)] == ["urn:m:0"]
            run.set(C, 1)
            self.notes.set("urn:m:1", 2)
        assert run.state == "commit_applied"
        with self.aborts("validation_failed"), self.begin() as run:
            assert [state.id for state in run.scan("urn:m:", limit=2)] == ["urn:m:0", "urn:m:1"]
            run.set(C, 2)
            self.notes.set("urn:m:00", 2)

    def test_a_write_that_leaves_the_answer_as_it_was_is_in_nobodys_way(self) -> None:
        memory = Memory(self.notes)
        memory.put("ops", "fact", "x", {"text": "the vault has the keys"}, metadata={"tags": ["t"]})

        def unrelated(number: int) -> None:
            memory.put("ops", "fact", f"z{number}", {"text": "nothing of it"})

        asked: list[Callable[[Run], Any]] = [
            lambda run: run.retrieve(VAULT),
            lambda run: run.memory.list("ops", filters={"tags_all": ["t"]}),
            lambda run: run.memory.list("ops", "fact", id_prefix="x"),
            lambda run: run.query({"select": {"record:*": {}}, "limit": 1}),
        ]
        for number, ask in enumerate(asked):
            with self.begin() as run:
                ask(run)
                run.set(f"urn:result:{number}", 1)
                unrelated(number) if number < 3 else self.notes.set("record:zz", 1)
            assert run.state == "commit_applied"
            with self.aborts("validation_failed") as caught, self.begin() as run:
                ask(run)
                run.set(f"urn:result:{number}", 2)
                self.clock.move(seconds=1)
                memory.put("ops", "fact", "x", {"text": f"vault {number}"}, None, {"tags": ["t"]})
            assert caught[0].conflicts[0].start == caught[0].details["conflicts"][0]["start"]
            assert self.notes.get(f"urn:result:{number}") == 1

    def test_pages_of_a_query_are_asked_again_as_pages(self) -> None:
        self.notes.transact([put(f"urn:m:{number}", 1) for number in range(4)])
        query = {"select": {"urn:m:*": {}}, "limit": 2}
        with self.begin() as run:
            cursor = run.query(query)["cursor"]
            assert list(run.query({**query, "cursor": cursor})["facts"]) == ["urn:m:2", "urn:m:3"]
            run.set(C, 1)
            self.notes.set("urn:m:0:deleted", 1)
            self.notes.delete("urn:m:0:deleted")
        assert run.state == "commit_applied"
        with self.aborts("validation_failed"), self.begin() as run:
            cursor = run.query(query)["cursor"]
            run.query({**query, "cursor": cursor})
            run.set(C, 2)
            self.notes.set("urn:m:4", 1)

    def test_links_that_were_followed_count(self) -> None:
        self.notes.transact([put("urn:m:0", {"next": {"$link": B}}), put(B, 1)])
        schema = {"properties": {"next": {"link": True}}}
        query = {"select": {"urn:m:0": {"schema": schema}}}
        with self.aborts("validation_failed"), self.begin() as run:
            before = run.query(query)
            run.set(C, 1)
            self.notes.transact([put(B, 2), put("urn:m:0", {"next": {"$link": C}})])
        assert before["version"] == 1

    def test_two_who_retrieved_the_same_and_write_different_things_both_apply(self) -> None:
        Memory(self.notes).put("ops", "fact", "x", {"text": "the vault has the keys"})
        with self.begin() as one, self.begin() as other:
            assert one.retrieve(VAULT)["package_hash"] == other.retrieve(VAULT)["package_hash"]
            one.memory.put("ops", "note", "one", {"text": "done"})
            other.memory.put("ops", "note", "other", {"text": "done too"})
        assert (one.state, other.state) == ("commit_applied", "commit_applied")

    def test_who_changes_the_answer_of_another_aborts_it(self) -> None:
        Memory(self.notes).put("ops", "fact", "x", {"text": "the vault has the keys"})
        other = self.begin()
        with self.aborts("validation_failed") as caught, other:
            other.retrieve(VAULT)
            with self.begin() as one:
                one.memory.put("ops", "fact", "y", {"text": "vault keys vault keys vault"})
                one.memory.delete("ops", "fact", "x")
            other.memory.append("ops", "log", "l", {"saw": "x"})
        assert caught[0].conflicts[0].start == "record:"
        assert one.state == "commit_applied"
        assert not Memory(self.notes).get("ops", "log", "l")["found"]

    def test_ten_agents_that_retrieve_and_append_at_once_all_succeed(self) -> None:
        Memory(self.notes).put("ops", "fact", "x", {"text": "the vault has the keys"})
        ready = threading.Barrier(10)

        def agent(number: int) -> str:
            with self.begin() as run:
                run.retrieve(VAULT)
                run.memory.append("ops", "log", "shared", {"agent": number})
                ready.wait(60)
            return run.state

        with ThreadPoolExecutor(10) as threads:
            assert list(threads.map(agent, range(10))) == ["commit_applied"] * 10
        log = Memory(self.notes).get("ops", "log", "shared")["record"]["payload"]["entries"]
        assert sorted(entry["agent"] for entry in log) == list(range(10))
        assert self.notes.verify().ok

    def test_who_is_always_disturbed_is_looked_at_while_others_wait(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """After so many rounds the answers are asked again under the lock."""
        Memory(self.notes).put("ops", "fact", "x", {"text": "the vault has the keys"})
        port = port_of(self.agents)
        commit, disturbed = port.commit, list[bool]()

        def disturbed_commit(space: str, request: Any, **more: Any) -> Any:
            if request.guard is not None:
                disturbed.append("holds" in more)
                other = f"other{len(disturbed)}"
                Memory(self.notes).put("ops", "fact", other, {"text": "nothing of it"})
            return commit(space, request, **more)

        monkeypatch.setattr(port, "commit", disturbed_commit)
        with self.begin() as run:
            run.retrieve(VAULT)
            run.memory.append("ops", "log", "l", {"n": 1})
        assert run.state == "commit_applied"
        assert disturbed == [False] * ANSWER_ROUNDS_MAX + [True]
        monkeypatch.undo()
        assert self.notes.verify().ok

    def test_an_answer_that_changes_under_the_eyes_of_the_last_look_aborts(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        memory, port = Memory(self.notes), port_of(self.agents)
        memory.put("ops", "fact", "x", {"text": "the vault has the keys"})
        commit = port.commit

        def disturbed_commit(space: str, request: Any, **more: Any) -> Any:
            if request.guard is not None:
                text = "vault keys vault keys" if "holds" in more else "nothing of it"
                memory.put("ops", "fact", "other", {"text": text})
            return commit(space, request, **more)

        monkeypatch.setattr(port, "commit", disturbed_commit)
        with self.aborts("validation_failed"), self.begin() as run:
            run.retrieve(VAULT)
            run.memory.append("ops", "log", "l", {"n": 1})
        assert not memory.get("ops", "log", "l")["found"]

    def test_a_record_that_is_put_was_read_and_one_that_is_appended_to_was_not(self) -> None:
        memory = Memory(self.notes)
        memory.put("ops", "log", "l", {"entries": []})
        with self.aborts("validation_failed"), self.begin() as run:
            run.memory.put("ops", "log", "l", {"entries": [1]})
            memory.append("ops", "log", "l", {"n": 1})
        with self.begin() as run:
            run.memory.append("ops", "log", "l", {"n": 2})
            memory.append("ops", "log", "l", {"n": 3})
        assert memory.get("ops", "log", "l")["record"]["payload"]["entries"] == [
            {"n": 1}, {"n": 3}, {"n": 2},
        ]  # fmt: skip
        with self.aborts("validation_failed"), self.begin() as run:
            run.memory.delete("ops", "log", "l")
            memory.append("ops", "log", "l", {"n": 4})

    def test_validation_of_entities_leaves_newcomers_alone(self) -> None:
        self.notes.transact([put("urn:m:0", 1), put("urn:m:1", 1)])
        with self.begin(validate="entities") as run:
            list(run.scan("urn:m:"))
            run.set(C, 1)
            self.notes.set("urn:m:2", 1)
        assert run.state == "commit_applied"
        with self.aborts("validation_failed"), self.begin(validate="entities") as run:
            list(run.scan("urn:m:"))
            run.set(C, 2)
            self.notes.set("urn:m:1", 2)

    def test_validation_of_writes_looks_at_what_is_read_and_written(self) -> None:
        self.notes.transact([put("urn:m:0", 1), put("urn:m:1", 1)])
        with self.begin(validate="writes") as run:
            list(run.scan("urn:m:"))
            run.get("urn:m:0")
            run.set("urn:m:1", 2)
            self.notes.set("urn:m:0", 2)
        assert run.state == "commit_applied"
        for read in (lambda run: list(run.scan("urn:m:")), lambda run: run.get("urn:m:1")):
            with self.aborts("validation_failed"), self.begin(validate="writes") as run:
                read(run)
                run.set("urn:m:1", 3)
                self.notes.set("urn:m:1", 2)
        assert self.record_of(run).validate == "writes"

    def test_validation_of_entities_knows_what_was_retrieved(self) -> None:
        memory = Memory(self.notes)
        memory.put("ops", "fact", "x/%", {"text": "the vault has the keys"})
        memory.put("ops", "fact", "y", {"text": "nothing of it"})
        with self.begin(validate="entities") as run:
            run.retrieve(VAULT)
            run.set(C, 1)
            memory.put("ops", "fact", "y", {"text": "vault keys vault keys"})
        assert run.state == "commit_applied"
        memory.delete("ops", "fact", "y")
        with self.aborts("validation_failed"), self.begin(validate="entities") as run:
            run.retrieve(VAULT)
            run.set(C, 2)
            memory.put("ops", "fact", "x/%", {"text": "the vault has the keys"})

    # -- modes -------------------------------------------------------------------------------------

    @pytest.mark.parametrize("mode", ["buffered_write", "live_read_write"])
    def test_a_mode_that_is_not_enabled_is_denied_and_the_setting_is_named(self, mode: str) -> None:
        careful = self.open().space("notes")
        with pytest.raises(Denied, match="modes") as error:
            self.begin(mode, careful)
        assert error.value.details == {"setting": "modes", "mode": mode}
        with self.begin("read_only", careful) as run:
            run.get(A)

    def test_modes_are_those_that_there_are(self) -> None:
        with pytest.raises(InvalidInput, match="mode"):
            self.begin("write")
        for modes in ("read_only", ("read_only", "write"), 7):
            with pytest.raises(InvalidInput, match="mode"):
                check_modes(modes)

    def test_what_a_mode_does_not_allow_is_denied(self) -> None:
        with self.begin("off") as run:
            for read in (
                lambda: run.get(A),
                lambda: run.scan(),
                lambda: run.query({"select": {"*": {}}}),
                lambda: run.retrieve(VAULT),
                lambda: run.memory.list("ops"),
                lambda: run.memory.get("ops", "a", "b"),
            ):
                with pytest.raises(Denied):
                    read()
        for mode in ("off", "read_only"):
            with self.begin(mode) as run:
                for write in (
                    lambda: run.set(A, 1),
                    lambda: run.memory.put("ops", "a", "b", {}),
                    lambda: run.memory.delete("ops", "a", "b"),
                    lambda: run.memory.prune(),
                ):
                    with pytest.raises(Denied):
                        write()
        assert self.notes.version == 0

    def test_a_live_run_reads_what_is_there_and_writes_at_once(self) -> None:
        with self.begin("live_read_write") as run:
            self.notes.set(A, 1)
            assert run.get(A) == 1
            run.set(A, 2)
            assert self.notes.get(A) == 2
            run.memory.put("ops", "fact", "x", {"text": "vault keys"})
            assert run.retrieve(VAULT)["selection"]["selected"]
        assert (run.state, run.commit, self.notes.version) == ("commit_applied", None, 3)
        with pytest.raises(InvalidInput):
            self.begin("live_read_write", self.notes.at(1))

    def test_a_run_is_used_in_its_block_and_once(self) -> None:
        run = self.begin()
        with pytest.raises(InvalidInput):
            run.get(A)
        with run:
            run.set(A, 1)
        for use in (lambda: run.get(A), lambda: run.set(A, 1), lambda: run.__enter__()):
            with pytest.raises(InvalidInput):
                use()
        assert self.notes.version == 1

    # -- the state machine -------------------------------------------------------------------------

    def test_a_policy_that_rejects_aborts_without_an_exception(self) -> None:
        asked: list[Any] = []

        def policy(operations: list[dict[str, Any]]) -> bool:
            asked.extend(operations)
            return False

        with self.begin(commit_policy=policy) as run:
            run.set(A, 1)
        assert asked == [{"op": "set", "id": A, "value": 1}]
        assert (run.state, run.reason_code, run.commit) == (
            "commit_aborted", "policy_rejected", None,
        )  # fmt: skip
        assert (self.notes.version, self.record_of(run).reason_code) == (0, "policy_rejected")

    def test_a_policy_that_fails_discards(self) -> None:
        with pytest.raises(ZeroDivisionError), self.begin(commit_policy=lambda _: 1 // 0) as run:
            run.set(A, 1)
        assert (self.notes.version, run.state, run.discarded) == (0, "buffer_open", True)

    def test_an_operation_that_no_longer_applies_aborts(self) -> None:
        self.notes.set(A, {"n": 1})
        with self.aborts("validation_failed"), self.begin() as run:
            run.patch(A, [{"op": "replace", "path": "/n", "value": 2}])
            run.set(B, 1)
            self.notes.set(A, {})
        assert self.notes.get(B) is None

    def test_what_cannot_be_applied_is_refused_when_it_is_buffered(self) -> None:
        self.notes.set(A, {"n": 1})
        schema = {"type": "object", "required": ["n"]}
        self.notes.transact(
            [put(f"{SCHEMA_PREFIX}s", schema), put(REGISTRY_ID, {"urn:governed:": "s"})]
        )
        with self.begin() as run:
            run.set(B, {"n": 1})
            run.delete(B)
            refused: list[tuple[type[Exception], Callable[[], Any]]] = [
                (NotFound, lambda: run.delete(B)),
                (NotFound, lambda: run.patch(C, [add("/n", 1)])),
                (PatchFailed, lambda: run.patch(A, [add("/x/y", 1)])),
                (InvalidValue, lambda: run.set(C, float("nan"))),
                (InvalidInput, lambda: run.set("no uri", 1)),
                (InvalidInput, lambda: run.set("urn:governed:x", {})),
            ]
            for kind, write in refused:
                with pytest.raises(kind):
                    write()
            run.set("urn:governed:x", {"n": 1})
        assert run.commit is not None
        assert [fact.id for fact in run.commit.facts] == [B, B, "urn:governed:x"]

    def test_a_value_is_taken_over_when_it_is_buffered(self) -> None:
        value = {"n": [1]}
        with self.begin() as run:
            run.set(A, value)
            value["n"].append(2)
        assert self.notes.get(A) == {"n": [1]}

    def test_a_run_id_is_used_once(self) -> None:
        with self.begin(run_id="nightly-1.a") as run:
            run.set(A, 1)
        with pytest.raises(InvalidInput, match="used before"), self.begin(run_id="nightly-1.a"):
            pass
        assert self.notes.version == 1
        for bad in ("", ".a", "a/b", "a" * 101, "a b"):
            with pytest.raises(InvalidInput):
                self.begin(run_id=bad)
        with self.begin() as made:
            pass
        assert len(made.run_id) == 32
        assert int(made.run_id, 16) >= 0

    def test_the_identities_are_those_of_the_contract(self) -> None:
        first = self.notes.set(A, 1)
        with self.begin(run_id="r") as run:
            run.set(B, 2)
            run.patch(B, [{"op": "test", "path": "", "value": 2, "comment": "left out"}])
        snapshot = f"main:1:{first.hash}"
        assert run.memory_snapshot_id == snapshot
        assert run.commit_id == digest(
            {
                "kind": "commit_id/1", "run_id": "r", "memory_snapshot_id": snapshot,
                "policy_set_id": "p",
            }
        )  # fmt: skip
        operations = [
            {"op": "set", "id": B, "value": 2},
            {"op": "patch", "id": B, "ops": [{"op": "test", "path": "", "value": 2}]},
        ]
        payload = {"kind": "commit_payload/1", "branch": "main", "operations": operations}
        assert run.payload_fingerprint == digest(payload)
        assert self.entry_of(run).payload_fingerprint == digest(payload)
        noted = port_of(self.agents).side(self.notes.did, "key", f"rote:run:{run.commit_id}")
        assert noted is not None
        assert noted.body == {"payload": digest(payload), "version": 2}

    def test_a_commit_that_is_sent_again_is_the_first_one_or_a_mismatch(self) -> None:
        with self.begin() as run:
            run.set(A, {"n": 0.1234567})
        port = port_of(self.agents)
        finisher = Finisher(port, Ledger(port))
        info = port.space("notes", create=False)
        same = [{"op": "set", "id": A, "value": {"n": 0.1234567}}]
        assert finisher.repeat(info, run.run_id, same) == run.commit
        with pytest.raises(RunAborted) as error:
            finisher.repeat(info, run.run_id, [{"op": "set", "id": A, "value": {"n": 0.1234568}}])
        assert error.value.reason_code == "payload_mismatch"
        assert self.notes.version == 1
        assert self.record_of(run).state == "commit_applied"

    def test_a_key_that_stands_for_something_else_aborts_for_good(self) -> None:
        """Nobody but the run itself makes its key; a copy that was written to by hand may have it."""
        run = self.begin(run_id="r")
        port = port_of(self.agents)
        port.put_side(self.notes.did, "forged", "g", {}, fence=0)
        guard = Guard("forged", "g", 1, {})
        key = f"rote:run:{run.commit_id}"
        port.commit(self.notes.did, CommitRequest([put(B, 1)], key=key, guard=guard))
        with self.aborts("payload_mismatch"), run:
            run.set(A, 1)
        assert self.notes.get(A) is None
        assert self.record_of(run).reason_code == "payload_mismatch"

    def test_the_ledger_keeps_no_operations_of_a_run_that_has_ended(self) -> None:
        with self.begin() as applied:
            applied.set(A, "secret")
        self.notes.set(B, 1)
        with self.aborts("validation_failed"), self.begin() as aborted:
            aborted.get(B)
            aborted.set(A, "secret")
            self.notes.set(B, 2)
        with self.begin(commit_policy=lambda _: False) as rejected:
            rejected.set(A, "secret")
        for run in (applied, aborted, rejected):
            assert b"secret" not in canonical(self.entry_of(run).body())
        assert self.entry_of(aborted).conflicts[0]["id"] == B

    def test_the_ledger_lists_runs_by_when_they_began(self) -> None:
        with self.begin("read_only", run_id="z"):
            self.clock.move(seconds=1)
        with self.begin(run_id="a") as run:
            run.set(A, 1)
        assert [record.run_id for record in self.agents.runs()] == ["z", "a"]
        first, second = self.agents.runs()
        assert (first.mode, first.workflow_id, first.state) == ("read_only", "w", "commit_applied")
        assert (second.version, second.commit_id) == (1, run.commit_id)
        assert second.to_dict()["ended_at"] == second.ended_at

    # -- erasures and compactions ------------------------------------------------------------------

    def test_an_erased_entity_leaves_no_digest_in_the_ledger(self) -> None:
        with self.begin() as run:
            run.set(A, "secret")
        with self.begin() as other:
            other.set(B, 1)
        self.notes.erase(A, reason="asked to")
        assert self.entry_of(run).payload_fingerprint is None
        assert self.entry_of(run).version == 1
        assert self.entry_of(other).payload_fingerprint == other.payload_fingerprint
        assert self.notes.verify().ok

    def test_an_erasure_aborts_a_run_that_read_or_writes_the_entity(self) -> None:
        self.notes.set(A, 1)
        with self.aborts("validation_failed"), self.begin() as run:
            run.get(A)
            run.set(B, 1)
            self.notes.erase(A, reason="asked to")

    def test_history_below_a_living_run_is_not_let_go_of(self) -> None:
        for number in range(4):
            self.notes.set(A, number)
        with self.begin(space=self.notes.at(2)) as run:
            with pytest.raises(Busy, match=run.run_id):
                self.notes.compact(before=3)
            assert self.notes.compact(before=2).commit is not None
            assert run.get(A) == 1
        assert self.notes.compact(before=3).commit is not None


def expire_leases(store: Store, did: str) -> None:
    """As if nobody had heard of the owners of runs for long: on every engine, whatever its clock."""
    port = port_of(store)
    for row in port.sides(did, LEASE, after="", limit=100):
        body = Lease(0, lease_in(row).claimed).body()
        port.put_side(did, LEASE, row.key, body, fence=row.fence)


class Stopped(BaseException):
    """In the place of a process that stops for good."""


@each_test_uses("agency")
class SharedRunTests(RunGround):
    """Runs of several stores on one place: several processes, as far as a store can tell."""

    def stop_at_commit(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        """From now on this store stops where a pending run would be applied."""
        port = port_of(store)
        commit = port.commit

        def stop(space: str, request: Any, **more: Any) -> Any:
            if request.guard is not None:
                raise Stopped
            return commit(space, request, **more)

        monkeypatch.setattr(port, "commit", stop)

    def pending_run(
        self, monkeypatch: pytest.MonkeyPatch, work: Callable[[Run], Any] = lambda run: None
    ) -> Run:
        """A run whose owner stopped when its commit was pending."""
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
        assert self.agents.recover() == [self.record_of(run)]  # which could not end it before
        assert (self.notes.version, self.notes.get(C)) == (1, "secret")
        assert b"secret" not in canonical(self.entry_of(run).body())
        assert port_of(self.agents).sides(self.notes.did, LEASE, after="", limit=9) != ()

    def test_an_owner_that_comes_too_late_finds_its_commit_made(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other, port = self.open(modes=ALL_MODES), port_of(self.agents)
        commit = port.commit

        def late(space: str, request: Any, **more: Any) -> Any:
            if request.guard is not None:
                expire_leases(other, self.notes.did)
                assert [done.state for done in other.recover()] == ["commit_applied"]
            return commit(space, request, **more)

        with monkeypatch.context() as patch:
            patch.setattr(port, "commit", late)
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
        commit = port.commit

        def late(space: str, request: Any, **more: Any) -> Any:
            if request.guard is not None:
                self.notes.set(B, 2)
                expire_leases(other, self.notes.did)
                assert [done.state for done in other.recover()] == ["commit_aborted"]
                request = type(request)(
                    request.operations, request.branch, (), request.key, None, request.guard
                )  # even one that has read nothing
            return commit(space, request, **more)

        with monkeypatch.context() as patch:
            patch.setattr(port, "commit", late)
            with self.aborts("storage_apply_failed"), self.begin() as run:
                run.get(B)
                run.set(A, 1)
        assert self.notes.get(A) is None
        record = self.record_of(run)
        assert (record.state, record.reason_code) == ("commit_aborted", "storage_apply_failed")
        assert self.entry_of(run).conflicts[0]["id"] == B

    @pytest.mark.parametrize("ask", ["get", "scan", "retrieve", "list", "query"])
    def test_a_recovered_run_is_validated_like_any_other(
        self, monkeypatch: pytest.MonkeyPatch, ask: str
    ) -> None:
        memory = Memory(self.notes)
        memory.put("ops", "fact", "x", {"text": "the vault has the keys"})
        asked: dict[str, Callable[[Run], Any]] = {
            "get": lambda run: run.get(Memory.entity_id("ops", "fact", "x")),
            "scan": lambda run: list(run.scan("record:")),
            "retrieve": lambda run: run.retrieve(VAULT),
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
        commit = port.commit

        def late(space: str, request: Any, **more: Any) -> Any:
            if request.guard is not None:
                self.open().space("notes").erase(C, reason="asked to")
            return commit(space, request, **more)

        with monkeypatch.context() as patch:
            patch.setattr(port, "commit", late)
            with self.aborts("validation_failed"), self.begin() as run:
                run.set(C, "new")
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

    def test_a_commit_that_is_sent_again_after_a_restart_is_the_first_one_or_a_mismatch(
        self,
    ) -> None:
        with self.begin() as run:
            run.set(A, 1)
        self.agents.close()
        port = port_of(self.open())
        finisher, info = Finisher(port, Ledger(port)), port.space("notes", create=False)
        same = [{"op": "set", "id": A, "value": 1}]
        assert finisher.repeat(info, run.run_id, same) == run.commit
        with pytest.raises(RunAborted):
            finisher.repeat(info, run.run_id, [{"op": "set", "id": A, "value": 2}])

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
            until(lambda: port.sides(did, LEASE, after="", limit=9)[0].fence >= 4)
        assert run.state == "commit_applied"
        until(lambda: port.sides(did, LEASE, after="", limit=9) == ())

    def test_a_store_that_is_closed_lets_go_of_its_lease(self) -> None:
        with self.begin() as run:
            run.set(A, 1)
        assert port_of(self.store).sides(self.notes.did, LEASE, after="", limit=9) != ()
        self.agents.close()
        assert port_of(self.store).sides(self.notes.did, LEASE, after="", limit=9) == ()

    def test_a_run_that_begins_under_a_lease_that_was_just_claimed_gets_another(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever recovers an owner's runs has looked at the ledger already: it would stay there."""
        with self.begin():
            pass
        other, port = self.open(modes=ALL_MODES), port_of(self.agents)
        put_side = port.put_side

        def late(space: str, kind: str, key: str, body: Any, *, fence: int) -> Any:
            if kind == RUN and fence == 0:
                patch.undo()
                expire_leases(other, self.notes.did)
                assert other.recover() == []
            return put_side(space, kind, key, body, fence=fence)

        with monkeypatch.context() as patch:
            patch.setattr(port, "put_side", late)
            with self.begin() as run:
                run.set(A, 1)
                owner = self.entry_of(run).owner
                assert port.side(self.notes.did, LEASE, owner) is not None
        assert run.state == "commit_applied"

    def test_a_store_that_fails_while_a_run_commits_says_so_and_ends_it_later(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        port = port_of(self.agents)

        def fail(*_: Any, **__: Any) -> Any:
            raise Busy("others are writing all the time")

        with monkeypatch.context() as patch:
            patch.setattr(port, "commit", fail)
            with self.aborts("storage_apply_failed"), self.begin() as run:
                run.set(A, 1)
        assert self.notes.version == 0
        with monkeypatch.context() as patch:
            patch.setattr(port, "commit", fail)
            patch.setattr(port, "side", fail)
            with pytest.raises(Busy), self.begin() as run:
                pass
        with monkeypatch.context() as patch:
            run = self.begin()
            with pytest.raises(Busy), run:
                run.set(A, 1)
                patch.setattr(port, "commit", fail)
                patch.setattr(port, "side", fail)
        assert self.record_of(run).state == "commit_pending"
        assert [done.state for done in self.agents.recover()] == ["commit_applied"]
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

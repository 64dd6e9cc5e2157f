"""Runs beside other writers: which of them can be applied."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rote.contract import Commit
from rote.errors import RunAborted
from rote.kernel.committing.committer import Committer
from rote.kernel.committing.jobs import Job
from rote.records.memory import Memory
from rote.retrieval import retrieve
from rote.runs.run import Run
from rote.space import Space, scan_pages
from rote.testing.marks import each_test_uses
from rote.testing.space_suite.ground import A, B, C, add, put
from rote.testing.space_suite.run_ground import VAULT, RunGround
from rote.values.limits import ANSWER_ROUNDS_MAX


@each_test_uses("agency")
class RunConflictTests(RunGround):
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

    @pytest.mark.parametrize("call", ["history", "facts"])
    def test_a_history_that_was_looked_at_and_goes_on_aborts(self, call: str) -> None:
        self.notes.set(A, 1)
        with self.aborts("validation_failed"), self.begin() as run:
            assert [fact.body for fact in getattr(run.memory.space, call)(A)] == [1]
            run.set(B, 1)
            self.notes.set(A, 2)

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

    def test_writes_of_a_run_that_has_read_nothing_always_apply(self) -> None:
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

    def test_scans_that_are_left_are_forgotten_and_still_noted(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One that goes on after it was forgotten is noted from there on, as another one."""
        monkeypatch.setattr(scan_pages, "SCANS_OPEN_MAX", 2)
        self.notes.transact([put(f"urn:m:{number}", number) for number in range(9)])
        with self.aborts("validation_failed"), self.begin() as run:
            scans = [run.scan("urn:m:", limit=limit) for limit in (5, 6, 7, 8)]
            for scan in scans:
                assert next(scan).id == "urn:m:0"
            assert [state.id for state in scans[0]] == [
                f"urn:m:{number}" for number in (1, 2, 3, 4)
            ]
            run.set(A, 1)
            self.notes.set("urn:m:3", "changed")

    def test_a_scan_from_above_its_prefix_is_in_nobodys_way(self) -> None:
        with self.begin() as run:
            assert list(run.scan("urn:a", after="urn:m:1")) == []
            run.set(C, 2)
            self.notes.set("urn:m:00", 2)
        assert self.notes.get(C) == 2

    def test_what_was_skipped_is_noted_up_to_where_it_led(self) -> None:
        self.notes.transact([put(f"urn:m:{number}", number) for number in range(9)])
        with self.aborts("validation_failed"), self.begin() as run:
            assert run.memory.space.skip("urn:m:", 5) == "urn:m:4"
            run.set(C, 1)
            self.notes.set("urn:m:00", "another place")
        with self.begin() as run:
            assert run.memory.space.skip("urn:m:", 5) == "urn:m:3"
            run.set(C, 1)
            self.notes.set("urn:m:30", "behind it")
        assert self.notes.get(C) == 1

    @pytest.mark.parametrize("look", [lambda view: view.log(), lambda view: view.diff(0)])
    def test_who_looked_at_all_commits_or_changes_aborts_when_others_write(
        self, look: Callable[[Space], Iterable[object]]
    ) -> None:
        self.notes.set(A, 1)
        with self.aborts("validation_failed"), self.begin() as run:
            assert len(list(look(run.memory.space))) == 1
            run.set(C, 1)
            self.notes.set(B, 1)

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
                unrelated(number)
            assert run.state == "commit_applied"
            with self.aborts("validation_failed") as caught, self.begin() as run:
                ask(run)
                run.set(f"urn:result:{number}", 2)
                self.clock.move(seconds=1)
                memory.put("ops", "fact", "x", {"text": f"vault {number}"}, None, {"tags": ["t"]})
            assert caught[0].conflicts[0].start == caught[0].details["conflicts"][0]["start"]
            assert self.notes.get(f"urn:result:{number}") == 1

    def test_a_report_of_kinds_counts_what_it_was_asked(self) -> None:
        memory = Memory(self.notes)
        for key in (("ops", "a", "0"), ("ops", "b", "0"), ("session", "a", "0")):
            memory.put(*key, {})
        for asked, unrelated in (
            ({"namespace": "ops"}, ("session", "a", "1")),
            ({"kinds": ["a"]}, ("ops", "b", "1")),
            ({"namespace": "ops", "kinds": ["a"]}, ("ops", "b", "2")),
        ):
            with self.begin() as run:
                run.memory.retention_report(**asked)
                run.set(C, 1)
                memory.put(*unrelated, {})
                memory.touch("ops", "a", "0")  # asked again, the answer is the same
            assert run.state == "commit_applied"
            with self.aborts("validation_failed"), self.begin() as run:
                run.memory.retention_report(**asked)
                run.set(C, 2)
                memory.put("ops", "a", unrelated[0] + unrelated[2], {})
        with self.begin() as run:
            run.memory.retention_report()
            run.set(C, 3)
            memory.touch("ops", "a", "0")
        assert run.state == "commit_applied"

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

    @pytest.mark.parametrize(
        ("paths", "count"),
        [
            (["rote:notes", "rote:notes:1"], 3),
            (["rote:notes", "rote:notes@main"], 4),
            (["rote:notes@main", "rote:notes:1"], 3),
            (None, 2),
        ],
    )
    def test_a_retrieval_is_asked_again_in_the_words_it_was_asked_in(
        self, paths: list[str] | None, count: int
    ) -> None:
        """The paths of the snapshot were written differently, and rank by their text."""
        memory, old = Memory(self.notes), {"valid_at": "1990-01-01T00:00:00Z"}
        for id in "xy":
            memory.put("ops", "fact", id, {"text": "vault keys"}, None, old)
        with self.begin() as run:
            budget = {"max_excerpt_tokens": 100, "max_items": count}
            package = run.retrieve({**VAULT, "budget": budget, "store_paths": paths})
            assert len(package["selection"]["selected"]) == count
            run.set(C, 1)
            memory.put("session", "fact", "z", {"text": "nothing of it"}, None, old)
        assert run.state == "commit_applied"

    def test_a_conflict_names_the_range_that_was_written_to(self) -> None:
        """The conflict once named the first of the ranges that the question covers."""
        with self.aborts("validation_failed") as caught, self.begin() as run:
            run.memory.stats()
            run.set(C, 1)
            Memory(self.notes).append("ops", "log", "l", {"text": "new"})
        (conflict,) = caught[0].conflicts
        start, end = conflict.start, conflict.end
        assert start is not None and end is not None
        assert start <= Memory.entity_id("ops", "log", "l") < end
        assert (conflict.expected_version, conflict.actual_version) == (0, 1)

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

    def test_an_answer_is_looked_at_again_with_the_time_of_the_run(self) -> None:
        """A record that has expired for others since is still there for the run, and the other way round."""
        memory = Memory(self.notes)
        memory.put("ops", "fact", "x", {"text": "the vault has the keys"}, ttl_seconds=60)
        path = {"store_paths": [f"rote:{self.notes.name}"]}
        with self.begin() as run:
            assert run.retrieve(VAULT)["selection"]["selected"]
            run.set(B, 1)
            self.clock.move(seconds=3_600)
            memory.put("ops", "fact", "y", {"text": "nothing of it"})
            # So that the corpus kept for others holds only what is living now.
            found = retrieve({**VAULT, **path}, store=self.agents)["selection"]["selected"]
            assert [item["memory_id"] for item in found] == ["ops/fact/y"]
        assert run.state == "commit_applied"

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
        commit, disturbed = Committer.commit, list[bool]()

        def disturbed_commit(committer: Committer, job: Job) -> Commit:
            if job.guards:
                disturbed.append(job.task is not None)
                other = f"other{len(disturbed)}"
                Memory(self.notes).put("ops", "fact", other, {"text": "nothing of it"})
            return commit(committer, job)

        monkeypatch.setattr(Committer, "commit", disturbed_commit)
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
        memory, commit = Memory(self.notes), Committer.commit
        memory.put("ops", "fact", "x", {"text": "the vault has the keys"})

        def disturbed_commit(committer: Committer, job: Job) -> Commit:
            if job.guards:
                text = "nothing of it" if job.task is None else "vault keys vault keys"
                memory.put("ops", "fact", "other", {"text": text})
            return commit(committer, job)

        monkeypatch.setattr(Committer, "commit", disturbed_commit)
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

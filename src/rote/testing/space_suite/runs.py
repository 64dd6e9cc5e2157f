"""Runs: the states they see, and what their modes allow."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rote.errors import Denied, InvalidInput, NotFound
from rote.records.memory import Memory
from rote.retrieval import ApproximateBackend
from rote.runs.modes import check_modes
from rote.runs.run import Run
from rote.space import Space
from rote.testing.marks import each_test_uses
from rote.testing.space_suite.ground import A, B, C, add, put
from rote.testing.space_suite.run_ground import VAULT, RunGround
from rote.traces import ToolProfile, check_trace


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
                list(run.memory.space.log()),
                list(run.memory.space.at(1).log()),
                run.memory.space.at(1).diff(run.memory.space),
                run.memory.space.diff(0),
                run.memory.space.branches(),
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
            run._buffer.operations.clear()  # a read has changed, so it could not be applied

    def test_what_came_after_the_snapshot_of_a_run_cannot_be_compared_with(self) -> None:
        self.notes.set(A, 1)
        self.notes.create_branch("topic")
        with self.begin("read_only") as run:
            self.notes.set(A, 2)
            view = run.memory.space
            for state in (view, view.at(1)):
                with pytest.raises(InvalidInput, match="after the snapshot"):
                    state.diff(3)
            with pytest.raises(InvalidInput, match="one branch"):
                view.diff("topic")

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

    def test_a_run_retrieves_from_its_own_state_and_from_what_has_a_version(self) -> None:
        memory = Memory(self.notes)
        memory.put("ops", "fact", "x", {"text": "the vault has the keys"})
        self.notes.create_branch("topic")
        memory.put("ops", "fact", "x", {"text": "the vault has the keys no more"})
        elsewhere = self.agents.space("elsewhere")
        elsewhere.set(A, 1)
        own = [None, ["rote:notes"], [f"rote:{self.notes.did}"], ["rote:notes@main"]]
        with self.begin() as run:
            found = [
                run.retrieve(VAULT if paths is None else {**VAULT, "store_paths": paths})
                for paths in own
            ]
            texts = {each["selection"]["selected"][0]["excerpt"] for each in found}
            assert texts == {"the vault has the keys no more"}
            past = run.retrieve({**VAULT, "store_paths": ["rote:notes@topic:2"]})
            assert past["selection"]["selected"][0]["excerpt"] == "the vault has the keys"
            assert not run.retrieve({**VAULT, "store_paths": ["rote:elsewhere:1"]})["selection"][
                "selected"
            ]
            for path in ("rote:elsewhere", "rote:notes@topic", "rote:notes:4", "rote:never:1"):
                with pytest.raises(NotFound) as error:
                    run.retrieve({**VAULT, "store_paths": [path]})
                assert error.value.code == "store_not_found"
            run.set(B, 1)
        assert run.state == "commit_applied"
        assert len(self.agents.receipts()) == 6

    def test_a_host_has_namespaces_and_retention_of_its_own_in_a_run_too(self) -> None:
        settings: dict[str, Any] = {
            "namespaces": ["a", "b"],
            "default_ttl_by_namespace": {"a": 60, "b": 60},
            "prune_strategy_by_namespace": {"b": "none"},
        }
        with self.begin() as run:
            memory = run.memory_of(**settings)
            memory.put("a", "fact", "x", {"text": "t"})
            memory.put("b", "fact", "x", {"text": "t"})
            with pytest.raises(InvalidInput):
                run.memory.put("a", "fact", "y", {"text": "t"})
        self.clock.move(seconds=3_600)
        self.notes.set(A, 1)
        with self.begin() as run:
            memory = run.memory_of(**settings)
            assert memory.list("a") == {"items": []}
            assert memory.prune() == {"ok": True, "pruned": 1}
        ids = [state.id for state in self.notes.scan("record:")]
        assert ids == [Memory.entity_id("b", "fact", "x")]

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
                run.scan,
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
                    run.memory.prune,
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

    @pytest.mark.parametrize("said", [None, "denied", 1, 0])
    def test_a_policy_that_says_neither_yes_nor_no_is_told_and_nothing_applied(
        self, said: Any
    ) -> None:
        with (
            pytest.raises(InvalidInput, match="True or False"),
            self.begin(commit_policy=lambda _: said) as run,
        ):
            run.set(A, 1)
        assert (run.state, run.discarded, self.notes.version) == ("buffer_open", True, 0)

    def test_a_live_run_has_no_policy_because_it_could_not_be_asked_first(self) -> None:
        with pytest.raises(InvalidInput, match="at once") as caught:
            self.begin("live_read_write", commit_policy=lambda _: False)
        assert caught.value.details["argument"] == "commit_policy"

    def test_an_approximate_retrieval_is_in_the_trace(self) -> None:
        backend = ApproximateBackend(
            lambda query, count: [("b", 0.5), ("a", 0.5)],
            policy_id="toy", policy_version="1", record_type="fact",
        )  # fmt: skip
        with self.begin("read_only") as run:
            answer = backend.retrieve("keys", limit=2)
            run.add_retrieval(answer)
            with pytest.raises(InvalidInput, match="ApproximateBackend"):
                run.add_retrieval({"hits": []})  # type: ignore[arg-type]
        (event,) = run.retrieval_trace["events"]
        assert [row["record_id"] for row in event["selected_records"]] == ["a", "b"]
        assert check_trace(run.trace, run.retrieval_trace).ok

    def test_an_asynchronous_tool_is_refused_with_what_to_do(self) -> None:
        async def look() -> int:
            return 1

        with (
            self.begin("read_only", tools=[ToolProfile("look", "1")]) as run,
            run.event(role="r", interceptor="i", decision_type="d") as event,
            pytest.raises(InvalidInput, match=r"asyncio\.run"),
        ):
            event.call("look", look)

    def test_a_run_is_used_in_its_block_and_once(self) -> None:
        run = self.begin()
        with pytest.raises(InvalidInput):
            run.get(A)
        with run:
            run.set(A, 1)
        for use in (lambda: run.get(A), lambda: run.set(A, 1), run.__enter__):
            with pytest.raises(InvalidInput):
                use()
        assert self.notes.version == 1

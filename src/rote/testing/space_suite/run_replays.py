"""Runs that are recorded, replayed and compared."""

import threading
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from rote.errors import InvalidInput, RunAborted
from rote.records.memory import Memory
from rote.runs.run import Run
from rote.testing.marks import each_test_uses
from rote.testing.space_suite.ground import A, B
from rote.testing.space_suite.run_ground import VAULT, RunGround
from rote.traces import ModelConfig, ToolProfile, check_trace, compare_traces

MODEL = ModelConfig("acme", "large-1", temperature=0, seed=7)
TOOLS = (ToolProfile("search", "1"),)
EVENT = {"role": "r", "interceptor": "i", "decision_type": "d"}


@each_test_uses("agency")
class RunReplayTests(RunGround):
    def agent(self, run: Run, asked: list[str], written: Any = 1) -> None:
        """Act as an agent that retrieves, asks its model and a tool, and writes what they answer."""

        def search(query: str) -> dict[str, Any]:
            asked.append(query)
            return {"hits": [len(asked), query]}

        package = run.retrieve(VAULT)
        with run.event(
            role="planner", interceptor="before_tool", decision_type="tool_call"
        ) as event:
            plan = event.model(lambda prompt: f"look for {prompt}", prompt=run.get(A))
            hits = event.call("search", search, query=plan)
            event.guardrail("pii-filter")
            run.retrieve(VAULT)
        run.memory.put("ops", "note", "n", {"hits": hits, "saw": package["package_hash"]})
        run.set(B, written)
        run.output({"type": "plan", "steps": [{"id": "1", "action": plan}]})

    def recorded(self, path: Path) -> Run:
        with self.begin(model=MODEL, tools=TOOLS, record=path) as run:
            self.agent(run, [])
        return run

    def begin_with_memory(self) -> None:
        self.notes.set(A, "keys")
        Memory(self.notes).put("ops", "fact", "x", {"text": "the vault has the keys"})

    def test_the_trace_of_a_run_passes_the_check(self) -> None:
        self.begin_with_memory()
        run = self.recorded(self.place / "run.jsonl")
        assert check_trace(run.trace, run.retrieval_trace).ok
        assert run.trace["memory_snapshot_id"] == run.memory_snapshot_id
        assert run.trace["model_config_id"] == run.model_config_id
        events: Any = run.trace["events"]
        assert [len(event["retrieval_event_ids"]) for event in events] == [1, 1]
        assert events[0]["interceptor"] == "retrieval"

    def test_a_replay_does_the_same_calls_nothing_and_applies_nothing(self) -> None:
        self.begin_with_memory()
        path = self.place / "run.jsonl"
        first = self.recorded(path)
        self.clock.move(seconds=86_400)
        Memory(self.notes).put("ops", "fact", "x", {"text": "others have the vault keys now"})
        self.notes.set(A, "something else")
        version, asked = self.notes.version, list[str]()
        with self.begin(model=MODEL, tools=TOOLS, replay=path) as again:
            self.agent(again, asked)
        assert asked == []
        assert again.memory_snapshot_id == first.memory_snapshot_id
        assert again.payload_fingerprint == first.payload_fingerprint
        assert again.run_id != first.run_id
        assert (again.state, again.discarded, again.commit) == ("buffer_open", True, None)
        assert (self.record_of(again).discarded, self.notes.version) == (True, version)
        report = compare_traces(
            first.trace, again.trace,
            left_retrieval=first.retrieval_trace, right_retrieval=again.retrieval_trace,
        )  # fmt: skip
        assert report.status == "equivalent", report.failures

    def test_calls_side_by_side_read_the_run_and_are_replayed_in_their_order(self) -> None:
        self.begin_with_memory()
        path, barrier = self.place / "run.jsonl", threading.Barrier(4)
        live = True

        def look(number: int) -> list[Any]:
            assert live
            barrier.wait(60)
            return [number, run.get(A), self.notes.get(A)]

        def work() -> None:
            with run.event(role="r", interceptor="i", decision_type="d") as event:
                calls = [("search", look, {"number": number}) for number in range(4)]
                run.set(B, event.calls(calls))

        with self.begin(tools=TOOLS, record=path) as run:
            work()
        assert self.notes.get(B) == [[number, "keys", "keys"] for number in range(4)]
        first, live = run, False
        with self.begin(tools=TOOLS, replay=path) as run:
            work()
        assert run.payload_fingerprint == first.payload_fingerprint
        assert compare_traces(first.trace, run.trace).status == "equivalent"

    def test_a_replay_that_would_write_something_else_is_aborted(self) -> None:
        self.begin_with_memory()
        path = self.place / "run.jsonl"
        self.recorded(path)
        version = self.notes.version
        with (
            self.aborts("payload_mismatch"),
            self.begin(model=MODEL, tools=TOOLS, replay=path) as again,
        ):
            self.agent(again, [], written=1.0000001)
        assert (again.state, again.discarded, self.notes.version) == ("buffer_open", True, version)

    def test_a_replay_needs_the_snapshot(self) -> None:
        self.begin_with_memory()
        path = self.place / "run.jsonl"
        self.recorded(path)
        elsewhere = self.agents.space("elsewhere")
        for number in range(3):
            with pytest.raises(InvalidInput, match="elsewhere"):
                self.begin(space=elsewhere, model=MODEL, tools=TOOLS, replay=path)
            elsewhere.set(A, number)

    def test_a_run_is_recorded_or_replayed_and_a_live_one_is_not_replayed(self) -> None:
        self.begin_with_memory()
        path = self.place / "run.jsonl"
        self.recorded(path)
        with pytest.raises(InvalidInput, match="not both"):
            self.begin(record=path, replay=path)
        with pytest.raises(InvalidInput, match="past"):
            self.begin("live_read_write", replay=path)

    @pytest.mark.parametrize("mode", ["off", "read_only", "buffered_write"])
    def test_an_unfixed_model_is_recorded_and_replayed_in_every_mode(self, mode: str) -> None:
        path, model = self.place / "run.jsonl", ModelConfig("acme", "large-1", temperature=0.7)
        runs = []
        for how in ("record", "replay"):
            terms: dict[str, Any] = {"model": model, how: path}
            with self.begin(mode, **terms) as run, run.event(**EVENT) as event:
                event.model(lambda: str(object()))
            runs.append(run)
        first, again = (run.trace["metadata"] for run in runs)
        assert [(each["model_fixed"], each["replayed"]) for each in (first, again)] == [
            (False, False),
            (True, True),
        ]
        assert first["recording"] == again["recording"] == sha256(path.read_bytes()).hexdigest()
        assert first["model_replies"] == again["model_replies"]
        assert runs[0].model_config_id == runs[1].model_config_id
        assert [self.record_of(run).replayed for run in runs] == [False, True]

    def test_a_live_run_takes_an_unfixed_model_too(self) -> None:
        model = ModelConfig("acme", "large-1")
        with self.begin("live_read_write", model=model) as run, run.event(**EVENT) as event:
            event.model(lambda: "hello")
        assert run.trace["metadata"]["model_fixed"] is False

    def test_a_write_inside_of_a_recorded_call_is_refused(self) -> None:
        """A replay would not make the write."""
        path = self.place / "run.jsonl"
        with (
            pytest.raises((InvalidInput, RunAborted), match="replay"),
            self.begin(tools=TOOLS, record=path) as run,
            run.event(role="r", interceptor="i", decision_type="d") as event,
        ):
            event.call("search", lambda: run.set(A, 1))
        assert self.notes.version == 0

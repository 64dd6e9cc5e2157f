"""The traces of runs: fit for a deterministic claim, unless the run saw writes of others."""

from pathlib import Path
from typing import Any, get_args

import pytest

from rote.errors import Denied
from rote.recordings.calls import Effects
from rote.runs.run import Run
from rote.testing.marks import each_test_uses
from rote.testing.space_suite.ground import A
from rote.testing.space_suite.run_ground import VAULT, RunGround
from rote.traces import ModelConfig, ToolProfile, check_trace, compare_traces
from rote.traces.reports import Level

TOOLS = (
    ToolProfile("search", "1", normalized_args_fields=["/query"]),
    ToolProfile("send", "2", side_effect_fingerprint_fields=["/to"]),
)


@each_test_uses("agency")
class RunTraceTests(RunGround):
    def told(self, mode: str) -> Run:
        """Return a run in which everything happens that the mode allows."""
        model = ModelConfig("acme", "large-1", temperature=0, seed=7)
        with self.begin(mode, model=model, tools=TOOLS) as run:
            if mode != "off":
                run.retrieve(VAULT)
            with run.event(role="planner", interceptor="loop", decision_type="act") as event:
                event.model(lambda prompt: "search", prompt="what now?")
                event.call("search", lambda query, page: ["a", 1.5, None], query="ü", page=2)
                event.call("send", lambda to: Effects("sent", {"to": to}), to="ada")
                with pytest.raises(ZeroDivisionError):
                    event.call("search", lambda query: 1 // 0, query="nothing")
                event.guardrail("pii")
                if mode != "off":
                    run.retrieve(VAULT)
            if mode in ("buffered_write", "live_read_write"):
                run.memory.put("ops", "fact", "x", {"text": "the vault has the keys"})
            run.output({"type": "plan", "steps": [{"id": 1, "action": "search"}]})
        return run

    @pytest.mark.parametrize("mode", ["off", "read_only", "buffered_write"])
    def test_a_trace_of_a_run_is_fit_for_a_deterministic_claim(self, mode: str) -> None:
        run = self.told(mode)
        report = check_trace(run.trace, run.retrieval_trace)
        assert (report.status, report.failures) == ("valid", ())
        assert len(run.trace["events"]) == (1 if mode == "off" else 2)
        assert len(run.retrieval_trace["events"]) == (0 if mode == "off" else 2)

    def test_a_live_run_can_never_claim_to_be_deterministic(self) -> None:
        run = self.told("live_read_write")
        report = check_trace(run.trace, run.retrieval_trace)
        assert [failure.code for failure in report.failures] == ["trace:mode"]
        same = compare_traces(
            run.trace, run.trace,
            left_retrieval=run.retrieval_trace, right_retrieval=run.retrieval_trace,
        )  # fmt: skip
        assert (same.ok, same.status) == (False, "ineligible")
        assert {failure.code for failure in same.failures} == {"trace:mode"}

    def test_a_run_of_an_unfixed_model_proves_nothing_alone_and_compares_with_its_replay(
        self, tmp_path: Path
    ) -> None:
        path, model, runs = tmp_path / "run.jsonl", ModelConfig("acme", "large-1"), []
        ways: list[dict[str, Any]] = [{"record": path}, {"replay": path}, {}]
        for how in ways:
            # Nothing is applied, so all begin with the same memory.
            with (
                self.begin(model=model, commit_policy=lambda _: False, **how) as run,
                run.event(role="planner", interceptor="loop", decision_type="act") as event,
            ):
                run.set(A, event.model(lambda: str(object())))
            runs.append(run.trace)
        first, again, other = runs
        assert [failure.code for failure in check_trace(first).failures] == ["trace:model"]
        assert check_trace(again).ok
        for level in get_args(Level):
            report = compare_traces(first, again, level=level)
            assert (report.status, report.level) == ("equivalent", level)
        report = compare_traces(again, other)
        assert [failure.code for failure in report.failures] == ["trace:model"]

    def test_two_recorded_runs_show_the_values_that_differ(self, tmp_path: Path) -> None:
        model, runs, recordings = ModelConfig("acme", "large-1", seed=7), [], []
        for word in ("vault", "drawer"):
            path = tmp_path / f"{word}.jsonl"
            terms: dict[str, Any] = {"commit_policy": lambda _: False, "record": path}
            with (
                self.begin(model=model, tools=TOOLS, **terms) as run,
                run.event(role="planner", interceptor="loop", decision_type="act") as event,
            ):
                plan = event.model(lambda word=word: f"look into the {word}")
                event.call("send", lambda to, plan=plan: Effects(plan, {"to": plan}), to="ada")
                run.set(A, plan)
            runs.append(run.trace)
            recordings.append(path.read_bytes())
        report = compare_traces(
            *runs, left_recording=recordings[0], right_recording=recordings[1], level="full"
        )
        vault, drawer = (f'"look into the {word}"' for word in ("vault", "drawer"))
        assert [(each.code, each.left_value, each.right_value) for each in report.failures] == [
            ("model_reply_mismatch:0", vault, drawer),
            ("tool_result_fingerprint_mismatch:0:0", vault, drawer),
            ("side_effect_fingerprint_mismatch:0:0", f'{{"/to":{vault}}}', f'{{"/to":{drawer}}}'),
            ("writes_mismatch", None, None),
        ]

    def test_a_run_that_names_no_mode_cannot_write_whatever_is_enabled(self) -> None:
        for space in (self.notes, self.open().space("notes")):
            with space.run(workflow_id="w", model=None, policy_set_id="p") as run:
                assert run.get(A) is None
                with pytest.raises(Denied, match="buffered_write"):
                    run.set(A, 1)
            assert run.trace["visibility_mode"] == "read_only"
        assert self.notes.version == 0

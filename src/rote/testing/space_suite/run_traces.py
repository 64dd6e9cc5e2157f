"""The traces of runs: fit for a deterministic claim, unless the run saw writes of others."""

import pytest

from rote.errors import Denied
from rote.runs.calls import Effects
from rote.runs.run import Run
from rote.testing.marks import each_test_uses
from rote.testing.space_suite.ground import A
from rote.testing.space_suite.run_ground import VAULT, RunGround
from rote.traces import ModelConfig, ToolProfile, check_trace, compare_traces

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

    def test_a_run_that_names_no_mode_cannot_write_whatever_is_enabled(self) -> None:
        for space in (self.notes, self.open().space("notes")):
            with space.run(workflow_id="w", model=None, policy_set_id="p") as run:
                assert run.get(A) is None
                with pytest.raises(Denied, match="buffered_write"):
                    run.set(A, 1)
            assert run.trace["visibility_mode"] == "read_only"
        assert self.notes.version == 0

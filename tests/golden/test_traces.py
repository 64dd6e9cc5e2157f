"""Traces and recordings of earlier days: read, compared and replayed as on the day they were written.

traces-1    before metadata told of model, replay and recording
traces-2    with that
"""

from pathlib import Path
from typing import Any

import pytest

import rote
from rote.testing import FixedClock, SeededIds
from rote.values import canonical, decode

HERE = Path(__file__).parent
DAYS = ["traces-1", "traces-2"]


def tell(folder: Path, **how: Any) -> rote.Run:
    """Return a run in which everything happens that a trace tells of."""
    store = rote.open(":memory:", modes=("buffered_write",), clock=FixedClock(), ids=SeededIds(20))
    with store:
        space = store.space("team")
        rote.Memory(space).put(
            "long_term", "fact", "keys", {"text": "Deploy keys live in the vault."}
        )
        with space.run(
            workflow_id="triage", model=rote.ModelConfig("acme", "large-1", temperature=0, seed=7),
            policy_set_id="p1", mode="buffered_write", run_id=folder.name, **how,
            tools=[rote.ToolProfile("search", "1"),
                   rote.ToolProfile("send", "2", side_effect_fingerprint_fields=["/to"])],
        ) as run:  # fmt: skip
            run.retrieve({"query": "deploy keys", "budget": {"max_excerpt_tokens": 100}})
            with run.event(role="planner", interceptor="loop", decision_type="act") as event:
                plan = event.model(lambda prompt: "look into the vault", prompt="where?")
                hits = event.call("search", lambda query: {"hits": [query, 1.5, None]}, query=plan)
                event.call("send", lambda to: rote.Effects("sent", {"to": to}), to="ada")
                event.guardrail("pii")
            run.memory.put("long_term", "note", "seen", {"text": "seen", "hits": hits})
            run.output({"type": "plan", "steps": [{"id": 1, "action": "search"}]})
    return run


def write(folder: Path) -> None:
    """Write the three files of a day."""
    folder.mkdir()
    run = tell(folder, record=folder / "recording.jsonl")
    (folder / "trace.json").write_bytes(canonical(run.trace))
    (folder / "trace.retrieval.json").write_bytes(canonical(run.retrieval_trace))


def kept(day: str) -> tuple[Any, Any, bytes]:
    """Return the trace, the retrieval trace and the recording of a day."""
    names = ("trace.json", "trace.retrieval.json", "recording.jsonl")
    trace, retrieval, recording = ((HERE / day / name).read_bytes() for name in names)
    return decode(trace), decode(retrieval), recording


@pytest.mark.parametrize("day", DAYS)
def test_a_trace_of_an_earlier_day_is_fit_and_equivalent_to_one_of_today(
    day: str, tmp_path: Path
) -> None:
    trace, retrieval, _ = kept(day)
    assert rote.check_trace(trace, retrieval).ok
    run = tell(tmp_path / "today")
    report = rote.compare_traces(
        trace, run.trace, left_retrieval=retrieval, right_retrieval=run.retrieval_trace
    )
    assert (report.status, report.failures) == ("equivalent", ())


@pytest.mark.parametrize("day", DAYS)
def test_a_recording_of_an_earlier_day_is_written_and_replayed_as_then(
    day: str, tmp_path: Path
) -> None:
    trace, retrieval, recording = kept(day)
    path = tmp_path / "recording.jsonl"
    tell(tmp_path / "today", record=path)
    assert path.read_bytes() == recording
    again = tell(tmp_path / "again", replay=HERE / day / "recording.jsonl")
    assert rote.compare_traces(
        trace, again.trace, left_retrieval=retrieval, right_retrieval=again.retrieval_trace
    ).ok


def test_what_a_trace_did_not_tell_then_is_a_difference_in_full() -> None:
    first, second = kept("traces-1"), kept("traces-2")
    asked = {"left_retrieval": first[1], "right_retrieval": second[1]}
    report = rote.compare_traces(first[0], second[0], **asked, level="full")
    assert [failure.code for failure in report.failures] == [
        "writes_mismatch", "model_reply_mismatch:0",
    ]  # fmt: skip


def test_the_members_that_were_added_are_those_of_the_recorded_run(tmp_path: Path) -> None:
    trace, retrieval, recording = kept("traces-2")
    run = tell(tmp_path / "today", record=tmp_path / "recording.jsonl")
    assert run.trace["metadata"] == trace["metadata"]
    report = rote.compare_traces(
        trace, run.trace, left_retrieval=retrieval, right_retrieval=run.retrieval_trace,
        left_recording=recording, right_recording=recording, level="full",
    )  # fmt: skip
    assert report.ok

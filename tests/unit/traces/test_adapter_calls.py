"""Calls of adapters in traces and recordings: shown in their events, and compared with their values."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.errors import InvalidInput, LimitExceeded
from rote.traces.recorded_calls import named_source
from rote.traces.timeline import Timeline, make_timeline

EVENT = {"role": "r", "interceptor": "i", "decision_type": "d"}
TERMS: dict[str, Any] = {
    "workflow_id": "w",
    "model": rote.ModelConfig("acme", "large-1", seed=7),
    "policy_set_id": "p",
    "mode": "buffered_write",
    "tools": [rote.ToolProfile(name, "1") for name in ("cache.get", "memory.put", "search")],
}


@pytest.fixture
def space() -> Iterator[rote.Space]:
    with rote.open(":memory:", modes=["buffered_write"]) as store:
        yield store.space("s")


def recorded(space: rote.Space, path: Path, value: Any = 1) -> rote.Run:
    """Run with calls of every kind, in and between events."""
    host = rote.Host("compute-and-store", space=space, cache={"max_bytes": 100})
    with space.run(**TERMS, record=path) as run, host.scope(run=run) as flow:
        flow.cache.set("n", "k", value)
        flow.cache.get("n", "k")
        flow.frame.set("a", 1)
        with run.event(**EVENT) as event:
            event.model(lambda n: n, n=1)
            flow.cache.delete("n", "none")
            flow.memory.put("ops", "k", f"i{value}", {"n": value})
            event.call("search", lambda query: [query], query="a")
            flow.cache.get("n", "k")
            flow.cache.set("n", "k", 5)
        flow.cache.delete("n", "k")
        flow.cache.get("n", "k", {"default": value})
        with pytest.raises(LimitExceeded):
            flow.cache.set("n", "k", "x" * 100)
    return run


def timeline_of(run: rote.Run, path: Path) -> Timeline:
    return make_timeline(run.trace, None, named_source(path.read_bytes(), "recording"))


def shown(timeline: Timeline) -> list[list[str]]:
    return [[f"{call.kind} {call.name}" for call in event.calls] for event in timeline.events]


def test_every_call_is_shown_in_its_event_or_in_the_next(space: rote.Space, tmp_path: Path) -> None:
    run = recorded(space, tmp_path / "r")
    timeline = timeline_of(run, tmp_path / "r")
    assert shown(timeline) == [
        ["adapter cache.set", "adapter cache.get"],
        ["model large-1", "adapter cache.delete", "tool memory.put", "tool search", "adapter cache.get",
         "adapter cache.set"],
        ["adapter cache.delete", "adapter cache.get"],
    ]  # fmt: skip
    [rest] = timeline.rest
    assert rest.name == "cache.set"
    tools = [[call.name for call in event.tool_calls] for event in timeline.events]
    assert tools == [["cache.get"], ["memory.put", "search", "cache.get"], ["cache.get"]]
    assert timeline.events[0].calls[1].result == {"found": True, "value": 1}
    assert not timeline.events[1].calls[2].is_recorded
    assert timeline.to_dict()["rest"][0]["error"]["code"] == "limit_exceeded"


def test_a_difference_shows_the_values_of_adapters(space: rote.Space, tmp_path: Path) -> None:
    runs = [recorded(space, tmp_path / str(number), number) for number in (1, 2)]
    # Both began in other states; what is compared here are their calls.
    traces = [
        {**run.trace, "memory_snapshot_id": "main:0:none", "workflow_id": "w"} for run in runs
    ]
    data = [
        (tmp_path / str(number))
        .read_bytes()
        .replace(runs[number - 1].memory_snapshot_id.encode(), b"main:0:none")
        for number in (1, 2)
    ]
    for trace, each in zip(traces, data, strict=True):
        trace["metadata"] = {**trace["metadata"], "recording": rote.values.sha256_hex(each)}
    report = rote.compare_traces(*traces, left_recording=data[0], right_recording=data[1])
    found = {failure.code: (failure.left_value, failure.right_value) for failure in report.failures}
    assert found == {
        "tool_result_fingerprint_mismatch:0:0": (
            '{"found":true,"value":1}', '{"found":true,"value":2}',
        ),
        "tool_args_mismatch:1:0": (None, None),  # a replay makes it again, so no recording has it
        "tool_result_fingerprint_mismatch:1:2": (
            '{"found":true,"value":1}', '{"found":true,"value":2}',
        ),
        "tool_args_mismatch:2:0": (
            '{"default":{"default":1},"key":"k","namespace":"n"}',
            '{"default":{"default":2},"key":"k","namespace":"n"}',
        ),
        "tool_result_fingerprint_mismatch:2:0": (
            '{"found":false,"value":{"default":1}}', '{"found":false,"value":{"default":2}}',
        ),
    }  # fmt: skip


def test_a_recording_with_other_adapter_calls_is_not_that_of_the_trace(
    space: rote.Space, tmp_path: Path
) -> None:
    run = recorded(space, tmp_path / "r")
    trace = run.trace
    trace["events"][0]["adapter_calls"] = 0
    source = named_source((tmp_path / "r").read_bytes(), "recording")
    with pytest.raises(InvalidInput, match="calls adapters less often"):
        make_timeline(trace, None, source)

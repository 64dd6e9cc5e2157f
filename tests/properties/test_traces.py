"""Traces: the cap against the plain rule, and a replay against what was recorded."""

import io
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rote import Effects, ModelConfig, ToolProfile
from rote.recordings.recordings import Recording, Replay
from rote.runs.events import Event, RunEvents
from rote.testing.strategies import json_values
from rote.traces.writing import Ending, Envelope, TraceWriter
from rote.values import canonical, decode_canonical
from tests.lanes import examples

ENVELOPE = Envelope(
    run_id="r",
    workflow_id="events",
    memory_snapshot_id='"events":[]',
    visibility_mode="off",
    model_config_id="0" * 64,
    policy_set_id="p",
)
# The longest end for which the cap must leave room.
LEAST = 8_000
HASH = "0" * 64
Added = tuple[bytes, list[bytes], list[str]]


def written(
    events: list[Added], output: dict[str, Any], ending: Ending, size_bytes_max: int
) -> tuple[bytes, bytes]:
    partial, trace, retrieval = io.BytesIO(), io.BytesIO(), io.BytesIO()
    writer = TraceWriter(ENVELOPE, partial=partial, size_bytes_max=size_bytes_max)
    for event, rows, replies in events:
        writer.add(event, rows, replies)
    writer.describe(output)
    writer.compose(lambda: io.BytesIO(partial.getvalue()), ending, trace=trace, retrieval=retrieval)
    return trace.getvalue(), retrieval.getvalue()


def artifact(value: dict[str, Any], events: list[bytes], dropped: int, **metadata: Any) -> bytes:
    return canonical(
        {
            **value,
            "events": [decode_canonical(event) for event in events],
            "metadata": metadata or {"truncated": dropped > 0, "events_dropped": dropped},
        }
    )


@settings(max_examples=examples(200, 3_000))
@given(
    events=st.lists(
        st.tuples(
            st.integers(0, 900), st.lists(st.integers(0, 900), max_size=2), st.integers(0, 3)
        ),
        max_size=30,
    ),
    # A cap of any size, one into which the whole just fits, or one into which it just does not.
    room=st.integers(0, 12_000) | st.integers(-40, 0),
    sections=st.sampled_from(["text", "none", "error", "code_patch"]),
    ending=st.builds(
        Ending,
        st.none() | st.just(HASH),
        st.none() | st.just(HASH),
        st.none() | st.sampled_from(["", "E", "E" * 200]),
    ),
)
def test_as_many_events_are_kept_as_fit_into_both_artifacts(
    events: list[tuple[int, list[int], int]], room: int, sections: str, ending: Ending
) -> None:
    output = {"type": sections, "sections": [], "files": []}
    told = [
        (canonical("e" * size), [canonical("r" * row) for row in rows], [HASH] * replies)
        for size, rows, replies in events
    ]
    size_bytes_max = LEAST + room
    if room <= 0:
        size_bytes_max = max(LEAST, room + max(map(len, written(told, output, ending, 10**6))))
    empty = decode_canonical(written([], output, ending, 10**6)[0])
    nothing = {"retrieval_trace_schema_version": "memory.retrieval_trace.v1"}
    for kept in range(len(told), -1, -1):
        every = [row for _, rows, _ in told[:kept] for row in rows]
        rows_dropped = sum(len(rows) for _, rows, _ in told[kept:])
        dropped = len(told) - kept
        metadata = {
            **empty["metadata"],
            "truncated": dropped > 0,
            "events_dropped": dropped,
            "model_replies": [reply for _, _, replies in told[:kept] for reply in replies],
        }
        expected = (
            artifact(empty, [event for event, _, _ in told[:kept]], dropped, **metadata),
            artifact(nothing, every, rows_dropped),
        )
        if max(map(len, expected)) <= size_bytes_max:
            break
    assert written(told, output, ending, size_bytes_max) == expected


TOOLS = [
    ToolProfile("plain", "1"),
    ToolProfile(
        "parts", "1", normalized_args_fields=("/a",), tool_result_fingerprint_fields=("/a",)
    ),
    ToolProfile("effects", "1", side_effect_fingerprint_fields=("", "/a")),
]
ERRORS = {kind.__name__: kind for kind in (ValueError, KeyError, OSError, RuntimeError)}


@st.composite
def steps(draw: st.DrawFn) -> dict[str, Any]:
    """Draw one call: its question, and its answer."""
    return {
        "name": draw(st.sampled_from(["plain", "parts", "effects", "model"])),
        "args": draw(st.dictionaries(st.sampled_from("ab"), json_values(leaves_max=4), max_size=2)),
        "result": draw(json_values(leaves_max=4)),
        "effects": draw(json_values(leaves_max=3)),
        "error": draw(st.sampled_from([None, None, None, *ERRORS])),
    }


def function_of(step: dict[str, Any]) -> Any:
    def function(**args: Any) -> Any:
        if step["error"] is not None:
            raise ERRORS[step["error"]]("told")
        return (
            Effects(step["result"], step["effects"])
            if step["name"] == "effects"
            else step["result"]
        )

    return function


def never(**args: Any) -> None:
    raise AssertionError("a replay calls nothing")


def take(event: Event, step: dict[str, Any], function: Any) -> bytes:
    """Return what a program gets from a call, types included."""
    try:
        if step["name"] == "model":
            seen = event.model(function, **step["args"])
        else:
            seen = event.call(step["name"], function, **step["args"])
    except tuple(ERRORS.values()) as error:
        kind = next(name for name, kind in ERRORS.items() if isinstance(error, kind))
        return f"{kind} {error}".encode()
    return repr(seen).encode()


def play(recording: Recording | Replay, events: list[list[dict[str, Any]]]) -> tuple[Any, Any]:
    run = RunEvents(
        run_id="r",
        workflow_id="w",
        memory_snapshot_id="main:0:none",
        mode="buffered_write",
        model=ModelConfig("acme", "m", seed=1),
        policy_set_id="p",
        tools=TOOLS,
        folder=None,
        recording=recording,
    )
    seen = []
    for calls in events:
        with run.event(role="r", interceptor="i", decision_type="d") as event:
            for step in calls:
                function = never if isinstance(recording, Replay) else function_of(step)
                seen.append(take(event, step, function))
    run.finish("a" * 64)
    trace: Any = run.trace
    assert trace["metadata"].pop("replayed") is isinstance(recording, Replay)
    return seen, trace


@settings(max_examples=examples(50, 1_000))
@given(events=st.lists(st.lists(steps(), max_size=3), max_size=4))
def test_a_replay_sees_and_tells_what_the_recorded_run_did(
    events: list[list[dict[str, Any]]],
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        recorded = play(Recording(path, memory_snapshot_id="main:0:none"), events)
        assert play(Replay(path), events) == recorded

"""The artifacts as they grow: their bytes, and the cap."""

import io
from typing import Any

import pytest

from rote.errors import LimitExceeded
from rote.traces.writing import Envelope, TraceWriter
from rote.values import canonical, decode

ENVELOPE = Envelope(
    run_id="r",
    workflow_id="w",
    memory_snapshot_id="main:0:none",
    visibility_mode="read_only",
    model_config_id="0" * 64,
    policy_set_id="p",
)
SIZE = 10_000


def event(index: int, *, size: int = 10) -> bytes:
    return canonical({"index": index, "pad": "x" * size})


def written(
    events: list[tuple[bytes, list[bytes]]], *, size_bytes_max: int = SIZE, output: Any = None
) -> tuple[bytes, bytes]:
    trace, retrieval = io.BytesIO(), io.BytesIO()
    writer = TraceWriter(ENVELOPE, trace=trace, retrieval=retrieval, size_bytes_max=size_bytes_max)
    for one, rows in events:
        writer.add(one, rows)
    if output is not None:
        writer.describe(output)
    soon = writer.trace(trace.getvalue()), writer.retrieval(retrieval.getvalue())
    writer.finish()
    # The artifacts that are read before the end equal the final ones.
    assert soon == (decode(trace.getvalue()), decode(retrieval.getvalue()))
    return trace.getvalue(), retrieval.getvalue()


def test_an_artifact_is_the_canonical_form_of_what_it_says() -> None:
    trace, retrieval = written(
        [(event(0), []), (event(1), [b'{"a":1}', b'{"a":2}']), (event(2), [b'{"a":3}'])],
        output={"type": "text", "sections": ["a"]},
    )
    assert canonical(decode(trace)) == trace
    assert decode(trace) == {
        "run_id": "r",
        "workflow_id": "w",
        "memory_snapshot_id": "main:0:none",
        "visibility_mode": "read_only",
        "model_config_id": "0" * 64,
        "policy_set_id": "p",
        "determinism_trace_schema_version": "memory.determinism_trace.v1",
        "contract_versions": {
            "retrieval_trace": "memory.retrieval_trace.v1",
            "tool_profile": "memory.tool_profile.v1",
            "buffer_state_machine": "memory.buffer_state_machine.v1",
            "normalization": "json-v1",
        },
        "events": [{"index": n, "pad": "x" * 10} for n in range(3)],
        "output": {
            "output_type": "text",
            # SHA-256 of {"sections":["a"],"type":"text"}
            "output_shape_hash": "64b0595ca18625ca5af94adc9e1d6306e8d4d519a842ef47ffe4b8379dac753a",
            "normalization_version": "json-v1",
        },
        "metadata": {"truncated": False, "events_dropped": 0},
    }
    assert retrieval == (
        b'{"events":[{"a":1},{"a":2},{"a":3}],"metadata":{"events_dropped":0,"truncated":false},'
        b'"retrieval_trace_schema_version":"memory.retrieval_trace.v1"}'
    )


def test_a_trace_that_just_fits_is_whole_and_one_byte_less_cuts_its_last_event() -> None:
    events = [(event(n), [canonical(n)]) for n in range(1_000)]
    whole = written(events, size_bytes_max=100_000)
    assert written(events, size_bytes_max=len(whole[0])) == whole
    trace, retrieval = written(events, size_bytes_max=len(whole[0]) - 1)
    assert decode(retrieval)["events"] == list(range(999))
    assert decode(retrieval)["metadata"] == {"truncated": True, "events_dropped": 1}
    value = decode(trace)
    assert [one["index"] for one in value["events"]] == list(range(999))
    assert value["metadata"] == {"truncated": True, "events_dropped": 1}


def test_the_rows_of_cut_events_are_cut_too() -> None:
    events = [(event(n, size=2_000), [canonical({"of": n})]) for n in range(10)]
    trace, retrieval = written(events)
    kept = [one["index"] for one in decode(trace)["events"]]
    assert 0 < len(kept) < 10
    assert [row["of"] for row in decode(retrieval)["events"]] == kept
    dropped = {"truncated": True, "events_dropped": 10 - len(kept)}
    assert decode(retrieval)["metadata"] == decode(trace)["metadata"] == dropped


def test_an_event_whose_rows_do_not_fit_is_cut_from_the_trace_too() -> None:
    """Otherwise the trace would name a retrieval that is not there."""
    events = [
        (event(0), [b"1"]),
        (event(1), [canonical("x" * SIZE), b"2"]),
        (event(2), []),
    ]
    trace, retrieval = written(events)
    assert [one["index"] for one in decode(trace)["events"]] == [0]
    assert decode(trace)["metadata"] == {"truncated": True, "events_dropped": 2}
    assert decode(retrieval)["events"] == [1]
    assert decode(retrieval)["metadata"] == {"truncated": True, "events_dropped": 2}


def test_nothing_follows_an_event_that_was_cut_however_small_it_is() -> None:
    trace, retrieval = written([(event(0, size=SIZE), []), (event(1), [])])
    assert decode(trace)["events"] == []
    assert decode(trace)["metadata"] == {"truncated": True, "events_dropped": 2}
    assert decode(retrieval)["metadata"] == {"truncated": False, "events_dropped": 0}


def test_a_cap_that_not_even_an_empty_trace_fits_in_is_refused() -> None:
    with pytest.raises(LimitExceeded):
        written([], size_bytes_max=500)

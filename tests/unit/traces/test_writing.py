"""The artifacts as they grow: their bytes, and the cap."""

import io
from collections.abc import Sequence
from typing import Any

import pytest

from rote.errors import LimitExceeded
from rote.traces.writing import Ending, Envelope, TraceWriter
from rote.values import canonical, decode

ENVELOPE = Envelope(
    run_id="r",
    workflow_id="w",
    memory_snapshot_id="main:0:none",
    visibility_mode="read_only",
    model_config_id="0" * 64,
    policy_set_id="p",
    model_fixed=False,
    replayed=True,
    model={"model_name": '"events":[],"model_replies":[]'},  # the places of other members
    tools=[{"tool_name": "t"}],
)
HASHES = ["a" * 64, "b" * 64, "c" * 64]
SIZE = 10_000


def event(index: int, *, size: int = 10) -> bytes:
    return canonical({"index": index, "pad": "x" * size})


Added = tuple[bytes, list[bytes]] | tuple[bytes, list[bytes], list[str]]


def written(
    events: Sequence[Added],
    *,
    size_bytes_max: int = SIZE,
    output: Any = None,
    ending: Ending | None = None,
) -> tuple[bytes, bytes]:
    partial, trace, retrieval = io.BytesIO(), io.BytesIO(), io.BytesIO()
    writer = TraceWriter(ENVELOPE, partial=partial, size_bytes_max=size_bytes_max)
    for each in events:
        writer.add(*each)
    if output is not None:
        writer.describe(output)
    ending = ending or Ending()
    writer.compose(lambda: io.BytesIO(partial.getvalue()), ending, trace=trace, retrieval=retrieval)
    return trace.getvalue(), retrieval.getvalue()


def cut(artifact: bytes) -> dict[str, Any]:
    metadata = decode(artifact)["metadata"]
    return {name: metadata[name] for name in ("truncated", "events_dropped")}


def test_an_artifact_is_the_canonical_form_of_what_it_says() -> None:
    trace, retrieval = written(
        [
            (event(0), [], [HASHES[0]]),
            (event(1), [b'{"a":1}', b'{"a":2}'], HASHES[1:]),
            (event(2), [b'{"a":3}']),
        ],
        output={"type": "text", "sections": ["a"]},
        ending=Ending("1" * 64, "2" * 64),
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
        "metadata": {
            "truncated": False,
            "events_dropped": 0,
            "model_fixed": False,
            "replayed": True,
            "recording": "2" * 64,
            "discarded": False,
            "commit_payload_fingerprint": "1" * 64,
            "model_replies": HASHES,
            "model": {"model_name": '"events":[],"model_replies":[]'},
            "tools": [{"tool_name": "t"}],
        },
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
    assert cut(retrieval) == {"truncated": True, "events_dropped": 1}
    value = decode(trace)
    assert [one["index"] for one in value["events"]] == list(range(999))
    assert cut(trace) == {"truncated": True, "events_dropped": 1}


@pytest.mark.parametrize("replies", [1, 2, 3])
def test_replies_count_with_the_event_that_made_them(replies: int) -> None:
    events: list[Added] = [(event(n), [], HASHES[:replies]) for n in range(100)]
    whole = written(events, size_bytes_max=100_000)
    assert written(events, size_bytes_max=len(whole[0])) == whole
    trace, _ = written(events, size_bytes_max=len(whole[0]) - 1)
    assert len(decode(trace)["events"]) == 99
    assert decode(trace)["metadata"]["model_replies"] == HASHES[:replies] * 99


@pytest.mark.parametrize(
    "ending",
    [Ending(), Ending(discarded=True), Ending("1" * 64), Ending("1" * 64, "2" * 64)],
    ids=str,
)
@pytest.mark.parametrize("output", [None, {"type": "none"}, {"type": "text", "sections": []}])
def test_no_end_makes_a_trace_larger_than_its_cap(ending: Ending, output: Any) -> None:
    events: list[Added] = [(event(n, size=n % 7), []) for n in range(300)]
    sizes = {
        len(written(events, size_bytes_max=cap, output=output, ending=ending)[0]) - cap
        for cap in range(8_000, 8_100)
    }
    # An event is cut only when it does not fit.
    assert -len(event(0, size=7)) - len('1,"') < min(sizes)
    assert max(sizes) == 0


def test_the_rows_of_cut_events_are_cut_too() -> None:
    events = [(event(n, size=2_000), [canonical({"of": n})]) for n in range(10)]
    trace, retrieval = written(events)
    kept = [one["index"] for one in decode(trace)["events"]]
    assert 0 < len(kept) < 10
    assert [row["of"] for row in decode(retrieval)["events"]] == kept
    dropped = {"truncated": True, "events_dropped": 10 - len(kept)}
    assert cut(retrieval) == cut(trace) == dropped


def test_an_event_whose_rows_do_not_fit_is_cut_from_the_trace_too() -> None:
    """Otherwise the trace would name a retrieval that is not there."""
    events = [
        (event(0), [b"1"]),
        (event(1), [canonical("x" * SIZE), b"2"]),
        (event(2), []),
    ]
    trace, retrieval = written(events)
    assert [one["index"] for one in decode(trace)["events"]] == [0]
    assert cut(trace) == {"truncated": True, "events_dropped": 2}
    assert decode(retrieval)["events"] == [1]
    assert cut(retrieval) == {"truncated": True, "events_dropped": 2}


def test_nothing_follows_an_event_that_was_cut_however_small_it_is() -> None:
    trace, retrieval = written([(event(0, size=SIZE), []), (event(1), [])])
    assert decode(trace)["events"] == []
    assert cut(trace) == {"truncated": True, "events_dropped": 2}
    assert cut(retrieval) == {"truncated": False, "events_dropped": 0}


def test_a_cap_that_not_even_an_empty_trace_fits_in_is_refused() -> None:
    with pytest.raises(LimitExceeded):
        written([], size_bytes_max=500)

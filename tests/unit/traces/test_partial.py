"""The partial trace of a run: what is read of it wherever it was cut."""

import io
from typing import Any

import pytest

from rote.errors import InvalidInput, LimitExceeded
from rote.traces import check_trace, partial
from rote.traces.partial import read_partial
from rote.traces.writing import Envelope, TraceWriter
from rote.values import canonical, decode

ENVELOPE = Envelope(
    run_id="r",
    workflow_id="w",
    memory_snapshot_id="main:0:none",
    visibility_mode="read_only",
    model_config_id="0" * 64,
    policy_set_id="p",
    model_fixed=False,
    model={"model_name": "m"},
    tools=[{"tool_name": "t"}],
)
COUNT = 3


def event(index: int) -> dict[str, Any]:
    return {
        "event_id": f"e{index}",
        "index": index,
        "role": "r",
        "interceptor": "i",
        "decision_type": "d",
        "tool_calls": [],
        "guardrails_triggered": [],
        "retrieval_event_ids": [f"q{index}"],
    }


def row(index: int) -> dict[str, Any]:
    return {
        "retrieval_trace_schema_version": "memory.retrieval_trace.v1",
        "retrieval_event_id": f"q{index}",
        "run_id": "r",
        "event_id": f"e{index}",
        "policy_id": "p",
        "policy_version": "1",
        "query_normalization_version": "v",
        "query_fingerprint": "0" * 64,
        "retrieval_mode": "lexical",
        "candidate_count": 0,
        "selected_records": [],
        "applied_filters": dict.fromkeys(("namespace", "tags", "trust", "scope", "ttl")),
    }


def reply(index: int) -> str:
    return f"{index}" * 64


@pytest.fixture
def data() -> bytes:
    """Return the partial trace of a run with a few events."""
    sink = io.BytesIO()
    writer = TraceWriter(ENVELOPE, partial=sink)
    for index in range(COUNT):
        writer.add(canonical(event(index)), [canonical(row(index))], [reply(index)])
    return sink.getvalue()


def test_a_partial_trace_is_these_lines(data: bytes) -> None:
    first, *lines = data.decode().splitlines()
    assert first == (
        '{"contract_versions":{"buffer_state_machine":"memory.buffer_state_machine.v1",'
        '"normalization":"json-v1","retrieval_trace":"memory.retrieval_trace.v1",'
        '"tool_profile":"memory.tool_profile.v1"},'
        '"determinism_trace_schema_version":"memory.determinism_trace.v1",'
        '"kind":"trace_partial/1","memory_snapshot_id":"main:0:none",'
        '"metadata":{"model":{"model_name":"m"},"model_fixed":false,"replayed":false,'
        '"tools":[{"tool_name":"t"}]},"model_config_id":"' + "0" * 64 + '",'
        '"policy_set_id":"p","run_id":"r","visibility_mode":"read_only","workflow_id":"w"}'
    )
    assert lines[:3] == [
        '{"retrieval":' + canonical(row(0)).decode() + "}",
        '{"model_reply":"' + reply(0) + '"}',
        '{"event":' + canonical(event(0)).decode() + "}",
    ]
    assert len(lines) == 3 * COUNT


def test_it_is_read_as_a_trace_that_is_cut(data: bytes) -> None:
    trace, retrieval = read_partial(data)
    assert trace["events"] == [event(index) for index in range(COUNT)]
    assert trace["metadata"] == {
        "truncated": True,
        "events_dropped": 0,
        "model_fixed": False,
        "replayed": False,
        "recording": None,
        "discarded": False,
        "commit_payload_fingerprint": None,
        "model_replies": [reply(index) for index in range(COUNT)],
        "model": {"model_name": "m"},
        "tools": [{"tool_name": "t"}],
    }
    assert trace["output"] == {
        "output_type": "none",
        # SHA-256 of {"type":"none"}
        "output_shape_hash": "ff0f08b1aa6194023a4e4fadb848e1a977cb9f23c42b5d9cda8ea2552d9d1f73",
        "normalization_version": "json-v1",
    }
    assert retrieval == {
        "retrieval_trace_schema_version": "memory.retrieval_trace.v1",
        "events": [row(index) for index in range(COUNT)],
        "metadata": {"truncated": True, "events_dropped": 0},
    }
    assert "kind" not in trace


def test_wherever_it_is_cut_whole_events_with_all_their_links_are_left(data: bytes) -> None:
    whole, whole_retrieval = (each["events"] for each in read_partial(data))
    start = data.index(b"\n") + 1
    counts = []
    for size in range(start, len(data) + 1):
        trace, retrieval = read_partial(data[:size])
        count = len(trace["events"])
        assert trace["events"] == whole[:count]
        assert retrieval["events"] == whole_retrieval[:count]
        assert len(trace["metadata"]["model_replies"]) == count
        assert [code for code in codes(trace, retrieval) if code != "trace:model"] == []
        counts.append(count)
    assert counts == sorted(counts)
    assert set(counts) == set(range(COUNT + 1))


def codes(trace: Any, retrieval: Any) -> list[str]:
    return [failure.code for failure in check_trace(trace, retrieval).failures]


def test_without_its_first_line_it_is_no_trace(data: bytes) -> None:
    for size in range(data.index(b"\n") + 1):
        with pytest.raises(InvalidInput, match="line 1"):
            read_partial(data[:size])


def changed(line: int, **members: Any) -> Any:
    def change(lines: list[bytes]) -> list[bytes]:
        value = {**decode(lines[line]), **members}
        value = {name: member for name, member in value.items() if member is not ...}
        return [*lines[:line], canonical(value), *lines[line + 1 :]]

    return change


FOREIGN = {
    "recording": changed(0, kind="recording/1"),
    "later version": changed(0, kind="trace_partial/2"),
    "no run": changed(0, run_id=...),
    "no metadata": changed(0, metadata=...),
    "other metadata": changed(0, metadata={"model_fixed": 1}),
    "other mode": changed(0, visibility_mode="write"),
    "nothing in a line": changed(2, model_reply=...),
    "two in a line": changed(2, retrieval={}),
    "stranger": changed(2, more=1),
    "no hash": changed(2, model_reply="abc"),
    "no object": changed(3, event=[1]),
    "null": changed(3, event=None),
    "no JSON": lambda lines: [*lines[:2], b"#", *lines[2:]],
    "torn in the middle": lambda lines: [*lines[:2], lines[2][:-1], *lines[3:]],
    "list": lambda lines: [*lines[:2], b"[]", *lines[2:]],
    "empty line": lambda lines: [*lines, b""],
    "first twice": lambda lines: [lines[0], *lines],
}


@pytest.mark.parametrize("what", FOREIGN)
def test_a_foreign_file_is_refused(data: bytes, what: str) -> None:
    lines = FOREIGN[what](data.splitlines())
    with pytest.raises(InvalidInput, match="no partial trace"):
        read_partial(b"".join(line + b"\n" for line in lines))


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"{}\n", b"\xff\n", b"SQLite format 3\0", b"[" * 9_999]
)
def test_what_was_never_a_partial_trace_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        read_partial(data)


@pytest.mark.parametrize(
    "wrong", ["text", None, 5, [b"{}"]], ids=lambda wrong: type(wrong).__name__
)
def test_a_partial_trace_is_bytes(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="is bytes, not"):
        read_partial(wrong)


def test_one_that_is_too_large_is_refused(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial, "TRACE_READ_BYTES_MAX", len(data) - 1)
    with pytest.raises(LimitExceeded):
        read_partial(data)

"""One good trace, and small changes to it, for the fixtures of check and compare."""

from collections.abc import Callable
from copy import deepcopy
from hashlib import sha256
from typing import Any

from rote.traces.formats import CONTRACT_VERSIONS, DETERMINISM_TRACE, RETRIEVAL_TRACE
from rote.values import canonical, fingerprint

Change = Callable[[Any], object]  # made to {"trace": …, "retrieval": …}


def good_run(run: str = "run-1") -> Any:
    """Return a trace of three events, two of which asked the memory, with its retrieval trace."""
    return {
        "trace": {
            "run_id": run,
            "workflow_id": "triage",
            "memory_snapshot_id": f"main:7:{'c' * 64}",
            "visibility_mode": "buffered_write",
            "model_config_id": "d" * 64,
            "policy_set_id": "p1",
            "determinism_trace_schema_version": DETERMINISM_TRACE,
            "contract_versions": dict(CONTRACT_VERSIONS),
            "events": [_event(run, index) for index in range(3)],
            "output": {
                "output_type": "plan",
                "output_shape_hash": fingerprint({"type": "plan", "steps": []}),
                "normalization_version": "json-v1",
            },
            "metadata": {"truncated": False, "events_dropped": 0},
        },
        "retrieval": {
            "retrieval_trace_schema_version": RETRIEVAL_TRACE,
            "events": [_retrieval(run, index) for index in range(2)],
            "metadata": {"truncated": False, "events_dropped": 0},
        },
    }


def recorded_run(made: Any, calls: list[dict[str, Any]]) -> Any:
    """Give a run a recording of these calls, and the name of that to its trace; return the run."""
    lines = [
        {"kind": "recording/1", "memory_snapshot_id": made["trace"]["memory_snapshot_id"]},
        *({"seq": seq, "name": "n", "args": {}, **call} for seq, call in enumerate(calls)),
        {"kind": "end", "payload_fingerprint": "a" * 64},
    ]
    made["recording"] = b"".join(canonical(line) + b"\n" for line in lines)
    made["trace"]["metadata"]["recording"] = sha256(made["recording"]).hexdigest()
    return made


def changed(*path: str | int, to: Any) -> Change:
    """Return a change that puts another value at a place."""

    def change(run: Any) -> None:
        container = place(run, *path[:-1])
        container[path[-1]] = to

    return change


def without(*path: str | int) -> Change:
    """Return a change that removes the value at a place."""

    def change(run: Any) -> None:
        del place(run, *path[:-1])[path[-1]]

    return change


def changing(change: Change, run: str = "run-1") -> Any:
    """Return the good run after a change."""
    made = good_run(run)
    change(made)
    return made


def place(value: Any, *path: str | int) -> Any:
    for step in path:
        value = value[step]
    return value


def _event(run: str, index: int) -> Any:
    return {
        "event_id": f"{run}/{index}",
        "index": index,
        "role": "planner",
        "interceptor": "before_tool",
        "decision_type": "tool_call",
        "tool_calls": [_call("search"), _call("send", effect="e" * 64)],
        "guardrails_triggered": ["pii", "pii", "length"],
        "retrieval_event_ids": [f"{run}/retrieval/{index}"] if index < 2 else [],
    }


def _call(name: str, *, effect: str | None = None) -> Any:
    return {
        "tool_name": name,
        "tool_profile_version": "1",
        "normalization_version": "json-v1",
        "normalized_args": {"": {"query": "café", "limit": 1, "near": 0.5}},
        "tool_result_fingerprint": fingerprint(name),
        "side_effect_required": effect is not None,
        "side_effect_fingerprint": effect,
    }


def _retrieval(run: str, index: int) -> Any:
    scores = {"b": 1.5, "a": 1.0, "c": 1.0}
    records = [
        {"record_id": id, "record_type": "fact", "score": score, "rank": rank}
        for rank, (id, score) in enumerate(scores.items(), 1)
    ]
    return {
        "retrieval_event_id": f"{run}/retrieval/{index}",
        "run_id": run,
        "event_id": f"{run}/{index}",
        "policy_id": "rote.lexical",
        "policy_version": "phase6-v1",
        "query_normalization_version": "query-v1",
        "query_fingerprint": fingerprint("question"),
        "retrieval_mode": "lexical",
        "candidate_count": 5,
        "selected_records": deepcopy(records),
        "applied_filters": dict.fromkeys(("namespace", "tags", "trust", "scope", "ttl")),
    }

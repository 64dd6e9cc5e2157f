"""The cost of comparing traces, against parsing them."""

from functools import partial
from typing import Any

import orjson

import rote
from bench.harness import Benchmark, Effort, Result, compare_times, timed
from rote.traces.formats import CONTRACT_VERSIONS, DETERMINISM_TRACE
from rote.values import canonical, fingerprint
from rote.values.limits import TRACE_READ_BYTES_MAX

EVENTS = 100_000


def compare(effort: Effort) -> Result:
    """Measure two equivalent runs as text: strict parsing, both checks and the comparison."""
    count = effort.count(EVENTS, 100)
    texts = [canonical(_trace(run, count)) for run in ("left", "right")]

    def parse() -> None:
        # Our own decoder is part of the measured side, so the raw side uses orjson.
        parsed = [orjson.loads(text) for text in texts]
        assert len(parsed) == 2

    def work() -> None:
        assert rote.compare_traces(*texts, size_bytes_max=TRACE_READ_BYTES_MAX).ok

    return compare_times(effort, partial(timed, count, parse), partial(timed, count, work))


def _trace(run: str, count: int) -> dict[str, Any]:
    return {
        "run_id": run,
        "workflow_id": "bench",
        "memory_snapshot_id": "main:0:none",
        "visibility_mode": "read_only",
        "model_config_id": fingerprint(None),
        "policy_set_id": "bench",
        "determinism_trace_schema_version": DETERMINISM_TRACE,
        "contract_versions": dict(CONTRACT_VERSIONS),
        "events": [_event(run, index) for index in range(count)],
        "output": {
            "output_type": "none",
            "output_shape_hash": fingerprint({"type": "none"}),
            "normalization_version": "json-v1",
        },
        "metadata": {"truncated": False, "events_dropped": 0},
    }


def _event(run: str, index: int) -> dict[str, Any]:
    call = {
        "tool_name": "search",
        "tool_profile_version": "1",
        "normalization_version": "json-v1",
        "normalized_args": {"": {"query": f"question {index}", "limit": 10}},
        "tool_result_fingerprint": fingerprint(index),
        "side_effect_required": False,
        "side_effect_fingerprint": None,
    }
    return {
        "event_id": f"{run}/{index}",
        "index": index,
        "role": "planner",
        "interceptor": "before_tool",
        "decision_type": "tool_call",
        "tool_calls": [call] if index % 2 else [],
        "guardrails_triggered": [],
        "retrieval_event_ids": [],
    }


BENCHMARKS = [
    Benchmark("trace/compare", "compare of two traces of 100,000 events against parsing them",
              3, 1.5, compare, "at most"),
]  # fmt: skip

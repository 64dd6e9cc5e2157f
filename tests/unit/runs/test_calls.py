"""Calls side by side: in the order of their list, whatever ends first, fails or is interrupted."""

import contextvars
import functools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from rote import ModelConfig, ToolProfile
from rote.errors import (
    InvalidInput,
    InvalidValue,
    LimitExceeded,
    RecordedError,
    RoteError,
    Unavailable,
)
from rote.runs.events import Event, RunEvents
from rote.runs.recordings import Recording, Replay
from rote.values import decode
from rote.values.limits import CALLS_AT_ONCE_MAX, EVENT_PARTS_MAX

SNAPSHOT = "main:0:none"
NAMES = {"role": "planner", "interceptor": "before_tool", "decision_type": "tool_call"}
PAYLOAD = "f" * 64
WAIT_SECONDS = 30

Function = Callable[..., Any]


def begin(recording: Recording | Replay | None = None, **changes: Any) -> RunEvents:
    given: dict[str, Any] = {
        "run_id": "r1",
        "workflow_id": "triage",
        "memory_snapshot_id": SNAPSHOT,
        "mode": "read_only",
        "model": ModelConfig("acme", "large-1", seed=7),
        "policy_set_id": "p1",
        "tools": [ToolProfile("search", "1"), ToolProfile("write", "1")],
        "folder": None,
        "recording": recording,
    }
    return RunEvents(**{**given, **changes})


@pytest.fixture
def run() -> Iterator[RunEvents]:
    events = begin()
    yield events
    events.discard()


@pytest.fixture(autouse=True)
def _no_thread_outlives_a_call() -> Iterator[None]:
    before = threading.enumerate()
    yield
    assert [thread for thread in threading.enumerate() if thread not in before] == []


def never(**args: Any) -> None:
    raise AssertionError("a replay calls nothing")


def fail(message: str) -> None:
    raise ValueError(message)


def searches(function: Function, count: int) -> list[tuple[str, Function, dict[str, Any]]]:
    return [("search", function, {"n": number}) for number in range(count)]


class Backwards:
    """Functions that end one after the other, the last one of their list first."""

    def __init__(self, count: int) -> None:
        self.ended: list[int] = []
        self._turns = [threading.Event() for _ in range(count)]
        self._turns[-1].set()

    def __call__(self, n: int) -> int:
        assert self._turns[n].wait(WAIT_SECONDS)
        self.ended.append(n)
        self._turns[n - 1].set()
        return n * n


def told_args(run: RunEvents) -> list[Any]:
    """Return the arguments of the calls that the trace tells, in its order."""
    calls = [call for event in run.trace["events"] for call in event["tool_calls"]]
    return [call["normalized_args"][""] for call in calls]


# -- side by side ---------------------------------------------------------------------------------


def test_calls_overlap(run: RunEvents) -> None:
    barrier = threading.Barrier(4)

    def meet(n: int) -> int:
        barrier.wait(WAIT_SECONDS)
        return n

    with run.event(**NAMES) as event:
        assert event.calls(searches(meet, 4)) == [0, 1, 2, 3]


def test_results_trace_and_recording_have_the_order_of_the_list(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    run = begin(Recording(path, memory_snapshot_id=SNAPSHOT))
    function = Backwards(8)
    with run.event(**NAMES) as event:
        assert event.calls(searches(function, 8)) == [n * n for n in range(8)]
    run.finish(PAYLOAD)
    assert function.ended == list(reversed(range(8)))
    assert told_args(run) == [{"n": n} for n in range(8)]
    lines = [decode(line) for line in path.read_bytes().splitlines()[1:-1]]
    assert [(line["args"]["n"], line["result"]) for line in lines] == [(n, n * n) for n in range(8)]

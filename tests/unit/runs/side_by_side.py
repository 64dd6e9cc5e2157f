"""Runs that make calls side by side, and what their tests look at."""

import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from types import CodeType, FrameType
from typing import Any

from rote import ModelConfig, ToolProfile
from rote.recordings.recordings import Recording, Replay
from rote.runs.events import RunEvents

SNAPSHOT = "main:0:none"
NAMES = {"role": "planner", "interceptor": "before_tool", "decision_type": "tool_call"}
PAYLOAD = "f" * 64
WAIT_SECONDS = 30

Function = Callable[..., Any]
Listed = tuple[str, Function, dict[str, Any]]


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


def searches(function: Function, count: int) -> list[Listed]:
    return [("search", function, {"n": number}) for number in range(count)]


def told_args(run: RunEvents) -> list[Any]:
    """Return the arguments of the calls that the trace tells, in its order."""
    calls = [call for event in run.trace["events"] for call in event["tool_calls"]]
    return [call["normalized_args"][""] for call in calls]


def threads_of_calls() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("rote-call")]


def until(is_so: Callable[[], bool]) -> None:
    last = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < last
        os.sched_yield()


def until_done_or_waiting(future: Future[Any], function: CodeType) -> None:
    """Return when a future is done, or when a thread stands still in a function of its own: it waits
    there for a lock."""
    seen: tuple[int, int] | None = None
    looks = 0

    def is_so() -> bool:
        nonlocal seen, looks
        frames = sys._current_frames().values()
        now = next(((id(each), each.f_lasti) for each in frames if each.f_code is function), None)
        seen, looks = now, looks + 1 if now is not None and now == seen else 0
        return looks > 200 or future.done()

    until(is_so)


def until_the_caller_joins() -> None:
    """Return when the main thread waits for the threads of its calls to end."""

    def joins() -> bool:
        frame: FrameType | None = sys._current_frames()[threading.main_thread().ident or 0]
        while frame is not None and frame.f_code is not threading.Thread.join.__code__:
            frame = frame.f_back
        return frame is not None

    until(joins)

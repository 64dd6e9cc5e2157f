"""Calls side by side that are interrupted: what has begun is waited for and told."""

import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from rote.errors import InvalidInput
from rote.recordings.recordings import Recording
from rote.runs import calls as calls_file
from rote.runs.calls import _Threads
from rote.runs.events import Event, RunEvents
from rote.values import decode
from rote.values.limits import CALLS_AT_ONCE_MAX
from tests.lanes import examples
from tests.unit.runs.side_by_side import (
    NAMES,
    PAYLOAD,
    SNAPSHOT,
    WAIT_SECONDS,
    Listed,
    begin,
    searches,
    threads_of_calls,
    told_args,
    until,
    until_the_caller_joins,
)


@pytest.fixture
def run() -> Iterator[RunEvents]:
    events = begin()
    yield events
    events.discard()


@pytest.fixture(autouse=True)
def _no_thread_outlives_a_call() -> Iterator[None]:
    yield
    assert threads_of_calls() == []


class Interrupter:
    """Interrupts the main thread as Ctrl-C does, and returns when it has come."""

    def __init__(self) -> None:
        self.error: BaseException = KeyboardInterrupt()
        self._come = threading.Event()
        self._come.set()

    def __call__(self) -> None:
        self._come.clear()
        # One that comes just before a thread begins to wait is noticed only after it.
        while not self._come.is_set():
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            self._come.wait(0.01)

    def handle(self, number: int, frame: FrameType | None) -> None:
        if not self._come.is_set():
            self._come.set()
            raise self.error


@pytest.fixture
def interrupt() -> Iterator[Interrupter]:
    interrupter = Interrupter()
    before = signal.signal(signal.SIGINT, interrupter.handle)
    yield interrupter
    signal.signal(signal.SIGINT, before)


def test_an_interruption_waits_for_the_threads_and_records_what_ended(
    tmp_path: Path, interrupt: Interrupter
) -> None:
    """All threads are under way when it comes, and end only after it was noticed."""
    path = tmp_path / "r.jsonl"
    begun: list[int] = []
    barrier = threading.Barrier(CALLS_AT_ONCE_MAX, action=interrupt)

    def work(n: int) -> int:
        begun.append(n)
        barrier.wait(WAIT_SECONDS)
        until_the_caller_joins()
        return n

    run = begin(Recording(path, memory_snapshot_id=SNAPSHOT))
    with run.event(**NAMES) as event:
        with pytest.raises(KeyboardInterrupt):
            event.calls(searches(work, CALLS_AT_ONCE_MAX + 4))
        assert not threads_of_calls()
        assert sorted(begun) == list(range(CALLS_AT_ONCE_MAX))
        assert event.call("search", lambda: "after") == "after"
    run.finish(PAYLOAD)
    assert told_args(run) == [*({"n": n} for n in range(CALLS_AT_ONCE_MAX)), {}]
    lines = [decode(line) for line in path.read_bytes().splitlines()[1:-1]]
    assert [line["result"] for line in lines] == [*range(CALLS_AT_ONCE_MAX), "after"]


def test_a_second_interruption_leaves_behind_what_does_not_end(
    run: RunEvents, interrupt: Interrupter
) -> None:
    """The first call ends before it, the second one never, the third one too late to be told."""
    release = threading.Event()
    threads: dict[int, threading.Thread] = {}

    def work(n: int) -> int:
        threads[n] = threading.current_thread()
        barrier.wait(WAIT_SECONDS)
        if n == 0:
            return n
        if n == 2:
            until_the_caller_joins()
            threads[0].join(WAIT_SECONDS)
            interrupt()
        release.wait()
        return n

    barrier = threading.Barrier(3, action=interrupt)
    with run.event(**NAMES) as event, pytest.raises(KeyboardInterrupt):
        event.calls(searches(work, 3))
    assert told_args(run) == [{"n": 0}]
    assert [thread.daemon for thread in threads_of_calls()] == [True, True]
    release.set()
    until(lambda: not threads_of_calls())  # after an interrupted join another one is no help
    assert told_args(run) == [{"n": 0}]


def test_a_function_that_was_left_behind_does_nothing_more_to_its_run(
    tmp_path: Path, interrupt: Interrupter
) -> None:
    """The function could still write, and a replay, which does not call it, would not."""
    release, refusals = threading.Event(), list[str]()

    def work(n: int) -> None:
        if n == 1:
            interrupt()
            until_the_caller_joins()
            interrupt()
        assert release.wait(WAIT_SECONDS)
        for use in (
            lambda: run.check_replayable("write"),
            lambda: run.output({"type": "none"}),
            lambda: run.event(**NAMES).__enter__(),
            lambda: event.guardrail("pii"),
            lambda: event.call("search", str),
        ):
            try:
                use()
            except InvalidInput as error:
                refusals.append(str(error))

    file = tmp_path / "r.jsonl"
    run = begin(Recording(file, memory_snapshot_id=SNAPSHOT))
    with pytest.raises(KeyboardInterrupt), run.event(**NAMES) as event:
        event.calls(searches(work, 2))
    with run.event(**NAMES) as event:
        release.set()
        until(lambda: not threads_of_calls())
        assert len(refusals) == 2 * 5
        run.check_replayable("write")
        event.call("search", lambda: "mine")
    run.output({"type": "none"})
    run.finish(PAYLOAD)
    assert [line["result"] for line in map(decode, file.read_bytes().splitlines()[1:-1])] == [
        "mine"
    ]
    assert [len(event["tool_calls"]) for event in run.trace["events"]] == [0, 1]


def test_whatever_a_signal_raises_is_an_interruption(
    run: RunEvents, interrupt: Interrupter
) -> None:
    interrupt.error = TimeoutError("rung")

    def work() -> None:
        interrupt()
        until_the_caller_joins()

    with run.event(**NAMES) as event, pytest.raises(TimeoutError, match="rung"):
        event.calls([("search", work, {})], return_exceptions=True)
    assert told_args(run) == [{}]


def test_an_interruption_before_any_line_is_told_and_leaves_no_thread(run: RunEvents) -> None:
    """Whatever has begun is waited for and told, unless the very telling of it was interrupted."""
    begun: set[int] = set()

    def work(n: int) -> None:
        begun.add(n)

    count = examples(3, CALLS_AT_ONCE_MAX + 2)
    where: str | None = ""
    lines = 0
    while where is not None:
        begun.clear()
        told = len(told_args(run))
        with run.event(**NAMES) as event:
            where = interrupted_before(lines, event, searches(work, count))
        until(lambda: not threads_of_calls())
        assert begun == set(range(len(begun)))
        newly = [args["n"] for args in told_args(run)[told:]]
        is_telling = where in (_Threads.give.__name__, "told")
        assert newly == list(range(len(newly) if is_telling else len(begun)))
        lines += 1
    assert lines > 20 * count


def interrupted_before(line: int, event: Event, calls: list[Listed]) -> str | None:
    """Interrupt calls before a line of the file that makes them, counted as they are run; return the
    function that was interrupted, or None when the calls ended first."""
    left, where = line, ""

    def trace(frame: FrameType, kind: str, argument: object) -> Any:
        nonlocal left, where
        if frame.f_code.co_filename != calls_file.__file__:
            return None
        left -= kind == "line"
        if left < 0:
            sys.settrace(None)
            where = frame.f_code.co_name
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        event.calls(calls)
        return None
    except KeyboardInterrupt:
        return where
    finally:
        sys.settrace(before)

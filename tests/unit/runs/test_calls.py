"""Calls side by side: in the order of their list, whatever ends first, fails or is interrupted."""

import functools
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from rote.errors import (
    InvalidInput,
    InvalidValue,
    LimitExceeded,
    RecordedError,
    RoteError,
    Unavailable,
)
from rote.recordings.calls import Call, Reply
from rote.recordings.recordings import Recording, Replay
from rote.runs.calls import perform_side_by_side
from rote.runs.events import Event, RunEvents
from rote.values import decode, fingerprint
from rote.values.limits import CALL_BYTES_MAX, CALLS_AT_ONCE_MAX, EVENT_PARTS_MAX
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
    until_the_caller_joins,
)

CITY = ContextVar("CITY", default="")


class Untellable(Exception):
    def __str__(self) -> str:
        raise SystemExit("even its text ends the program")


@pytest.fixture
def run() -> Iterator[RunEvents]:
    events = begin()
    yield events
    events.discard()


@pytest.fixture(autouse=True)
def _no_thread_outlives_a_call() -> Iterator[None]:
    yield
    assert threads_of_calls() == []


def never(**args: Any) -> None:
    raise AssertionError("a replay calls nothing")


def fail(message: str) -> None:
    raise ValueError(message)


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


def test_a_reply_is_taken_as_soon_as_all_before_it_have_ended() -> None:
    """The second call ends only after the first one was taken, and the third one before both."""
    third, first = threading.Event(), threading.Event()

    def wait(n: int) -> int:
        if n == 2:
            third.set()
        else:
            assert (third if n == 0 else first).wait(WAIT_SECONDS)
        return n

    def take(call: Call, reply: Reply) -> None:
        taken.append(reply.result)
        first.set()

    taken: list[Any] = []
    calls = [Call("tool", name, function, args, dict) for name, function, args in searches(wait, 3)]
    perform_side_by_side(calls, take)
    assert taken == [0, 1, 2]


def test_so_many_calls_are_under_way_at_once_and_no_more(run: RunEvents) -> None:
    lock, count, most = threading.Lock(), 0, 0
    barrier = threading.Barrier(CALLS_AT_ONCE_MAX)

    def meet(n: int) -> int:
        nonlocal count, most
        with lock:
            count += 1
            most = max(most, count)
        barrier.wait(WAIT_SECONDS)
        with lock:
            count -= 1
        return n

    with run.event(**NAMES) as event:
        made = 3 * CALLS_AT_ONCE_MAX
        assert event.calls(searches(meet, made)) == list(range(made))
    assert most == CALLS_AT_ONCE_MAX


def test_an_empty_list_calls_nothing(run: RunEvents) -> None:
    with run.event(**NAMES) as event:
        assert event.calls([]) == event.calls((), return_exceptions=True) == []
    assert told_args(run) == []
    with pytest.raises(InvalidInput, match="not open"):
        event.calls([])


def test_functions_see_the_context_of_their_caller_and_change_only_their_own(
    run: RunEvents,
) -> None:
    def look(n: int) -> list[str]:
        seen = CITY.get()
        CITY.set(f"{n}")
        return [seen, CITY.get()]

    token = CITY.set("Oslo")
    try:
        with run.event(**NAMES) as event:
            assert event.calls(searches(look, 3)) == [["Oslo", f"{n}"] for n in range(3)]
        assert CITY.get() == "Oslo"
    finally:
        CITY.reset(token)


def test_a_call_alone_is_made_on_the_thread_of_its_caller(run: RunEvents) -> None:
    with run.event(**NAMES) as event:
        assert event.call("search", threading.get_ident) == threading.get_ident()
        assert event.calls([("search", threading.get_ident, {})]) != [threading.get_ident()]


def test_functions_get_the_arguments_that_were_given(run: RunEvents) -> None:
    items: list[Any] = [1]
    with run.event(**NAMES) as event:
        event.calls([("search", lambda items: items.append(2), MappingProxyType({"items": items}))])
    assert items == [1, 2]
    assert told_args(run) == [{"items": [1]}]


# -- errors ---------------------------------------------------------------------------------------


def test_one_that_fails_is_recorded_the_others_are_waited_for_and_the_first_error_is_raised(
    run: RunEvents,
) -> None:
    """The last call fails first, and the first one ends after both errors."""
    failed = [threading.Event(), threading.Event()]

    def second() -> None:
        assert failed[1].wait(WAIT_SECONDS)
        failed[0].set()
        raise KeyError("second")

    def third() -> None:
        failed[1].set()
        raise ValueError("third")

    def first() -> str:
        assert failed[0].wait(WAIT_SECONDS)
        return "first"

    with run.event(**NAMES) as event:
        with pytest.raises(KeyError, match="second"):
            event.calls([("search", first, {}), ("search", second, {}), ("write", third, {})])
        assert event.call("search", lambda: "after") == "after"
    calls = run.trace["events"][0]["tool_calls"]
    assert [call["tool_result_fingerprint"] for call in calls] == [
        fingerprint({"": told})
        for told in (
            "first",
            {"error": {"type": "KeyError", "message": "'second'"}},
            {"error": {"type": "ValueError", "message": "third"}},
            "after",
        )
    ]


def test_errors_can_stand_in_the_places_of_their_results(run: RunEvents) -> None:
    errors: list[BaseException] = [ValueError("x"), SystemExit(3), Untellable()]

    def fail_with(n: int) -> None:
        raise errors[n]

    calls: list[Listed] = [("write", len, {}), *searches(fail_with, 3), ("search", dict, {"a": 1})]
    with run.event(**NAMES) as event:
        refused, *raised, last = event.calls(calls, return_exceptions=True)
        assert raised == errors
        assert (type(refused), last) == (TypeError, {"a": 1})
        with pytest.raises(SystemExit):
            event.calls(calls[2:])
    assert len(told_args(run)) == 8


@pytest.mark.parametrize("result", [object(), float("nan"), "x" * CALL_BYTES_MAX])
def test_a_result_that_cannot_be_recorded_is_the_failure_of_its_call(
    run: RunEvents, result: Any
) -> None:
    with run.event(**NAMES) as event:
        calls: list[Listed] = [("search", lambda: result, {}), ("search", lambda: 1, {})]
        failed, went_well = event.calls(calls, return_exceptions=True)
        assert isinstance(failed, InvalidValue | LimitExceeded)
        assert went_well == 1


def test_a_full_disk_begins_no_more_calls_and_waits_for_those_under_way(tmp_path: Path) -> None:
    begun: list[int] = []

    def wait(n: int) -> None:
        begun.append(n)
        until_the_caller_joins()

    run = begin(Recording(tmp_path / "r.jsonl", memory_snapshot_id=SNAPSHOT))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        with run.event(**NAMES) as event, pytest.raises(Unavailable, match="cannot write"):
            first: Listed = ("search", lambda: "x" * 100_000, {})
            event.calls([first, *searches(wait, 3 * CALLS_AT_ONCE_MAX)])
        assert not threads_of_calls()
        assert len(begun) <= CALLS_AT_ONCE_MAX
        assert told_args(run) == [{}]  # the one that was made
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    run.discard()


# -- what is refused before anything is called ----------------------------------------------------


async def coroutine(**args: Any) -> None: ...


WRONG: dict[str, Any] = {
    "no list": {"search": never},
    "an iterator": iter([("search", never, {})]),
    "text": "search",
    "none": None,
    "no tuple": ["abc"],
    "no arguments": [("search", never)],
    "too many parts": [("search", never, {}, {})],
    "unknown tool": [("browse", never, {})],
    "no name": [(["search"], never, {})],
    "no function": [("search", "never", {})],
    "coroutine": [("search", coroutine, {})],
    "coroutine with arguments": [("search", functools.partial(coroutine, a=1), {})],
    "no mapping": [("search", never, [("n", 1)])],
    "arguments are none": [("search", never, None)],
    "names are no text": [("search", never, {1: 2})],
    "argument": [("search", never, {"a": object()})],
    "surrogate": [("search", never, {"\ud800": 1})],
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("return_exceptions", [False, True])
def test_a_list_is_checked_before_anything_is_called(
    run: RunEvents, name: str, return_exceptions: bool
) -> None:
    called: list[int] = []
    wrong = WRONG[name]
    if isinstance(wrong, list):
        wrong = [("search", lambda: called.append(1), {}), *wrong]
    with run.event(**NAMES) as event, pytest.raises(InvalidInput):
        event.calls(wrong, return_exceptions=return_exceptions)
    assert (called, told_args(run)) == ([], [])


def test_a_list_has_no_more_calls_than_its_event_has_room_for(run: RunEvents) -> None:
    called: list[int] = []
    calls: list[Listed] = [("search", lambda: called.append(1), {})] * EVENT_PARTS_MAX
    with run.event(**NAMES) as event:
        with pytest.raises(LimitExceeded, match="another event"):
            event.calls([*calls, calls[0]])
        event.call("search", lambda: None)
        with pytest.raises(LimitExceeded, match="another event"):
            event.calls(calls)
    assert called == []


def test_threads_that_cannot_start_call_nothing(run: RunEvents) -> None:
    called: list[int] = []
    size = threading.stack_size(1 << 46)  # more than any process can address
    try:
        with run.event(**NAMES) as event:
            with pytest.raises(Unavailable, match="one after the other"):
                event.calls(searches(called.append, 3))
            assert event.call("search", lambda: "alone") == "alone"
    finally:
        threading.stack_size(size)
    assert called == []


# -- one list at a time ---------------------------------------------------------------------------


def test_calls_at_once_are_refused_and_told_of_the_list(run: RunEvents) -> None:
    def others(n: int) -> list[str]:
        found = []
        for use in (
            lambda: event.call("search", never),
            lambda: event.calls([("search", never, {})]),
            lambda: event.model(never),
        ):
            with pytest.raises(InvalidInput, match=r"event\.calls") as refused:
                use()
            found.append(refused.value.code)
        return found

    with run.event(**NAMES) as event:
        expected = ["invalid_input"] * 3
        assert event.calls(searches(others, 2)) == [expected, expected]
        assert event.call("search", others, n=0) == expected
    assert len(told_args(run)) == 3


def test_functions_side_by_side_tell_nothing_that_has_an_order(run: RunEvents) -> None:
    def retrieve() -> None:
        run.retrieval(lambda **ids: dict(ids))

    with run.event(**NAMES) as event:
        for use in (
            retrieve,
            lambda: event.guardrail("pii"),
            lambda: run.check_replayable("write"),
        ):
            with pytest.raises(InvalidInput, match="in no order"):
                event.calls([("search", use, {})])
            event.call("search", use)
    told = run.trace["events"][0]
    assert (told["retrieval_event_ids"], told["guardrails_triggered"]) == (["retrieval-0"], ["pii"])


def test_functions_side_by_side_may_write_in_a_live_run() -> None:
    run = begin(mode="live_read_write")
    with run.event(**NAMES) as event:
        assert (
            event.calls([("search", lambda: run.check_replayable("write"), {})] * 2) == [None] * 2
        )
    run.discard()


# -- replays --------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path where three calls are recorded, of which the second failed."""
    file = tmp_path / "run.jsonl"
    run = begin(Recording(file, memory_snapshot_id=SNAPSHOT))
    with run.event(**NAMES) as event:
        event.calls(asked(live=True), return_exceptions=True)
    run.finish(PAYLOAD)
    return file


def asked(*, live: bool) -> list[Listed]:
    return [
        ("search", (lambda n: (1.0, n)) if live else never, {"n": 1}),
        ("write", fail if live else never, {"message": "no room"}),
        ("search", (lambda n: n) if live else never, {"n": 3}),
    ]


def test_a_replay_calls_nothing_and_answers_in_order(path: Path) -> None:
    run = begin(Replay(path))
    with run.event(**NAMES) as event:
        first, error, third = event.calls(asked(live=False), return_exceptions=True)
    run.finish(PAYLOAD)
    assert (first, str(error), third) == ([1, 1], "no room", 3)
    assert isinstance(error, RecordedError) and isinstance(error, ValueError)


def test_a_replay_raises_the_first_error_after_all_were_answered(path: Path) -> None:
    run = begin(Replay(path))
    with run.event(**NAMES) as event, pytest.raises(ValueError, match="no room"):
        event.calls(asked(live=False))
    run.finish(PAYLOAD)
    assert len(told_args(run)) == 3


def test_calls_side_by_side_are_recorded_like_calls_one_by_one(path: Path, tmp_path: Path) -> None:
    run = begin(Recording(tmp_path / "again.jsonl", memory_snapshot_id=SNAPSHOT))
    with run.event(**NAMES) as event:
        for name, function, args in asked(live=True):
            with suppress(ValueError):
                event.call(name, function, **args)
    run.finish(PAYLOAD)
    assert (tmp_path / "again.jsonl").read_bytes() == path.read_bytes()


def exchanged(event: Event) -> object:
    first, second, third = asked(live=False)
    return event.calls([first, third, second], return_exceptions=True)


@pytest.mark.parametrize(
    "leave",
    [
        exchanged,
        lambda event: event.calls([*asked(live=False), asked(live=False)[0]]),
        lambda event: event.calls(asked(live=False)[:2], return_exceptions=True),
    ],
    ids=["exchanged", "one more", "one less"],
)
def test_a_replay_of_another_list_is_refused(path: Path, leave: Callable[[Event], object]) -> None:
    run = begin(Replay(path))
    with pytest.raises(RoteError) as refused:
        with run.event(**NAMES) as event:
            leave(event)
        run.finish(PAYLOAD)
    assert refused.value.code == "replay_differs"
    run.discard()

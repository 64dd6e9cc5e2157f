"""Watchers that wait for a space to move, and the effect of an interruption of one on the others."""

import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from queue import Queue
from types import FrameType, SimpleNamespace

import pytest

from rote.kernel.watching import turns, wakeups
from rote.kernel.watching.turns import Turns
from rote.kernel.watching.wakeups import Wakeups
from rote.values.limits import WATCH_TURN_SECONDS_MAX

FILES = (turns.__file__, wakeups.__file__)
LIMIT_SECONDS = 30  # only a hang reaches it


def interruption(work: Callable[[], object], moment: int) -> KeyboardInterrupt | None:
    """Interrupt a watcher after so many calls and returns from C, where CPython notices signals;
    return the error, or None when it had ended before."""
    left = moment

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal left
        callers = (frame, frame.f_back)
        is_ours = any(each and each.f_code.co_filename in FILES for each in callers)
        if is_ours and event in ("call", "c_return"):
            left -= 1
            if left == 0:
                sys.setprofile(None)
                raise KeyboardInterrupt

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
        return None
    except KeyboardInterrupt as error:
        return error
    finally:
        sys.setprofile(before)


def test_a_watcher_that_is_interrupted_anywhere_silences_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The watcher kept the lead, or the lock: no other watcher ever learned of a commit again."""
    monkeypatch.setattr(wakeups, "WAKE_SECONDS_MAX", 0.01, raising=False)
    heard: Queue[int] = Queue()
    kept = []
    for moment in count(1):
        pulse = Wakeups()
        error = interruption(partial(pulse.wait, 1, 0.001, lambda: 1), moment)
        if error is None:
            break
        kept.append(error)  # the error keeps everything in its frames

        def watch(pulse: Wakeups = pulse) -> None:
            heard.put(pulse.wait(1, LIMIT_SECONDS, lambda: 2))

        threading.Thread(target=watch, daemon=True).start()
        assert heard.get(timeout=LIMIT_SECONDS / 2) == 2
    assert len(kept) > 10


def test_one_looks_for_all() -> None:
    pulse, answers = Wakeups(), Queue[int]()
    lookers: set[int] = set()
    moved = threading.Event()

    def look() -> int:
        lookers.add(threading.get_ident())
        return 2 if moved.is_set() else 1

    def watch() -> None:
        answers.put(pulse.wait(1, LIMIT_SECONDS, look))

    watchers = [threading.Thread(target=watch) for _ in range(8)]
    for watcher in watchers:
        watcher.start()
    while len(pulse._bells) < 7:
        assert len(lookers) <= 1
    moved.set()
    assert [answers.get(timeout=LIMIT_SECONDS) for _ in watchers] == [2] * 8
    assert len(lookers) == 1
    assert not pulse._bells
    for watcher in watchers:
        watcher.join()


def test_when_the_one_who_looks_leaves_another_looks() -> None:
    pulse, answers = Wakeups(), Queue[int]()
    waiting = threading.Thread(target=lambda: answers.put(pulse.wait(1, LIMIT_SECONDS, lambda: 2)))

    def look() -> int:
        if not waiting.is_alive():
            waiting.start()
        while not pulse._bells:
            pass
        return 1

    assert pulse.wait(1, 0, look) == 1
    assert answers.get(timeout=LIMIT_SECONDS) == 2
    waiting.join()


# -- turns -----------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Return a time that stands still until a test moves it."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(turns, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def bells(number: int) -> list[threading.Lock]:
    return [threading.Lock() for _ in range(number)]


def test_watchers_work_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "WATCH_TURN_SECONDS_MAX", 2.0 * LIMIT_SECONDS)
    pulse, most = Turns(), Queue[int]()
    begun: list[int] = []
    ended: list[int] = []

    def work(number: int) -> None:
        with pulse.turn(None):
            begun.append(number)
            while len(begun) - len(ended) == 1 and len(begun) + len(pulse._queue) < 8:
                pass  # until all others are in the queue, or one of them is not
            most.put(len(begun) - len(ended))
            ended.append(number)

    for number in range(8):
        threading.Thread(target=work, args=(number,), daemon=True).start()
    assert [most.get(timeout=LIMIT_SECONDS) for _ in range(8)] == [1] * 8


def test_a_failure_ends_a_turn(clock: SimpleNamespace) -> None:
    pulse = Turns()
    with pytest.raises(ValueError, match="a closed store"), pulse.turn(None):
        raise ValueError("a closed store")
    assert [pulse._pause_before(bell) for bell in bells(1)] == [0]


def test_the_next_in_line_begins_as_long_after_a_turn_as_that_took(clock: SimpleNamespace) -> None:
    pulse = Turns()
    first, second, third = bells(3)
    assert pulse._pause_before(first) == 0
    assert pulse._pause_before(second) > 0
    assert pulse._pause_before(third) > 0
    clock.now += 0.01
    pulse._pass_on(first)
    assert pulse._pause_before(second) == pytest.approx(0.01)
    assert pulse._pause_before(third) > 0.02
    clock.now += 0.0101
    assert pulse._pause_before(second) == 0


def test_who_comes_after_a_turn_lets_it_rest_too(clock: SimpleNamespace) -> None:
    pulse = Turns()
    first, second = bells(2)
    assert pulse._pause_before(first) == 0
    clock.now += 0.01
    pulse._pass_on(first)
    assert pulse._pause_before(second) == pytest.approx(0.01)
    clock.now += 0.0101
    assert pulse._pause_before(second) == 0


def test_one_that_works_for_long_delays_others_only_so_long(clock: SimpleNamespace) -> None:
    pulse = Turns()
    first, second, third = bells(3)
    pulse._pause_before(first)
    assert pulse._pause_before(second) == pytest.approx(WATCH_TURN_SECONDS_MAX)
    clock.now += WATCH_TURN_SECONDS_MAX
    assert pulse._pause_before(second) == 0
    pulse._pass_on(first)  # its turn was over, so it ends no other turn
    assert pulse._pause_before(third) == pytest.approx(WATCH_TURN_SECONDS_MAX)


def test_a_turn_that_was_too_long_goes_to_the_first_in_line(clock: SimpleNamespace) -> None:
    """The first thread that looked took the turn, even one that had just come, and others waited for ever."""
    pulse = Turns()
    first, second, third, newcomer = bells(4)
    for bell in (first, second, third):
        pulse._pause_before(bell)
    clock.now += WATCH_TURN_SECONDS_MAX
    assert pulse._pause_before(newcomer) == pytest.approx(WATCH_TURN_SECONDS_MAX)
    assert pulse._pause_before(third) == pytest.approx(WATCH_TURN_SECONDS_MAX)
    assert pulse._pause_before(second) == 0


def test_the_rest_after_a_turn_is_within_its_bound(clock: SimpleNamespace) -> None:
    pulse = Turns()
    first, second = bells(2)
    pulse._pause_before(first)
    clock.now += 0.9 * WATCH_TURN_SECONDS_MAX
    pulse._pass_on(first)
    assert pulse._pause_before(second) == pytest.approx(0.1 * WATCH_TURN_SECONDS_MAX)


def several() -> Turns:
    turns = Turns()
    turns._turns_max = 2
    return turns


def test_where_watchers_wait_for_a_server_several_work_at_once(clock: SimpleNamespace) -> None:
    pulse = several()
    first, second, third = bells(3)
    assert [pulse._pause_before(first), pulse._pause_before(second)] == [0, 0]
    assert pulse._pause_before(third) > 0
    pulse._pass_on(first)
    assert pulse._pause_before(third) == 0


def test_who_has_no_time_left_waits_for_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "WATCH_TURN_SECONDS_MAX", 2.0 * LIMIT_SECONDS)
    pulse = Turns()
    with pulse.turn(None):
        held = dict(pulse._turns)
        with pulse.turn(time.monotonic()):
            assert pulse._turns == held
        assert pulse._turns == held
        assert not pulse._queue


def test_a_watcher_that_is_interrupted_anywhere_keeps_no_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "WATCH_TURN_SECONDS_MAX", 0.01)
    worked: Queue[int] = Queue()
    kept = []
    for moment in count(1):
        pulse = Turns()

        def work(pulse: Turns = pulse, moment: int = moment) -> None:
            with pulse.turn(None):
                worked.put(moment)

        error = interruption(work, moment)
        while not worked.empty():
            worked.get()
        if error is None:
            break
        kept.append(error)  # the error keeps everything in its frames
        threading.Thread(target=work, daemon=True).start()
        assert worked.get(timeout=LIMIT_SECONDS / 2) == moment
    assert len(kept) > 10


def test_one_that_is_interrupted_in_line_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "WATCH_TURN_SECONDS_MAX", 0.01)
    pulse, worked = Turns(), Queue[bool]()
    (dead,) = bells(1)

    def work() -> None:
        with pulse.turn(None):
            worked.put(True)

    with pulse.turn(None):
        pulse._queue[dead] = None
        threading.Thread(target=work, daemon=True).start()
    assert worked.get(timeout=LIMIT_SECONDS)
    assert not pulse._queue

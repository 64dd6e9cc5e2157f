"""Those who wait for a space to move, and what an interruption of one of them does to the others."""

import sys
import threading
from itertools import count
from queue import Queue
from types import FrameType

import pytest

from rote.kernel import pulse as pulses
from rote.kernel.pulse import Pulse

LIMIT_SECONDS = 30  # only a hang reaches it


def interruption(pulse: Pulse, moment: int) -> KeyboardInterrupt | None:
    """Of a watcher, at so many calls and returns from C, where CPython notices signals; None when it
    had ended before."""
    left = moment

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal left
        callers = (frame, frame.f_back)
        is_ours = any(each and each.f_code.co_filename == pulses.__file__ for each in callers)
        if is_ours and event in ("call", "c_return"):
            left -= 1
            if left == 0:
                sys.setprofile(None)
                raise KeyboardInterrupt

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        pulse.wait(1, 0.001, lambda: 1)
        return None
    except KeyboardInterrupt as error:
        return error
    finally:
        sys.setprofile(before)


def test_a_watcher_that_is_interrupted_anywhere_silences_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It kept the lead, or the lock: no other watcher of the space ever heard of a commit again."""
    monkeypatch.setattr(pulses, "WAKE_SECONDS_MAX", 0.01, raising=False)
    heard: Queue[int] = Queue()
    kept = []
    for moment in count(1):
        pulse = Pulse()
        error = interruption(pulse, moment)
        if error is None:
            break
        kept.append(error)  # what its frames hold is held as long as it is

        def watch(pulse: Pulse = pulse) -> None:
            heard.put(pulse.wait(1, LIMIT_SECONDS, lambda: 2))

        threading.Thread(target=watch, daemon=True).start()
        assert heard.get(timeout=LIMIT_SECONDS / 2) == 2
    assert len(kept) > 10


def test_one_looks_for_all() -> None:
    pulse, answers = Pulse(), Queue[int]()
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
    pulse, answers = Pulse(), Queue[int]()
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

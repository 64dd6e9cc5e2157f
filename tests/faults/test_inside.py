"""Calls from unexpected places: signal handlers, functions that a commit calls, and forks."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import pytest

import rote
from rote.errors import Busy, RoteError, Unavailable
from tests.lanes import examples

if TYPE_CHECKING:
    from _typeshed import TraceFunction

OTHER = "urn:entity:other"
LIMIT_SECONDS = 60  # only a hang reaches it


@pytest.fixture
def store(store_path: Path) -> Iterator[rote.Store]:
    with rote.open(store_path, durability="os") as opened:
        space = opened.space("notes")
        space.transact([{"op": "set", "id": f"urn:{n}", "value": "x" * 400} for n in range(500)])
        yield opened


class Alarms:
    """Acts in a signal handler, again and again, while a `with` block runs."""

    def __init__(self, action: Callable[[], object], times: int) -> None:
        self._action = action
        self.left = times
        self.refused = 0
        self._is_ringing = False

    def _ring(self, number: int, frame: FrameType | None) -> None:
        if self.left == 0 or self._is_ringing:
            return
        self.left -= 1
        self._is_ringing = True
        try:
            self._action()
        except RoteError:
            self.refused += 1
        finally:
            self._is_ringing = False

    def __enter__(self) -> "Alarms":
        self._before = signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)


def test_a_signal_handler_may_read_in_the_middle_of_a_read(store: rote.Store) -> None:
    space = store.space("notes")
    with Alarms(lambda: space.get("urn:7"), examples(200, 5_000)) as alarms:
        while alarms.left:
            assert len(list(space.scan())) == 500
    assert alarms.refused == 0


def test_a_signal_handler_may_close_the_store_in_the_middle_of_a_read(store: rote.Store) -> None:
    space = store.space("notes")
    with Alarms(store.close, 1), pytest.raises(Unavailable):
        while True:
            list(space.scan())


def test_a_write_from_inside_a_commit_is_refused_and_the_commit_is_whole(
    store: rote.Store,
) -> None:
    space, elsewhere = store.space("notes"), store.space("elsewhere")
    committed = space.version
    for number, target in enumerate((space, elsewhere)):
        with Alarms(lambda target=target: target.set(OTHER, 1), examples(100, 2_000)) as alarms:  # type: ignore[misc]
            while alarms.left:
                operations = [
                    {"op": "set", "id": f"urn:{number}:{n}", "value": n} for n in range(300)
                ]
                committed = space.transact(operations).version
    assert space.version >= committed
    assert space.verify().ok
    assert elsewhere.verify().ok
    assert space.set(OTHER, 2).version == space.version


@pytest.mark.parametrize("other", ["notes", "elsewhere"])
def test_a_write_at_every_line_of_a_commit_is_refused_or_goes_first(
    store: rote.Store, other: str
) -> None:
    """The alarms find these moments only by chance: those just before a lock is held, or just after."""
    space, target = store.space("notes"), store.space(other)
    outcomes: list[bool] = []

    def meddle(frame: FrameType, event: str, argument: object) -> "TraceFunction | None":
        if "/rote/" not in frame.f_code.co_filename:
            return None
        if event == "line":
            try:
                target.set(OTHER, len(outcomes))
                outcomes.append(True)
            except Busy:
                outcomes.append(False)
        return meddle

    before = target.version
    sys.settrace(meddle)
    try:
        space.set("urn:0", "meddled with")
    finally:
        sys.settrace(None)
    assert space.get("urn:0") == "meddled with"
    assert outcomes.count(False) > 50  # inside
    own = 1 if other == "notes" else 0
    assert target.version == before + outcomes.count(True) + own
    assert space.verify().ok
    assert target.verify().ok


def test_what_a_commit_calls_may_not_commit(store_path: Path) -> None:
    spaces: list[rote.Space] = []

    class Meddling:
        def random_bytes(self, size: int, /) -> bytes:
            for space in spaces:
                with pytest.raises(Busy, match="inside a commit"):
                    space.set(OTHER, 1)
            return os.urandom(size)

    with rote.open(store_path, ids=Meddling()) as store:
        both = [store.space("one"), store.space("two")]
        spaces.extend(both)
        for space in both:
            assert space.set("urn:a", 1).version == 1
            assert space.verify().ok


def test_forks_beside_reading_threads_neither_hang_nor_close_what_the_parent_has_open(
    store: rote.Store,
) -> None:
    space = store.space("notes")
    stopped = threading.Event()

    def read_in_many_threads() -> None:
        while not stopped.is_set():
            reader = threading.Thread(target=lambda: space.get("urn:1"))
            reader.start()
            reader.join()

    workers = [threading.Thread(target=read_in_many_threads) for _ in range(3)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(examples(40, 1_000)):
            child = os.fork()
            if child == 0:
                os._exit(0)
            assert _exit_code(child) == 0
    finally:
        stopped.set()
        for worker in workers:
            worker.join()
    assert space.set("urn:1", 2).version == 2
    assert space.verify().ok


def _exit_code(child: int) -> int:
    """Return the exit code of a child; the alarm kills one that hangs."""
    before = signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.alarm(LIMIT_SECONDS)
    try:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)

"""Watches of one process: their own work goes in turns, that of their consumers does not."""

import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any, cast

import pytest

from rote.errors import Unavailable
from rote.kernel.watching import turns
from rote.kernel.watching.turns import Turns
from rote.kernel.watching.wakeups import Wakeups
from rote.opening import open as open_store
from rote.space import Space

LIMIT_SECONDS = 30  # only a hang reaches it
A = "urn:a"
QUERY: dict[str, Any] = {"select": {A: {}}}


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Space]:
    # Turns never run out, so nobody gets a turn before the other ends it.
    monkeypatch.setattr(turns, "WATCH_TURN_SECONDS_MAX", 2.0 * LIMIT_SECONDS)
    with open_store(tmp_path / "memory.db", durability="os") as store:
        yield store.space("notes")


def turns_of(space: Space) -> Turns:
    port: Any = space._port
    part: Turns = port.spaces.open(space.did).part(Turns)
    return part


def test_a_frame_is_made_when_it_is_its_watchers_turn(space: Space) -> None:
    watch, frames = space.watch(QUERY), Queue[dict[str, Any]]()
    next(watch)
    pulse = turns_of(space)
    watching = threading.Thread(target=lambda: frames.put(next(watch)), daemon=True)
    with pulse.turn(None):
        space.set(A, 1)
        watching.start()
        while not pulse._queue:
            assert frames.empty()
    assert frames.get(timeout=LIMIT_SECONDS)["to"] == 1
    watching.join()


def test_a_frame_that_is_due_at_the_end_of_a_watch_waits_for_no_turn(space: Space) -> None:
    watch = space.watch(QUERY, timeout=0)
    next(watch)
    pulse = turns_of(space)
    with pulse.turn(None):
        held = dict(pulse._turns)
        space.set(A, 1)
        assert next(watch)["to"] == 1
        assert list(watch) == []
        assert pulse._turns == held


def test_whoever_stops_at_a_frame_has_no_turn(space: Space) -> None:
    watches = [space.watch(QUERY) for _ in range(4)]
    frames: Queue[int] = Queue()
    for watch in watches:
        next(watch)
    space.set(A, 1)

    def take() -> None:
        for watch in watches:
            frames.put(next(watch)["to"])

    threading.Thread(target=take, daemon=True).start()
    assert [frames.get(timeout=LIMIT_SECONDS) for _ in watches] == [1] * 4


def test_a_watch_of_a_store_that_is_no_more_waits_for_no_lock(space: Space) -> None:
    """In a forked process, a thread of the parent may have held the lock."""
    watch = space.watch(QUERY)
    next(watch)
    space.set(A, 1)
    pulse, port = turns_of(space), cast(Any, space._port)
    port.spaces.open(space.did).part(Wakeups).newest = 1
    port.close()
    with pulse._mutex, pytest.raises(Unavailable):
        next(watch)

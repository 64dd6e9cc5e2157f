"""The cache is never stale and counts its bytes correctly, whatever happens between two of its steps.

Threads meet at moments that a test cannot arrange from outside. So each test names a step of the
first thread, and does the work of the other one right after it.
"""

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import pytest

from rote.engines import Reader
from rote.engines.rows import MAIN
from rote.engines.sqlite import SqliteEngine
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader
from rote.opening.keys import MemoryKeys
from rote.space import Space
from rote.testing import StoreSettings, open_on
from rote.testing.stores import wiring_on

ID, OTHER = "urn:entity:read", "urn:entity:other"


class Interleaved:
    """A reader that gives another thread its turn once, after the step of that name."""

    def __init__(self, reads: Reader, step: str, turn: Callable[[], object]) -> None:
        self._reads = reads
        self._turns = {step: turn}

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            answer = getattr(self._reads, name)(*arguments, **options)
            self._turns.pop(name, lambda: None)()
            return answer

        return call

    @property
    def is_done(self) -> bool:
        return not self._turns


class LateLock:
    """A lock that gives another thread its turn once, before it is acquired."""

    def __init__(self, lock: Any, turn: Callable[[], object]) -> None:
        self._lock = lock
        self._turns = [turn]

    def __enter__(self) -> None:
        if self._turns:
            self._turns.pop()()
        self._lock.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.__exit__(kind, error, trace)


class Bench:
    """A cache on a file that someone else writes to; the two readers belong to different threads."""

    def __init__(self, engine: SqliteEngine, theirs: Space, first: Reader, second: Reader) -> None:
        self.theirs = theirs
        self.space = OpenSpace(engine.spaces()[0], wiring_on(engine))
        self.first, self.second = first, second
        theirs.set(ID, "old")
        theirs.set(OTHER, "old")
        self.reader(first).sync()

    def reader(self, rows: Any) -> SpaceReader:
        return SpaceReader(self.space, rows)

    def fill(self, *ids: str) -> None:
        self.reader(self.second).newest("main", ids)

    def catch_up(self) -> None:
        self.reader(self.second).sync()

    def check(self) -> None:
        """Check that a reader returns what is stored now."""
        self.reader(self.first).sync()
        ids = (ID, OTHER)
        found = self.reader(self.first).newest("main", ids)
        assert [found[id].version for id in ids] == [self.theirs.read(id).version for id in ids]
        check_bytes(self.space)


def check_bytes(space: OpenSpace) -> None:
    cache = space.cache
    held = [*cache.newest.values(), *cache.past.values()]
    assert cache._bytes == sum(entry.weight for entry in held)


@pytest.fixture
def bench(store_path: Path) -> Iterator[Bench]:
    theirs = open_on(SqliteEngine(store_path), StoreSettings(), keys=MemoryKeys())
    engine = SqliteEngine(store_path)
    with theirs, contextlib.closing(engine):
        space = theirs.space("agent")
        with ThreadPoolExecutor(1) as other_thread:
            second = other_thread.submit(engine.reader).result()
            yield Bench(engine, space, engine.reader(), second)


@pytest.mark.parametrize("remembered", [(), (OTHER,), (ID, OTHER)])
@pytest.mark.parametrize("step", ["head", "events", "changed"])
def test_what_is_filled_in_while_another_thread_catches_up_is_not_stale(
    bench: Bench, step: str, remembered: tuple[str, ...]
) -> None:
    """Thread A reads as of the old version, while thread B has already asked for the changes."""
    bench.fill(*remembered)
    bench.theirs.set(ID, "new")
    reads = Interleaved(bench.first, step, lambda: bench.fill(ID))
    bench.reader(reads).sync()
    assert reads.is_done or (step == "changed" and not remembered)
    bench.check()


@pytest.mark.parametrize("remembered", [(), (OTHER,)])
def test_what_is_filled_in_just_before_the_cache_moves_on_is_not_stale(
    bench: Bench, remembered: tuple[str, ...]
) -> None:
    """An empty cache seemed to have nothing to drop, but it was filled a moment later."""
    bench.fill(*remembered)
    bench.theirs.set(ID, "new")
    lock = bench.space.lock
    # The turn needs the lock itself, so it comes before the other thread has it.
    bench.space.lock = cast(Any, LateLock(lock, lambda: bench.fill(ID)))
    bench.reader(bench.first).sync()
    assert bench.space.known == bench.theirs.version
    bench.check()


def test_what_was_loaded_before_another_thread_caught_up_is_not_remembered(bench: Bench) -> None:
    """Thread A has its rows, as of the old version, when another thread moves the cache on."""

    def move_on() -> None:
        bench.theirs.set(ID, "new")
        bench.catch_up()

    reads = Interleaved(bench.first, "newest", move_on)
    found = bench.reader(reads).newest("main", (ID,))
    assert reads.is_done
    assert found[ID].version == 1, "a read is of the version it began with"
    bench.check()


def test_an_own_commit_that_others_have_seen_first_does_not_bring_older_entries_back(
    bench: Bench,
) -> None:
    """Between COMMIT and its announcement, a reader saw it and a commit of another process too."""
    bench.fill(ID)
    base = bench.space.known
    bench.theirs.set(ID, "mine")
    bench.catch_up()
    mine = bench.reader(bench.first).newest("main", (ID,))
    bench.theirs.set(ID, "theirs")
    bench.catch_up()
    bench.space.committed(base, base + 1, {(MAIN, ID): mine[ID]}, hash=b"")
    assert bench.space.known == base + 2, "the cache went back"
    bench.check()


def test_a_past_version_that_two_threads_read_at_once_is_counted_once(bench: Bench) -> None:
    """Both threads missed it and both put it in. The count grew by two, shrank by one, and the
    cache lost that room for good."""
    bench.theirs.set(ID, "new")
    bench.catch_up()
    reads = Interleaved(
        bench.first, "newest", lambda: bench.reader(bench.second).entries_at("main", [ID], 1)
    )
    entry = bench.reader(reads).entries_at("main", [ID], 1)[ID]
    assert reads.is_done
    assert entry.version == 1
    assert bench.space.remembered("main", ID, 1) is not None
    check_bytes(bench.space)

"""Cancelled calls: what has not begun never does, a read ends at once, a write is settled first."""

import asyncio
import random
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import rote
import rote.aio
from rote.testing.serving import serving
from tests.lanes import examples
from tests.unit.aio.stores import SECONDS_MAX, A, B, on_a_store

ROUNDS = examples(100, 2_000)
STEPS_MAX = 200


class Gate:
    """A function that stands still inside a call until the test opens it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reached = asyncio.Event()
        self._open = threading.Event()

    def __call__(self, _: object) -> str:
        self.stand()
        return "passed"

    def stand(self) -> None:
        self._loop.call_soon_threadsafe(self._reached.set)
        assert self._open.wait(SECONDS_MAX)

    async def reached(self) -> None:
        await asyncio.wait_for(self._reached.wait(), SECONDS_MAX)

    def open(self) -> None:
        self._open.set()


async def turns(count: int = 20) -> None:
    """Let everything on the loop that can go on do so."""
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_write_that_has_begun_is_settled_before_the_cancellation(store_path: Path) -> None:
    async def body(store: rote.aio.Store) -> None:
        space, gate = await store.space("notes"), Gate()
        task = asyncio.ensure_future(space.update(A, gate))
        await gate.reached()
        for _ in range(3):  # however often
            task.cancel()
            await turns()
            assert not task.done()
        gate.open()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert space.sync.get(A) == "passed"

    on_a_store(store_path, body)


def test_the_error_of_a_write_is_the_cause_of_the_cancellation(store_path: Path) -> None:
    """The attempt of a write whose outcome nobody knows was lost; `settle` asks for it."""

    async def body(store: rote.aio.Store) -> None:
        space, gate = await store.space("notes"), Gate()

        def fail(_: object) -> None:
            gate.stand()
            raise ZeroDivisionError

        task = asyncio.ensure_future(space.update(A, fail))
        await gate.reached()
        task.cancel()
        await turns()
        gate.open()
        with pytest.raises(asyncio.CancelledError) as told:
            await task
        assert isinstance(told.value.__cause__, ZeroDivisionError)

    on_a_store(store_path, body)


def test_a_call_that_has_not_begun_never_does(store_path: Path) -> None:
    async def body(store: rote.aio.Store) -> None:
        space, gate = await store.space("notes"), Gate()
        first = asyncio.ensure_future(space.update(A, gate))
        await gate.reached()
        second = asyncio.ensure_future(space.set(B, 1))
        await turns()
        second.cancel()
        await turns()
        assert second.cancelled()
        gate.open()
        await first
        await space.version()  # the thread is free again
        assert space.sync.get(B) is None

    on_a_store(store_path, body, threads=1)


def test_a_read_ends_at_once(store_path: Path) -> None:
    async def body(store: rote.aio.Store) -> None:
        space, gate = await store.space("notes"), Gate()
        await space.set(A, 1)
        task = asyncio.ensure_future(space.verify(progress=lambda *_: gate.stand()))
        await gate.reached()
        task.cancel()
        await turns()
        assert task.cancelled()
        gate.open()

    on_a_store(store_path, body)


def test_a_timeout_is_a_cancellation(store_path: Path) -> None:
    async def body(store: rote.aio.Store) -> None:
        space, gate = await store.space("notes"), Gate()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01) as timeout:
                asyncio.get_running_loop().call_later(0.05, gate.open)
                await space.update(A, gate)
        assert timeout.expired() and space.sync.get(A) == "passed"

    on_a_store(store_path, body)


def test_a_transaction_that_is_cancelled_in_its_block_is_discarded(store_path: Path) -> None:
    async def body(store: rote.aio.Store) -> None:
        space, inside = await store.space("notes"), asyncio.Event()

        async def write() -> None:
            async with space.transaction() as tx:
                await tx.set(A, 1)
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.ensure_future(write())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert space.sync.version == 0

    on_a_store(store_path, body)


def test_a_commit_that_is_cancelled_before_it_begins_is_discarded(store_path: Path) -> None:
    async def body(store: rote.aio.Store) -> None:
        space, gate = await store.space("notes"), Gate()
        written = asyncio.Event()

        async def write() -> None:
            async with space.transaction() as tx:
                await tx.set(A, 1)
                blocking.append(asyncio.ensure_future(space.update(B, gate)))
                await gate.reached()  # the only thread is busy now
                written.set()

        blocking: list[asyncio.Future[Any]] = []
        task = asyncio.ensure_future(write())
        await written.wait()
        await turns()
        task.cancel()
        await turns()
        gate.open()
        with pytest.raises(asyncio.CancelledError):
            await task
        await blocking[0]
        assert (space.sync.get(A), space.sync.get(B)) == (None, "passed")

    on_a_store(store_path, body, threads=1)


def test_a_block_whose_end_has_begun_is_settled_before_the_cancellation(store_path: Path) -> None:
    async def body(store: rote.aio.Store) -> None:
        space, gate = await store.space("notes"), Gate()

        def allow(_: object) -> bool:
            gate.stand()
            return True

        async def write() -> None:
            async with space.run(
                workflow_id="w", policy_set_id="p", model=None, mode="buffered_write",
                commit_policy=allow,
            ) as run:  # fmt: skip
                await run.set(A, 1)

        task = asyncio.ensure_future(write())
        await gate.reached()
        for _ in range(3):
            task.cancel()
            await turns()
            assert not task.done()
        gate.open()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert space.sync.get(A) == 1

    on_a_store(store_path, body, modes=["buffered_write"])


def test_an_opening_that_is_cancelled_leaves_no_open_store(store_path: Path) -> None:
    async def main() -> None:
        task = asyncio.ensure_future(opened())
        while store_path not in store_path.parent.iterdir():
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def opened() -> None:
        await rote.aio.open(store_path)

    asyncio.run(main())
    assert open_files(store_path) == []


def open_files(path: Path) -> list[str]:
    """Return the files of a store that this process has open; none where the system cannot tell."""
    found = []
    for each in Path("/proc/self/fd").glob("*"):
        with suppress(OSError):
            found.append(str(each.readlink()))
    return [name for name in found if name.startswith(str(path))]


Doing = Callable[[rote.aio.Space, str], Coroutine[Any, Any, object]]


async def _set(space: rote.aio.Space, id: str) -> None:
    await space.set(id, "written")


async def _update(space: rote.aio.Space, id: str) -> None:
    await space.update(id, lambda _: "written")


async def _update_held(space: rote.aio.Space, id: str) -> None:
    """Be cancelled in the middle of a write, for certain."""
    loop, task, is_cancelled = asyncio.get_running_loop(), asyncio.current_task(), threading.Event()
    assert task is not None

    def cancel(_: object) -> str:
        loop.call_soon_threadsafe(task.cancel)
        loop.call_soon_threadsafe(is_cancelled.set)
        assert is_cancelled.wait(SECONDS_MAX)
        return "written"

    await space.update(id, cancel)


async def _transact(space: rote.aio.Space, id: str) -> None:
    async with space.transaction() as tx:
        assert await tx.get(id) is None
        await tx.set(id, "written")


async def _run(space: rote.aio.Space, id: str) -> None:
    given: dict[str, Any] = {"workflow_id": "w", "policy_set_id": "p", "model": None}
    async with space.run(mode="buffered_write", **given) as run:
        await run.set(id, "written")


async def _session(space: rote.aio.Space, id: str) -> None:
    async with space.session(watch={"select": {id: {}}}) as session:
        async with session.transaction() as tx:
            assert await tx.get(id) is None
            await tx.set(id, "written")
        assert tx.pending is not None
        await tx.pending.wait()


async def _read(space: rote.aio.Space, id: str) -> None:
    assert await space.get(id) is None
    async for _ in space.scan(limit=50):
        pass


async def _watch(space: rote.aio.Space, id: str) -> None:
    async for _ in space.watch({"select": {id: {}}}, timeout=0.05):
        pass


DOINGS: list[Doing] = [
    _set, _set, _update, _update_held, _transact, _run, _session, _read, _watch,
]  # fmt: skip


@contextmanager
def opening(path: Path, place: str) -> Iterator[dict[str, Any]]:
    """Return how to open a store: in this process, or behind a server."""
    options: dict[str, Any] = {"modes": ["buffered_write"], "traces": path.parent}
    if place == "here":
        yield {"url": path, "durability": "os", **options}
        return
    with rote.open(path, durability="os", **options) as store, serving(store) as server:
        yield {"url": server.url, "token": server.token, **options}


@pytest.mark.parametrize("place", ["here", "served"])
def test_cancelled_at_any_moment_a_store_is_settled_and_nothing_leaks(
    store_path: Path, place: str
) -> None:
    draws = random.Random(4)
    seen: dict[str, object] = {}
    counts = {"cancelled": 0, "written": 0, "cancelled and written": 0}

    async def round(space: rote.aio.Space, number: int) -> None:
        doing, id = draws.choice(DOINGS), f"urn:n:{number}"
        task = asyncio.ensure_future(doing(space, id))
        if draws.random() < 0.5:
            await turns(draws.randrange(40))
        else:
            await asyncio.sleep(draws.random() * 0.004)
        task.cancel()
        await asyncio.wait({task})
        seen[id] = space.sync.get(id)
        counts["cancelled"] += task.cancelled()
        counts["written"] += seen[id] is not None
        counts["cancelled and written"] += task.cancelled() and seen[id] is not None

    async def body(store: rote.aio.Store) -> None:
        space = await store.space("notes")
        for first in range(0, ROUNDS, 4):
            await asyncio.gather(*(round(space, first + each) for each in range(4)))
        commits = [commit async for commit in space.log()]
        assert [commit.version for commit in commits] == list(range(1, len(commits) + 1))

    with opening(store_path, place) as options:
        on_a_store(options.pop("url"), body, **options)
    assert_settled(store_path, seen)
    assert counts["cancelled and written"], counts


class Steps:
    """A coroutine whose task is cancelled when it waits for something the given number of times."""

    def __init__(self, coroutine: Coroutine[Any, Any, object], place: int) -> None:
        self.count = 0
        self._coroutine = coroutine
        self._place = place

    def __await__(self) -> Generator[Any, Any, None]:
        steps, told = self._coroutine.__await__(), None
        task = asyncio.current_task()
        assert task is not None
        while True:
            try:
                waited = steps.send(None) if told is None else steps.throw(told)
            except StopIteration:
                return
            self.count, told = self.count + 1, None
            if self.count == self._place:
                task.cancel()
            try:
                yield waited
            except BaseException as error:
                told = error

    async def walk(self) -> None:
        await self


@pytest.mark.parametrize("place", ["here", "served"])
def test_cancelled_at_each_of_its_steps_a_call_is_settled(store_path: Path, place: str) -> None:
    seen: dict[str, object] = {}

    async def body(store: rote.aio.Store) -> None:
        space = await store.space("notes")
        for number, doing in enumerate(DOINGS):
            for at in range(1, STEPS_MAX):
                id = f"urn:n:{number}:{at}"
                steps = Steps(doing(space, id), at)
                task = asyncio.ensure_future(steps.walk())
                await asyncio.wait({task})
                assert task.cancelled() or task.exception() is None
                seen[id] = space.sync.get(id)
                if steps.count < at:
                    break
            else:
                raise AssertionError(f"{doing.__name__} has more than {STEPS_MAX} steps")

    with opening(store_path, place) as options:
        on_a_store(options.pop("url"), body, **options)
    assert_settled(store_path, seen)


def assert_settled(path: Path, seen: dict[str, object]) -> None:
    """Assert that what a program saw right after each cancellation is what there is."""
    assert open_files(path) == []
    with rote.open(path, recover=False) as store:
        space = store.space("notes")
        assert {id: space.get(id) for id in seen} == seen
        assert all(run.ended_at is not None for run in store.runs())
        assert space.verify().ok

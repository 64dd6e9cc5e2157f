"""Watches for `async for`: frames as they come, no thread while they wait, and an end at once."""

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import rote
import rote.aio
from rote.aio.lookout import Waiter
from rote.aio.threads import Pool, pool_of
from rote.errors import InvalidInput
from rote.space.sources import port_of_store
from tests.unit.aio.stores import SECONDS_MAX, A, on_a_store

ALL: dict[str, Any] = {"select": {"*": {}}}


def test_frames_equal_those_of_the_sync_face(store_path: Path) -> None:
    async def body(store: rote.aio.Store) -> None:
        space = await store.space("notes")
        await space.set(A, 1)
        frames = space.watch(ALL)
        same = space.sync.watch(ALL)
        for number in range(3):
            assert await anext(frames) == next(same)
            await space.set(A, number)
        await frames.aclose()
        assert [frame async for frame in frames] == []

    on_a_store(store_path, body)


def test_a_watch_ends_after_its_timeout_without_a_frame(store_path: Path) -> None:
    async def body(store: rote.aio.Store) -> None:
        space = await store.space("notes")
        await space.set(A, 1)
        assert [frame["to"] async for frame in space.watch(ALL, timeout=0)] == [1]
        begun = time.monotonic()
        assert [frame["to"] async for frame in space.watch(ALL, timeout=0.1)] == [1]
        assert time.monotonic() - begun >= 0.1
        with pytest.raises(InvalidInput):
            await anext(space.watch(ALL, timeout=-1))

    on_a_store(store_path, body)


def test_a_hundred_waiting_watches_hold_no_thread(store_path: Path) -> None:
    async def body(store: rote.aio.Store) -> None:
        space = await store.space("notes")
        watches = [space.watch(ALL) for _ in range(100)]
        await asyncio.gather(*map(anext, watches))
        waiting = [asyncio.ensure_future(anext(watch)) for watch in watches]
        # A call would wait for ever if one of them held the only thread.
        commit = await asyncio.wait_for(space.set(A, 1), SECONDS_MAX)
        frames = await asyncio.wait_for(asyncio.gather(*waiting), SECONDS_MAX)
        assert {frame["to"] for frame in frames} == {commit.version}
        names = [each.name for each in threading.enumerate() if each.name.startswith("rote-")]
        assert sorted(names) == ["rote-aio_0", "rote-lookout"]

    on_a_store(store_path, body, threads=1)


def test_a_watch_that_another_task_ends_wakes_the_one_that_waits(store_path: Path) -> None:
    async def body(store: rote.aio.Store) -> None:
        space = await store.space("notes")
        async with space.session(watch=ALL) as session:
            for watch in (space.watch(ALL), session.watch(ALL)):
                await anext(watch)
                before, waiting = watch._wake, asyncio.create_task(list_of(watch))
                while watch._wake == before:
                    await asyncio.sleep(0)
                await space.version()  # the only thread has looked for it
                await watch.aclose()
                assert await asyncio.wait_for(waiting, SECONDS_MAX) == []

    on_a_store(store_path, body, threads=1)


async def list_of(watch: AsyncIterator[Any]) -> list[Any]:
    return [frame async for frame in watch]


@pytest.mark.parametrize("leaves", ["by break", "by a cancellation"])
def test_leaving_an_async_for_ends_the_watch_within_a_tenth_of_a_second(
    store_path: Path, leaves: str
) -> None:
    async def seconds(space: rote.aio.Space) -> float:
        looking = asyncio.Event()

        async def follow() -> None:
            async for _ in space.watch(ALL):
                looking.set()
                if leaves == "by break":
                    break

        task = asyncio.ensure_future(follow())
        await looking.wait()
        begun = time.monotonic()
        task.cancel()
        await asyncio.wait({task})
        for thread in threading.enumerate():
            if thread.name == "rote-lookout":  # it ends with the last watch
                await asyncio.to_thread(thread.join, SECONDS_MAX)
        return time.monotonic() - begun

    async def body(store: rote.aio.Store) -> None:
        space = await store.space("notes")
        # On a busy machine the best of a few attempts counts.
        assert min([await seconds(space) for _ in range(5)]) < 0.1

    gc.disable()  # no help from the collector
    try:
        on_a_store(store_path, body)
    finally:
        gc.enable()


def test_a_watch_of_a_closed_store_ends_with_its_error(store_path: Path) -> None:
    async def main() -> None:
        store = await rote.aio.open(store_path)
        space = await store.space("notes")
        frames = space.watch(ALL)
        await anext(frames)
        waiting = asyncio.ensure_future(anext(frames))
        await asyncio.sleep(0)
        await store.close()
        with pytest.raises(rote.RoteError):
            await asyncio.wait_for(waiting, SECONDS_MAX)

    asyncio.run(main())


def test_a_watch_that_is_collected_inside_the_lock_of_the_lookout_leaves(store_path: Path) -> None:
    """The collector may run wherever something is allocated, also while the lookout holds its lock."""

    async def body(store: rote.aio.Store) -> None:
        space = await store.space("notes")
        lookout = store._threads.pool.lookout
        watches: list[Any] = [space.watch(ALL)]
        await anext(watches[0])
        watches.append(watches)  # only the collector finds it

        def collect() -> None:
            nonlocal watches
            with lookout._mutex:
                watches = []
                gc.collect()

        collecting = threading.Thread(target=collect, daemon=True)
        looking = next(each for each in threading.enumerate() if each.name == "rote-lookout")
        collecting.start()
        for thread in (collecting, looking):
            await asyncio.to_thread(thread.join, SECONDS_MAX)
            assert not thread.is_alive()

    on_a_store(store_path, body)


def test_a_loop_that_stands_still_holds_up_no_watch_of_another(store_path: Path) -> None:
    with rote.open(store_path) as store, asyncio.Runner() as standing:
        pool_of(port_of_store(store).open_store, Pool(1))
        space = rote.aio.of(store.space("notes"))

        async def wait() -> "asyncio.Task[Any]":
            watch = space.watch(ALL)
            await anext(watch)
            waiting = asyncio.create_task(anext(watch))
            lookout = pool_of(port_of_store(store).open_store).lookout
            while not (isinstance(watch._waiter, Waiter) and watch._waiter.is_listening):
                await asyncio.sleep(0)
            while space.did not in lookout._heads or lookout._queue:
                await asyncio.sleep(0)
            await space.version()  # the only thread has looked for it
            return waiting

        async def follow() -> None:
            async with asyncio.timeout(SECONDS_MAX):
                waiting = await wait()
                commit = await space.set(A, 1)
                assert (await waiting)["to"] == commit.version

        kept = standing.run(wait())  # this loop does not go on before the end
        asyncio.run(follow())
        assert not kept.done()
        asyncio.run(rote.aio.of(store).close())

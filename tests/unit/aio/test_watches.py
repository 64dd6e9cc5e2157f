"""Watches for `async for`: frames as they come, no thread while they wait, and an end at once."""

import asyncio
import gc
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import rote.aio
from rote.errors import InvalidInput
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

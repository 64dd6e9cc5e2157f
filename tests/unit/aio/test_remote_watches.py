"""Asynchronous watches of a store behind a server: frames come over the line, and nobody polls."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import rote
import rote.aio
from rote.errors import Unavailable
from rote.server.serving import Serving
from rote.space import Space
from rote.testing.serving import serving
from tests.breaking import BreakingLine

NOTES: Any = {"select": {"urn:n:*": {}}}
SOON = 30


class Ground:
    """A space, as it is and over a line that breaks."""

    def __init__(self, space: Space, remote: Any, line: BreakingLine, server: Serving) -> None:
        self.space = space
        self.remote = remote
        self.line = line
        self.server = server

    @property
    def heads(self) -> str:
        """The lines of the metrics that count requests for the head."""
        text = self.server.service.metrics.text().decode()
        return "\n".join(line for line in text.splitlines() if 'command="head"' in line)


@asynccontextmanager
async def ground() -> AsyncIterator[Ground]:
    with (
        rote.open(":memory:") as store,
        serving(store, allow_hosts=("127.0.0.1",)) as server,
        BreakingLine(server.url) as line,
    ):
        space = store.space("notes")
        space.set("urn:n:1", 0)
        async with rote.aio.open(line.url, token=server.token) as remote:
            yield Ground(space, remote, line, server)


def run(test: Callable[[Ground], Awaitable[None]]) -> None:
    async def main() -> None:
        async with ground() as found, asyncio.timeout(SOON):
            await test(found)

    asyncio.run(main())


def test_a_waiting_watch_asks_for_nothing() -> None:
    async def test(ground: Ground) -> None:
        watch = (await ground.remote.space("notes")).watch(NOTES)
        await anext(watch)
        before = ground.heads
        for number in range(1, 4):
            waiting = asyncio.ensure_future(anext(watch))
            await asyncio.sleep(0)
            ground.space.set("urn:n:1", number)
            frame = await waiting
            assert frame["upserts"][0]["value"] == number
        assert ground.heads == before
        await watch.aclose()

    run(test)


def test_a_line_that_breaks_while_something_is_written_is_mended() -> None:
    """The watch looked while the line was down for a moment, and ended with Unavailable."""

    async def test(ground: Ground) -> None:
        watch = (await ground.remote.space("notes")).watch(NOTES, timeout=SOON)
        await anext(watch)
        for number in range(1, 6):
            waiting = asyncio.ensure_future(anext(watch))
            await asyncio.sleep(0)
            ground.line.cut()
            ground.space.set("urn:n:1", number)
            frame = await waiting
            assert frame["upserts"][0]["value"] == number
        await watch.aclose()

    run(test)


def test_a_line_that_stays_down_past_the_time_is_unavailable() -> None:
    async def test(ground: Ground) -> None:
        watch = (await ground.remote.space("notes")).watch(NOTES, timeout=0.3)
        await anext(watch)
        ground.line.go_down()
        with pytest.raises(Unavailable):
            await anext(watch)

    run(test)


def test_a_watch_without_news_ends_after_its_time() -> None:
    async def test(ground: Ground) -> None:
        space = await ground.remote.space("notes")
        frames = [frame async for frame in space.watch(NOTES, timeout=0.2)]
        assert [frame["to"] for frame in frames] == [1]

    run(test)


@pytest.mark.parametrize("end", ["erase", "close"])
def test_an_end_wakes_a_waiting_watch(end: str) -> None:
    async def test(ground: Ground) -> None:
        watch = (await ground.remote.space("notes")).watch(NOTES)
        await anext(watch)
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        if end == "erase":
            ground.server.service.store.erase_space("notes", reason="asked to", confirm="notes")
        else:
            await ground.remote.close()
        with pytest.raises(rote.errors.RoteError):
            await waiting

    run(test)

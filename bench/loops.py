"""The cost of the async face, against the sync call on a thread of asyncio."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import count
from typing import Any

import rote
import rote.aio
from bench.harness import Benchmark, Effort, Measure, Result, compare_rates, timed

TASKS = 16
Write = Callable[[str, int], Coroutine[Any, Any, object]]


def writes(effort: Effort) -> Result:
    """Measure awaited sets of 16 tasks against asyncio.to_thread of the same sets."""
    sets = effort.count(1_600, 32)
    numbers = count()

    def turn(*, is_face: bool) -> Measure:
        with rote.open(effort.folder / "loops.db", durability="os") as store:
            space = store.space("bench")
            face = rote.aio.of(space)

            async def on_a_thread(id: str, value: int) -> object:
                return await asyncio.to_thread(space.set, id, value)

            write: Write = face.set if is_face else on_a_thread
            measure = timed(sets, lambda: asyncio.run(_write(write, sets, next(numbers))))
            asyncio.run(rote.aio.of(store).close())
            return measure

    return compare_rates(effort, partial(turn, is_face=False), partial(turn, is_face=True))


async def _write(write: Write, sets: int, turn: int) -> None:
    async def write_some(task: int) -> None:
        for number in range(sets // TASKS):
            await write(f"urn:n:{turn}:{task}:{number}", number)

    await asyncio.gather(*map(write_some, range(TASKS)))


BENCHMARKS = [
    Benchmark(
        "aio/set",
        "a set awaited by rote.aio against asyncio.to_thread of space.set, 16 tasks, os",
        floor=0.7,
        aim=1.1,
        run=writes,
    ),
]

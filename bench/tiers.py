"""The cost of the host's door, and of a frame that is nearly full."""

from functools import partial
from typing import Any

import rote
from bench.harness import Benchmark, Effort, Measure, Result, compare_times, timed
from rote.values.tier_limits import FRAME_BYTES_MAX

MEMBERS = 1_000


def frame_set(effort: Effort) -> Result:
    """Measure sets of small values in a frame of nearly its largest size against an empty one."""
    sets = effort.count(10_000, 50)
    pad = "x" * (FRAME_BYTES_MAX // MEMBERS - 24)
    full = {f"member-{number:04}": pad for number in range(MEMBERS)}

    def turn(values: dict[str, Any]) -> Measure:
        frame = rote.Host("minimal").scope(frame=values).frame
        return timed(sets, lambda: [frame.set("run.step", number) for number in range(sets)])

    return compare_times(effort, partial(turn, {}), partial(turn, full))


def frame_get(effort: Effort) -> Result:
    """Measure gets in such frames."""
    gets = effort.count(10_000, 50)
    pad = "x" * (FRAME_BYTES_MAX // MEMBERS - 24)
    full = {f"member-{number:04}": pad for number in range(MEMBERS)}

    def turn(values: dict[str, Any]) -> Measure:
        frame = rote.Host("minimal").scope(frame={**values, "run": {"step": 1}}).frame
        return timed(gets, lambda: [frame.get("run.step") for _ in range(gets)])

    return compare_times(effort, partial(turn, {}), partial(turn, full))


def door(effort: Effort) -> Result:
    """Measure memory.get through a host against the memory's own get."""
    calls = effort.count(10_000, 50)
    with rote.open(":memory:") as store:
        host = rote.Host("compute-and-store", store=store, space="bench")
        memory = rote.Memory(store.space("bench"))
        memory.put("ops", "k", "i", {"text": "x" * 200, "numbers": list(range(20))})

        def bare() -> Measure:
            return timed(calls, lambda: [memory.get("ops", "k", "i") for _ in range(calls)])

        def called() -> Measure:
            args = ["ops", "k", "i"]
            return timed(calls, lambda: [host.call("memory", "get", args) for _ in range(calls)])

        return compare_times(effort, bare, called)


BENCHMARKS = [
    Benchmark("tier/frame-set", "frame.set in 1 MiB vs in nothing", 1.5, 1.1, frame_set, "at most"),
    Benchmark("tier/frame-get", "frame.get in 1 MiB vs in nothing", 1.5, 1.1, frame_get, "at most"),
    Benchmark("tier/door", "host.call vs the memory by itself", 3, 1.8, door, "at most"),
]

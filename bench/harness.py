"""Measuring: both sides take turns in one process and are compared by their medians.

A machine is never quiet, so no figure means anything alone. The raw side and Rote take turns (A B
A B ...), the first turn of each is dropped, and a row is the ratio of the two medians. Before each
turn all existing objects are hidden from the garbage collector. So a side pays for collecting its
own objects, and not for those that the other side left behind.
"""

import gc
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Literal

Direction = Literal["at least", "at most"]
Turn = Callable[[], "Measure"]


@dataclass(frozen=True, slots=True)
class Measure:
    """One turn of one side."""

    count: int  # operations
    seconds: float

    @property
    def rate(self) -> float:
        return self.count / self.seconds

    @property
    def micros(self) -> float:
        """Return the microseconds of one operation."""
        return self.seconds / self.count * 1_000_000


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a benchmark."""

    raw: float  # the value of the raw side
    rote: float
    unit: str  # of both values
    ratio: float
    low: float  # the lowest and the highest ratio of one round
    high: float
    decimals: int = 0  # of both values, as they are shown


@dataclass(frozen=True, slots=True)
class Effort:
    """The amount of work of a run, and its folder."""

    folder: Path  # empty, for the files of one benchmark
    rounds: int  # counted rounds; one more round warms up
    quick: bool = False  # does just enough to show that everything works
    report: Callable[[str, int], None] = field(default=lambda doing, left: None)

    def count(self, full: int, quick: int) -> int:
        return quick if self.quick else full


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One row of the table, with its floor and its aim."""

    name: str  # group/what, for ONLY
    operation: str
    floor: float  # must hold
    aim: float  # the next goal
    run: Callable[[Effort], Result]
    direction: Direction = "at least"


@dataclass(frozen=True, slots=True)
class Row:
    """A benchmark with its result."""

    benchmark: Benchmark
    result: Result

    @property
    def ok(self) -> bool:
        """Whether the floor holds."""
        if self.benchmark.direction == "at least":
            return self.result.ratio >= self.benchmark.floor
        return self.result.ratio <= self.benchmark.floor


def timed(
    count: int, work: Callable[[], object], *, clock: Callable[[], float] = perf_counter
) -> Measure:
    """Measure one turn, in which `work` does `count` operations."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    start = clock()
    work()
    return Measure(count, clock() - start)


def interleave(effort: Effort, raw: Turn, rote: Turn) -> tuple[list[Measure], list[Measure]]:
    """Return the turns of both sides, without the first turn of each."""
    turns: list[tuple[Measure, Measure]] = []
    for done in range(effort.rounds + 1):
        effort.report("warming up" if done == 0 else "measuring", effort.rounds - done)
        turns.append((raw(), rote()))
    return [turn[0] for turn in turns[1:]], [turn[1] for turn in turns[1:]]


def compare_rates(effort: Effort, raw: Turn, rote: Turn) -> Result:
    """Compare operations a second, Rote over raw: more is better."""
    sides = interleave(effort, raw, rote)
    raws, rotes = ([measure.rate for measure in side] for side in sides)
    return compared(raws, rotes, "/s")


def compare_times(effort: Effort, small: Turn, large: Turn) -> Result:
    """Compare the time of one operation, in a large setting over a small one: less is better."""
    sides = interleave(effort, small, large)
    smalls, larges = ([measure.micros for measure in side] for side in sides)
    return compared(smalls, larges, "us")


def compared(raw: list[float], rote: list[float], unit: str) -> Result:
    ratios = [b / a for a, b in zip(raw, rote, strict=True)]
    raw_median, rote_median = median(raw), median(rote)
    return Result(raw_median, rote_median, unit, rote_median / raw_median, min(ratios), max(ratios))

"""The benchmarks run and report. Their results are for `make bench`, never for a test."""

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from bench.__main__ import BENCHMARKS
from bench.harness import Benchmark, Direction, Effort, Measure, Result, Row, compare_rates, timed

ROOT = Path(__file__).resolve().parents[2]


def run_bench(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_quick_run_of_one_group_prints_its_rows_for_programs() -> None:
    process = run_bench("read", "--quick", "--json")
    # 1 says that a floor was missed, as it may be in a run as short as this one.
    assert process.returncode in (0, 1), process.stderr
    report = orjson.loads(process.stdout)
    assert report.keys() == {"python", "sqlite", "rounds", "quick", "ok", "rows"}
    assert report["quick"] is True
    assert [row["name"] for row in report["rows"]] == ["read/cold", "read/warm", "read/pinned"]
    assert report["ok"] == all(row["ok"] for row in report["rows"])
    assert process.returncode == (0 if report["ok"] else 1)
    for row in report["rows"]:
        assert row["ratio_low"] <= row["ratio_high"]
        assert min(row["raw"], row["rote"], row["ratio"], row["floor"], row["aim"]) > 0
        assert row["direction"] in ("at least", "at most")


def test_a_name_that_nothing_has_is_refused_with_the_names_there_are() -> None:
    process = run_bench("nothing-like-this")
    assert process.returncode == 2
    assert "read/cold" in process.stderr


def test_names_are_unique_and_every_aim_is_beyond_its_floor() -> None:
    assert len({benchmark.name for benchmark in BENCHMARKS}) == len(BENCHMARKS)
    for benchmark in BENCHMARKS:
        if benchmark.direction == "at least":
            assert benchmark.aim > benchmark.floor
        else:
            assert benchmark.aim < benchmark.floor


def test_sides_take_turns_and_the_first_turn_of_each_is_dropped(tmp_path: Path) -> None:
    turns: list[str] = []

    def side(name: str, seconds: list[float]) -> Measure:
        turns.append(name)
        return Measure(100, seconds.pop(0))

    raw, rote = [9.0, 1.0, 2.0, 4.0], [90.0, 4.0, 4.0, 4.0]
    result = compare_rates(
        Effort(tmp_path, rounds=3), lambda: side("raw", raw), lambda: side("rote", rote)
    )
    assert turns == ["raw", "rote"] * 4
    assert (result.raw, result.rote) == (50, 25)
    assert (result.ratio, result.low, result.high) == (0.5, 0.25, 1.0)


def test_a_turn_does_its_work_once(tmp_path: Path) -> None:
    done: list[int] = []
    assert timed(7, lambda: done.append(1)).count == 7
    assert done == [1]


@pytest.mark.parametrize(
    ("direction", "ratio", "ok"),
    [
        ("at least", 0.5, True),
        ("at least", 0.4, False),
        ("at most", 0.5, True),
        ("at most", 0.6, False),
    ],
)
def test_a_floor_holds_on_its_own_side(direction: Direction, ratio: float, ok: bool) -> None:
    result = Result(1, ratio, "/s", ratio, ratio, ratio)
    benchmark = Benchmark("x/y", "something", 0.5, 1, lambda effort: result, direction)
    assert Row(benchmark, result).ok is ok

"""Random programs with calls side by side are replayed in another process as they were recorded."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import rote
from rote.testing.clocks import FixedClock
from rote.values import decode
from tests.lanes import SLOW, examples
from tests.unit.runs.programs import ERRORS, begin, play, program_of, told

ROOT = Path(__file__).parents[3]
PROGRAMS = examples(30, 200)


def test_programs_are_replayed_elsewhere_as_they_were_recorded(tmp_path: Path) -> None:
    seed = time.time_ns() if SLOW else 0
    url = str(tmp_path / "memory.db")
    recorded = []
    with rote.open(url, clock=FixedClock(), modes=["buffered_write"], durability="os") as store:
        for number in range(PROGRAMS):
            program = program_of(number, seed)
            with begin(store, record=tmp_path / f"{number}.jsonl") as run:
                play(run, program, live=True)
            recorded.append(told(run))
            asked = [call.args for step in program for call in step.calls]
            lines = (tmp_path / f"{number}.jsonl").read_bytes().splitlines()[1:-1]
            assert [decode(line)["args"] for line in lines] == asked, f"seed {seed}"
    replayed = replays(url, tmp_path, seed)
    assert len(replayed) == PROGRAMS
    for number, (left, right) in enumerate(zip(recorded, replayed, strict=True)):
        where = f"program {number} of seed {seed}"
        report = rote.compare_traces(left["trace"], right["trace"])
        assert (report.status, report.failures) == ("equivalent", ()), where
        assert left["payload_fingerprint"] == right["payload_fingerprint"], where


def replays(url: str, folder: Path, seed: int) -> list[dict[str, Any]]:
    """Return what the replays of all programs told, in a process of their own."""
    command = ["-m", "tests.unit.runs.programs", url, str(folder), str(PROGRAMS), str(seed)]
    ended = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True, timeout=300, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr.decode()) == (0, ""), f"seed {seed}"
    return [decode(line) for line in ended.stdout.splitlines()]


def test_the_programs_have_everything_that_calls_can_do() -> None:
    steps = [step for number in range(PROGRAMS) for step in program_of(number, 0)]
    calls = [call for step in steps for call in step.calls]
    assert {len(step.calls) for step in steps} == set(range(1, 9))
    assert sum(step.endings != tuple(range(len(step.calls))) for step in steps) > len(steps) / 2
    assert {step.is_alone for step in steps} == {step.return_exceptions for step in steps}
    assert {type(call.reply) for call in calls} == {dict, rote.Effects, *ERRORS}

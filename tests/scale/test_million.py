"""A space with a million commits: it opens at once, reads any version in bounded work, and verifies
in steady memory.

The quick lane runs the same on a few thousand, without the bound on the time of opening.
"""

import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from random import Random

import pytest

import rote
from rote.values import decode
from rote.values.limits import MIB
from tests.lanes import SLOW, examples
from tests.scale.measurements import ENTITIES, NAME, Work, build, entity

ROOT = Path(__file__).parents[2]
COMMITS = examples(4_000, 1_000_000)
COMMITS_SMALL = 400
OPEN_SECONDS_MAX = 0.2
GROWTH_BYTES_MAX = 32 * MIB


def measure(what: str, path: Path) -> dict[str, float]:
    argv = [sys.executable, "-m", "tests.scale.measurements", what, str(path)]
    output = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True).stdout
    figures: dict[str, float] = decode(output)
    return figures


def report(capsys: pytest.CaptureFixture[str], words: str) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n    {COMMITS:,} commits: {words}\n")


# One test, because tests are spread over processes, each of which would make the store anew.
def test_a_long_log_opens_at_once_reads_any_version_and_verifies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    large, small = tmp_path / "large.db", tmp_path / "small.db"
    build(large, COMMITS)
    build(small, COMMITS_SMALL)
    opens_at_once(large, capsys)
    for name in READS:
        reads_in_bounded_work(large, small, capsys, name)
    verifies_in_steady_memory(large, capsys)
    large.unlink()


def opens_at_once(large: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = [measure("open", large) for _ in range(3)]
    best = min(figures, key=lambda each: each["open_seconds"])
    report(capsys, f"open {best['open_seconds']:.4f} s, first read {best['read_seconds']:.4f} s")
    assert best["version"] >= COMMITS
    assert best["open_seconds"] < OPEN_SECONDS_MAX or not SLOW


# One read of a random version, in each of the possible ways.
READS: dict[str, Callable[[rote.Space, int, datetime, str], object]] = {
    "get": lambda space, version, at, id: space.at(version).get(id),
    "read": lambda space, version, at, id: space.at(version).read(id),
    "get by time": lambda space, version, at, id: space.at(at).get(id),
    "history": lambda space, version, at, id: space.at(version).history(id, limit=5),
    "log": lambda space, version, at, id: list(space.log(since=version - 1, limit=5)),
    "scan": lambda space, version, at, id: list(space.scan(id, limit=5)),
    "scan of a version": lambda space, version, at, id: list(space.at(version).scan(id, limit=5)),
}


def steps_of(path: Path, name: str) -> float:
    """Return the most steps that one read takes SQLite, over random versions."""
    random, most = Random(name), 0
    with Work() as work, rote.open(path, create=False) as store:
        space = store.space(NAME)
        newest = space.version
        for _ in range(examples(20, 300)):
            version = random.randrange(1, newest + 1)
            (commit,) = space.log(since=version - 1, limit=1)
            at = datetime.fromisoformat(commit.at)
            before = work.steps
            READS[name](space, version, at, entity(random.randrange(ENTITIES)))
            most = max(most, work.steps - before)
    return most


def reads_in_bounded_work(
    large: Path, small: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    few, many = steps_of(small, name), steps_of(large, name)
    if SLOW:
        report(capsys, f"{name}: at most {many:,} steps, {few:,} with {COMMITS_SMALL:,} commits")
    assert few > 0, name
    # Bisecting the log takes steps by its logarithm; nothing else takes more for a longer log.
    assert many <= 3 * few, name


def verifies_in_steady_memory(large: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = measure("verify", large)
    growth = figures["most_bytes"] - figures["early_bytes"]
    report(
        capsys,
        f"verify {figures['seconds']:.1f} s, {figures['commits'] / figures['seconds']:,.0f}/s,"
        f" {figures['most_bytes'] / MIB:.0f} MiB held, {growth / MIB:.1f} MiB more than early on",
    )
    assert figures["ok"]
    assert figures["commits"] >= COMMITS
    assert growth < GROWTH_BYTES_MAX

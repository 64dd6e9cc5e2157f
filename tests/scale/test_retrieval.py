"""A large JSONL store is read in memory that is bounded by its size, whatever is dropped."""

import subprocess
import sys
from pathlib import Path

import rote
from bench.jsonl import request, write_store
from bench.memories import Memories
from tests.lanes import examples

ROOT = Path(__file__).resolve().parents[2]
RECORDS = examples(20_000, 1_000_000)
TIMES_MAX = 3


def test_a_cold_read_takes_at_most_three_times_the_file(tmp_path: Path) -> None:
    """The request asks for the full list of the dropped, in a process of its own."""
    path = tmp_path / "store.jsonl"
    write_store(path, RECORDS)
    told = subprocess.run(
        [sys.executable, "-m", "bench.jsonl", str(path)], cwd=ROOT, capture_output=True, check=True
    )
    assert 0 < int(told.stdout) <= TIMES_MAX * path.stat().st_size
    asked = request(path, Memories(3).question())
    package = rote.retrieve(asked, root=tmp_path, dropped="counts")
    selected = len(package["selection"]["selected"])
    assert package["selection"]["dropped_counts"] == {"budget_exhausted": RECORDS - selected}

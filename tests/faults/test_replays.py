"""A run that was recorded is replayed in other processes, with other hash seeds and time zones, a day
later by the clock, after others have written: it does the same, to the byte."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.testing.postgres import database_url
from rote.values import decode_canonical
from tests.faults.children import NAME
from tests.lanes import examples

ROOT = Path(__file__).parents[2]
ZONES = ("UTC", "Asia/Kathmandu", "America/St_Johns", "Pacific/Kiritimati")
DAY = 86_400


def run_child(what: str, url: str, recording: Path, number: int) -> Any:
    environment = {
        **os.environ,
        "PYTHONHASHSEED": str(number),
        "TZ": ZONES[number % len(ZONES)],
    }
    argv = [sys.executable, "-m", "tests.faults.replay_children", what, url, str(recording)]
    done = subprocess.run(
        [*argv, str(DAY * number)], cwd=ROOT, env=environment, capture_output=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return decode_canonical(done.stdout)


@pytest.mark.parametrize("place", ["sqlite", "postgres"])
def test_a_replay_in_another_process_does_the_same(place: str, tmp_path: Path) -> None:
    url = str(tmp_path / "memory.db") if place == "sqlite" else database_url(tmp_path)
    recording = tmp_path / "run.jsonl"
    with rote.open(url) as store:
        memory = rote.Memory(store.space(NAME))
        for number in range(5):
            ttl = 3_600 if number % 2 else None  # what has expired by the clock has not for the run
            memory.put("ops", "fact", f"{number}", {"text": f"vault {number} keys"}, ttl)
        first = run_child("record", url, recording, 0)
        for number in range(1, examples(1, 50) + 1):
            memory.put("ops", "fact", "0", {"text": f"others write, the {number}th time"})
            again = run_child("replay", url, recording, number)
            assert again["packages"] == first["packages"]
            assert again["payload_fingerprint"] == first["payload_fingerprint"]
            report = rote.compare_traces(
                first["trace"], again["trace"],
                left_retrieval=first["retrieval_trace"], right_retrieval=again["retrieval_trace"],
            )  # fmt: skip
            assert report.status == "equivalent", report.failures
        assert store.space(NAME).verify().ok

"""kill -9 of a host with a cache file: every call that returned is there, whole, and the file opens."""

import sys
from pathlib import Path
from random import Random
from typing import Any

import rote
from rote.testing.faults import ChildProcess
from tests.faults.cache_children import KEYS, value_of
from tests.lanes import examples

ROOT = Path(__file__).parents[2]
KILLS = examples(6, 300)


def test_what_a_returned_call_has_set_is_there_after_a_kill(tmp_path: Path) -> None:
    path, random = tmp_path / "warm.cache", Random(22)
    said: dict[int, Any] = {}  # by key, what the last call that returned has left
    number = 0
    for _ in range(KILLS):
        argv = [sys.executable, "-m", "tests.faults.cache_children", str(path), str(number)]
        with ChildProcess(argv, cwd=ROOT, timeout_seconds=300) as child:
            child.read_until(3)
            child.read_for(random.random() * 0.02)
            lines = child.kill()
        for line in lines:
            number = int(line)
            said[number % KEYS] = None if number % 11 == 0 else value_of(number)
        number += 1
        # The call under way may have happened, whole, or not.
        under_way = {number % KEYS: None if number % 11 == 0 else value_of(number)}
        with rote.Host("compute-and-store", cache={"path": str(path)}) as host:
            for key in range(KEYS):
                found = host.cache.get("n", str(key))["value"]
                assert found in (said.get(key), under_way.get(key, said.get(key)))
                said[key] = found
    assert path.stat().st_size < 50_000

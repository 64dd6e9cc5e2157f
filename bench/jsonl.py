"""The cost of retrieval from JSONL files: against decoding, against the first time, in memory."""

import subprocess
import sys
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

import rote
from bench.harness import (
    Benchmark,
    Effort,
    Measure,
    Result,
    compare_rates,
    compare_times,
    compared,
    timed,
)
from bench.memories import Memories
from rote.retrieval.cache import CORPORA
from rote.values import format_time

RECORDS, WORDS = 100_000, 55
# Questions after which all words are listed.
WARM_UP = 30


def write_store(path: Path, records: int) -> None:
    """Write a log of memories of about 500 bytes, in the order of their times."""
    with path.open("wb") as file:
        for memory in Memories(words=WORDS).memories(records):
            record = {
                "memory_id": memory.id,
                "text": memory.text,
                "ts_utc": format_time(memory.at),
                "tags": memory.tags,
                "refs": [],
            }
            file.write(orjson.dumps(record) + b"\n")


def request(path: Path, query: str) -> dict[str, Any]:
    return {
        "query": query,
        "store_paths": [path.name],
        "budget": {"max_excerpt_tokens": 1_000},
    }


class _Store:
    """A file, and the ways to read it."""

    def __init__(self, effort: Effort, name: str = "store.jsonl") -> None:
        self.records = effort.count(RECORDS, 500)
        self._path = effort.folder / name
        self._questions = Memories(2)
        write_store(self._path, self.records)

    def decode(self) -> Measure:
        return timed(self.records, self._decode)

    def _decode(self) -> None:
        with self._path.open("rb") as file:
            for line in file:
                orjson.loads(line)
                sha256(line).digest()

    def first(self) -> Measure:
        place = (str(self._path), self._path.name)
        CORPORA.forget(lambda other: other == place)  # as in a new process
        return self.again()

    def again(self) -> Measure:
        asked = request(self._path, self._questions.question())
        ask = partial(rote.retrieve, asked, root=self._path.parent, dropped="counts")
        return timed(self.records, ask)


def cold(effort: Effort) -> Result:
    """Compare the first read with decoding and hashing every line."""
    store = _Store(effort)
    return compare_times(effort, store.decode, store.first)


def second(effort: Effort) -> Result:
    """Compare the second question to an unchanged store with the first."""
    store = _Store(effort)
    return compare_rates(effort, store.first, store.again)


def repeat(effort: Effort) -> Result:
    """Compare a question to an unchanged store, after many others, with the first to another."""
    store, known = _Store(effort), _Store(effort, "known.jsonl")
    for left in reversed(range(effort.count(WARM_UP, 2))):
        effort.report("warming up", left)
        known.again()
    return compare_rates(effort, store.first, known.again)


def memory(effort: Effort) -> Result:
    """Compare the peak memory of a first read that lists all dropped records with its file."""
    path = effort.folder / "store.jsonl"
    write_store(path, effort.count(RECORDS, 5_000))
    told = subprocess.run(
        [sys.executable, "-m", "bench.jsonl", str(path)],
        cwd=Path(__file__).parents[1], capture_output=True, check=True,
    )  # fmt: skip
    return compared([path.stat().st_size / 1_000], [int(told.stdout) / 1_000], "kB")


def measure_peak(path: Path) -> int:
    """Return the bytes by which this process grows at most; run it in a process of its own."""

    small, questions = path.with_name("small.jsonl"), Memories(2)
    write_store(small, 1)
    rote.retrieve(request(small, questions.question()), root=path.parent)
    before = _peak_bytes()
    rote.retrieve(request(path, questions.question()), root=path.parent)
    return _peak_bytes() - before


def _peak_bytes() -> int:
    """Return the peak memory of this process; getrusage would begin with that of its parent."""
    fields = Path("/proc/self/status").read_text().splitlines()
    (line,) = [field for field in fields if field.startswith("VmHWM:")]
    return int(line.split()[1]) * 1_024


BENCHMARKS = [
    Benchmark("retrieve/cold", "first read of 100,000 JSON lines against decoding and hashing them",
              3, 1.5, cold, "at most"),
    Benchmark("retrieve/second", "a second question to 100,000 JSON lines against the first", 1.3, 5,
              second),
    Benchmark("retrieve/repeat", "a repeated question to 100,000 JSON lines against the first", 5, 20,
              repeat),
    Benchmark("retrieve/memory", "memory of a first read of 100,000 JSON lines against their bytes",
              2, 1.5, memory, "at most"),
]  # fmt: skip

if __name__ == "__main__":
    sys.stdout.write(str(measure_peak(Path(sys.argv[1]))))

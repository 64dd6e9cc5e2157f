"""Measurements in a process of their own: `python -m tests.scale.measurements <what> <path>`.

Each prints one JSON object. A fresh process has a fresh memory and nothing in its caches.
"""

import gc
import sys
import time
from pathlib import Path

import apsw

import rote

NAME = "agent"
ENTITIES = 100


def entity(number: int) -> str:
    return f"urn:entity:{number % ENTITIES}"


def build(path: Path, commits: int) -> None:
    """Make so many real commits, one after the other: sets, patches, deletions and keys."""
    with rote.open(path, durability="os") as store:
        space = store.space(NAME)
        for number in range(commits):
            key = f"key-{number}" if number % 10 == 0 else None
            if number % 4 == 3 and number >= ENTITIES:
                ops = [{"op": "replace", "path": "/number", "value": number}]
                space.patch(entity(number), ops, key=key)
            elif number % 500 == 499 and number >= ENTITIES:
                space.delete(entity(number - 1))
                space.set(entity(number - 1), {"number": number, "text": "back"}, key=key)
            else:
                space.set(entity(number), {"number": number, "text": "x" * 60}, key=key)


def resident_bytes() -> int:
    """Return the memory this process holds now."""
    fields = Path("/proc/self/status").read_text().splitlines()
    (line,) = [field for field in fields if field.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def measure_open(path: str) -> dict[str, float]:
    """Return the seconds until the first answer, and until the first answer from the middle."""
    start = time.perf_counter()
    with rote.open(path, create=False) as store:
        space = store.space(NAME)
        version = space.version
        opened = time.perf_counter()
        space.at(version // 2).get(entity(1))
        read = time.perf_counter()
    return {"open_seconds": opened - start, "read_seconds": read - opened, "version": version}


def measure_verify(path: str) -> dict[str, float]:
    """Return the time that verify takes, and its memory after a tenth of its way and at the end."""
    held: list[int] = []

    def sample(done: int, total: int) -> None:
        gc.collect(0)
        if done * 10 >= total * (len(held) + 1):
            held.append(resident_bytes())

    start = time.perf_counter()
    with rote.open(path, create=False) as store:
        report = store.space(NAME).verify(progress=sample)
        held.append(resident_bytes())
    seconds = time.perf_counter() - start
    return {
        "ok": report.ok,
        "commits": report.commits,
        "seconds": seconds,
        "early_bytes": held[0],
        "most_bytes": max(held),
    }


class Work:
    """Counts the work of SQLite: the statements, and the steps of its virtual machine."""

    def __init__(self) -> None:
        self.statements = 0
        self.steps = 0

    def __enter__(self) -> "Work":
        apsw.connection_hooks.append(self._watch)
        return self

    def __exit__(self, *_: object) -> None:
        apsw.connection_hooks.remove(self._watch)

    def _watch(self, connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._count)

    def _count(self, event: dict[str, object]) -> None:
        status = event["stmt_status"]
        assert isinstance(status, dict)
        self.statements += 1
        self.steps += status["SQLITE_STMTSTATUS_VM_STEP"]


if __name__ == "__main__":
    measure = {"open": measure_open, "verify": measure_verify}[sys.argv[1]]
    sys.stdout.buffer.write(rote.canonical(measure(sys.argv[2])))

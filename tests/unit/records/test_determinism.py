"""One list of calls with one clock gives one history: in any process, on every engine."""

import os
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from rote.bridges import write_export
from rote.engines import Engine
from rote.engines.sqlite import SqliteEngine
from rote.opening.keys import MemoryKeys
from rote.records.memory import Memory
from rote.testing import StoreSettings, open_on
from rote.testing.clocks import SteppingClock
from rote.testing.postgres import postgres_engine
from rote.values import canonical, sha256_hex

ROOT = Path(__file__).parents[3]
SETTINGS = {"default_ttl_by_namespace": {"session": 3600}}
META = {"tags": ["b", "a", "b"], "source": "x", "valid_at": "2026-01-01T14:00:00+02:00"}
CALLS: list[tuple[str, list[Any]]] = [
    ("put", ["ops", "k", "2", {"x": 1.0, "ü": ["\U0001f600"]}, None, META]),
    ("put", ["ops", "k", "1", {"_metadata": {"tags": ["a"]}}, 60]),
    ("append", ["daily_log", "note", "2026-01-01", {"text": "one"}]),
    ("append", ["daily_log", "note", "2026-01-01", {"text": "two"}, 60, META]),
    ("put", ["session", "turn", "a b", {}]),
    ("touch", ["ops", "k", "2"]),
    ("list", ["ops"]),
    ("list", ["ops", "k", "", None, {"tags_any": ["b", "a"], "limit": 1}]),
    ("list", ["ops", None, None, "2026-01-01T12:00:00Z", {"valid_at_before": "2026-01-01T12:00:00Z"}]),
    ("delete", ["ops", "k", "1"]),
    ("put", ["ops", "k", "1", {}, 1]),
    ("get", ["daily_log", "note", "2026-01-01"]),
    ("stats", []),
    ("retention_report", []),
    ("prune", []),
    ("capabilities", []),
]  # fmt: skip


def tell(engine: Engine) -> str:
    """Return a digest of every result, of the export and of the head."""
    settings = StoreSettings(clock=SteppingClock(), seed=bytes(32))
    with open_on(engine, settings, keys=MemoryKeys()) as store:
        space = store.space("story")
        memory = Memory(space, **SETTINGS)  # type: ignore[arg-type]
        results = [memory.call(verb, arguments) for verb, arguments in CALLS]
        export = BytesIO()
        write_export(memory, export)
        assert export.getvalue().count(b"\n") == 4
        told = [results, export.getvalue().decode(), space.did, space.head]
    return sha256_hex(canonical(told))


@pytest.fixture(scope="module")
def told_here() -> str:
    return tell(SqliteEngine(None))


def test_every_engine_tells_the_same(told_here: str, tmp_path: Path) -> None:
    engines: list[Callable[[], Engine]] = [
        lambda: SqliteEngine(tmp_path / "memory.db", durability="os"),
        lambda: postgres_engine(tmp_path),
    ]
    assert [tell(make()) for make in engines] == [told_here] * 2


@pytest.mark.parametrize(
    ("hash_seed", "zone"), [("0", "UTC"), ("1", "Asia/Kathmandu"), ("4242", "America/St_Johns")]
)
def test_every_process_tells_the_same(told_here: str, hash_seed: str, zone: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.unit.records.test_determinism"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "TZ": zone},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, told_here, "")


if __name__ == "__main__":
    sys.stdout.write(tell(SqliteEngine(None)))

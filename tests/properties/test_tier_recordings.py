"""Random workflows are recorded here and replayed in another process, without store, files or tables."""

import hashlib
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import orjson

import rote
from tests.lanes import SLOW, examples
from tests.properties.tier_workflows import PROFILE, REDACTED, Workflow, has_tables, secret_of

ROOT = Path(__file__).parents[2]
WORKFLOWS = examples(40, 500)
FIRST = 0 if not SLOW else 10_000


def test_a_replay_elsewhere_has_the_same_results_and_errors(tmp_path: Path) -> None:
    recordings, elsewhere = tmp_path / "recordings", tmp_path / "elsewhere"
    recordings.mkdir()
    elsewhere.mkdir()
    seeds = range(FIRST, FIRST + WORKFLOWS)
    outcomes = {seed: record(seed, tmp_path) for seed in seeds}
    replay = [sys.executable, "-m", "tests.properties.tier_workflows", str(recordings)]
    environment = {"PYTHONPATH": str(ROOT), "HOME": str(elsewhere), "PATH": ""}
    subprocess.run(
        [*replay, str(seeds.start), str(seeds.stop)], cwd=elsewhere, env=environment, check=True
    )
    assert list(elsewhere.iterdir()) == []
    told = orjson.loads((recordings / "replayed.json").read_bytes())
    reached = set()
    for seed, expected in outcomes.items():
        data = (recordings / f"{seed}.jsonl").read_bytes()
        assert secret_of(seed).encode() not in data
        assert secret_of(seed) not in str(told[str(seed)])
        assert same(expected, told[str(seed)], salt_in(data))
        reached |= {line["name"] for line in map(orjson.loads, data.splitlines()) if "name" in line}
    assert len(reached) > 20


def record(seed: int, folder: Path) -> list[Any]:
    sandbox = folder / "sandboxes" / str(seed)
    sandbox.mkdir(parents=True)
    with rote.open(":memory:") as store:
        host = rote.Host(
            PROFILE,
            store=store,
            sqlite=tables(folder, seed) if has_tables(seed) else None,
            fs={"sandbox_root": str(sandbox), "allow_delete": True},
            redact=REDACTED,
        )
        with host, host.record(folder / "recordings" / f"{seed}.jsonl"):
            return Workflow(seed).run(host)


def tables(folder: Path, seed: int) -> dict[str, Any]:
    path = folder / f"{seed}.db"
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("create table users (n, password); create table hidden (n)")
    return {"path": str(path), "allow_tables": ["users"], "allow_write": True}


def salt_in(data: bytes) -> bytes:
    _, mark, rest = data.partition(b'"$redacted":"')
    return bytes.fromhex(rest[:32].decode()) if mark else b""


def same(live: Any, replayed: Any, salt: bytes) -> bool:
    """Return whether a replayed outcome is the live one, with marks in the places of redacted values."""
    if isinstance(replayed, dict) and set(replayed) == {"$redacted"}:
        digest = hashlib.sha256(salt + rote.canonical(live)).hexdigest()
        return bool(live == replayed) or replayed["$redacted"] == f"{salt.hex()}:{digest}"
    if isinstance(live, dict) and isinstance(replayed, dict) and live.keys() == replayed.keys():
        return all(same(live[name], replayed[name], salt) for name in live)
    if isinstance(live, list) and isinstance(replayed, list) and len(live) == len(replayed):
        return all(same(*pair, salt) for pair in zip(live, replayed, strict=True))
    return type(live) is type(replayed) and bool(live == replayed)

"""Random workflows are recorded here and replayed in another process, without store, files or tables."""

import hashlib
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw
import orjson

import rote
from rote.errors import RunAborted
from tests.lanes import SLOW, examples
from tests.properties.tier_workflows import (
    MODES,
    PROFILE,
    REDACTED,
    Workflow,
    has_tables,
    secret_of,
    terms_of,
)

ROOT = Path(__file__).parents[2]
WORKFLOWS, RUNS = examples(40, 500), examples(24, 500)
FIRST = 0 if not SLOW else 10_000


def test_a_replay_elsewhere_has_the_same_results_and_errors(tmp_path: Path) -> None:
    (tmp_path / "recordings").mkdir()
    seeds = range(FIRST, FIRST + WORKFLOWS)
    outcomes = {seed: record(seed, tmp_path) for seed in seeds}
    told = replayed(tmp_path, seeds)
    reached = set()
    for seed, expected in outcomes.items():
        data = (tmp_path / "recordings" / f"{seed}.jsonl").read_bytes()
        check_hidden(seed, data, expected, told[str(seed)])
        assert secret_of(seed) not in str(told[str(seed)])
        assert same(expected, told[str(seed)], salt_in(data))
        reached |= names_in(data)
    assert len(reached) > 20


def test_the_replay_of_a_run_elsewhere_has_the_same_results_errors_and_trace(
    tmp_path: Path,
) -> None:
    (tmp_path / "recordings").mkdir()
    place = tmp_path / "memory.db"
    seeds = range(FIRST, FIRST + RUNS)
    with rote.open(place, modes=MODES, durability="os") as store:
        outcomes = {seed: record_run(seed, store, tmp_path) for seed in seeds}
    before = place.read_bytes()
    told = replayed(tmp_path, range(0), seeds, str(place))
    assert place.read_bytes() == before
    reached = set()
    for seed, (expected, trace) in outcomes.items():
        name = f"run-{seed}"
        data = (tmp_path / "recordings" / f"{name}.jsonl").read_bytes()
        check_hidden(seed, data, expected, told[name])
        assert secret_of(seed) not in str(trace)
        assert same(expected, told[name], salt_in(data))
        assert rote.compare_traces(trace, told[f"{name} trace"]).status == "equivalent"
        reached |= names_in(data)
    assert reached > {
        "queue.put",
        "queue.ack",
        "agent.send_task",
        "fs.write",
        "cache.get",
        "search",
    }
    assert not {name for name in reached if name.startswith(("memory", "store", "frame"))}


def replayed(folder: Path, seeds: range, runs: range | None = None, store: str = "") -> Any:
    """Return what a process elsewhere was told by the recordings; it leaves nothing behind."""
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    argv = [sys.executable, "-m", "tests.properties.tier_workflows", str(folder / "recordings")]
    argv += [str(seeds.start), str(seeds.stop)]
    argv += [] if runs is None else [str(runs.start), str(runs.stop), store]
    environment = {"PYTHONPATH": str(ROOT), "HOME": str(elsewhere), "PATH": ""}
    subprocess.run(argv, cwd=elsewhere, env=environment, check=True)
    assert list(elsewhere.iterdir()) == []
    return orjson.loads((folder / "recordings" / "replayed.json").read_bytes())


def check_hidden(seed: int, data: bytes, live: list[Any], told: list[Any]) -> None:
    """Check that a secret is neither in a recording nor in any error."""
    secret = secret_of(seed).encode()
    assert secret not in data
    for outcome in (*live, *told):
        assert secret not in orjson.dumps(outcome.get("error"))


def names_in(data: bytes) -> set[str]:
    return {line["name"] for line in map(orjson.loads, data.splitlines()) if "name" in line}


def record(seed: int, folder: Path) -> list[Any]:
    with (
        rote.open(":memory:") as store,
        host_on(store, "default", folder, seed) as host,
        host.record(folder / "recordings" / f"{seed}.jsonl"),
    ):
        return Workflow(seed).run(host)


def record_run(seed: int, store: rote.Store, folder: Path) -> tuple[list[Any], Any]:
    """Return the outcomes and the trace of a run, whose queue has messages."""
    name = f"run-{seed}"
    space = store.space(name)
    with host_on(store, name, folder, seed) as host:
        for number in range(3):
            host.queue.put("q", {"n": number, "password": secret_of(seed)})
        # A message that is acknowledged and then given back ends the run, after it was recorded.
        with suppress(RunAborted):
            path = folder / "recordings" / f"{name}.jsonl"
            with space.run(**terms_of(seed), record=path) as run:
                outcomes = Workflow(seed).run(host, run)
    return outcomes, run.trace


def host_on(store: rote.Store, space: str, folder: Path, seed: int) -> rote.Host:
    sandbox = folder / "sandboxes" / str(seed)
    sandbox.mkdir(parents=True)
    return rote.Host(
        PROFILE,
        store=store,
        space=space,
        sqlite=tables(folder, seed) if has_tables(seed) else None,
        fs={"sandbox_root": str(sandbox), "allow_delete": True},
        redact=REDACTED,
    )


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

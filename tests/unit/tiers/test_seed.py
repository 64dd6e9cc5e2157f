"""The document that the tiers come from: each row of its tables is a test."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import rote
from rote.errors import Denied
from rote.values import decode

PROFILES = {
    # Frame, Cache, Memory, SQLite, FS, Queue, Agent
    "Minimal": "Yes No No No No No No",
    "Compute-and-store": "Yes Yes Yes Yes Yes No No",
    "Network-restricted": "Yes Yes Yes Yes Yes Yes No",
    "Operator-controlled": "Yes Yes Yes Yes Yes Yes Yes",
}
ADAPTERS = ["Frame", "Cache", "Memory", "SQLite", "FS", "Queue", "Agent"]


@pytest.fixture
def host() -> Iterator[rote.Host]:
    with rote.open(":memory:") as store, rote.Host("Operator-controlled", store=store) as host:
        yield host


def code_of(host: rote.Host, adapter: str, verb: str, args: list[Any]) -> str:
    with pytest.raises(rote.RoteError) as refused:
        host.call(adapter, verb, args)
    return refused.value.code


@pytest.mark.parametrize("profile", PROFILES)
def test_a_sandbox_profile_has_these_tiers(profile: str) -> None:
    host = rote.Host(profile)
    for adapter, answer in zip(ADAPTERS, PROFILES[profile].split(), strict=True):
        with pytest.raises(rote.RoteError) as refused:
            host.call(adapter, "no such verb")
        assert refused.value.code == ("unknown_verb" if answer == "Yes" else "adapter_denied")
        assert isinstance(refused.value, Denied) == (answer == "No")


def test_scratch_computation_in_the_frame(host: rote.Host) -> None:
    with host.scope(frame={"input": [2, 3]}) as run:
        run.frame.set("sum", sum(run.frame.get("input")))
        assert run.frame.get("sum") == 5


def test_the_size_of_a_frame_is_capped() -> None:
    host = rote.Host("Minimal", limits={"max_frame_bytes": 10})
    assert code_of(host, "frame", "Set", ["a", "12345"]) == "limit_exceeded"
    assert host.call("Frame", "Get") == {}


def test_cooldown_in_the_cache(host: rote.Host) -> None:
    assert host.call("cache", "CacheGet", ["monitors", "last_run"]) == {
        "found": False,
        "value": None,
    }
    assert host.call("cache", "CacheSet", ["monitors", "last_run", 5]) == {"ok": True}
    for verb in ("CacheGet", "Get", "get", " cacheget "):
        found = host.call("Cache", verb, ["monitors", "last_run"])
        assert found == {"found": True, "value": 5}


def test_session_context_in_memory(host: rote.Host) -> None:
    assert host.call("memory", "put", ["session", "context", "ctx1", {"a": 1}])["created"]
    assert host.call("memory", "get", ["session", "context", "ctx1"])["record"]["payload"] == {
        "a": 1
    }


def test_long_term_facts_in_memory(host: rote.Host) -> None:
    host.call("memory", "Put", ["long_term", "preference", "theme", {"value": "dark"}])
    assert host.call("memory", "List", ["long_term", "preference"])["items"]
    assert host.call("memory", "Delete", ["long_term", "preference", "theme"])["deleted"]


def test_namespaces_and_verbs_of_memory(host: rote.Host) -> None:
    for namespace in ("session", "long_term", "daily_log", "workflow"):
        host.call("memory", "append", [namespace, "k", "i", {"n": 1}])
    assert host.call("memory", "prune") == {"ok": True, "pruned": 0}


@pytest.fixture
def metrics(tmp_path: Path) -> str:
    """Return the path of a database with two tables."""
    path = str(tmp_path / "m.db")
    tables = apsw.Connection(path)
    tables.execute("CREATE TABLE metrics(name, value); INSERT INTO metrics VALUES ('cpu', 0.5)")
    tables.execute("CREATE TABLE users(password)")
    tables.close()
    return path


def test_structured_queries(metrics: str) -> None:
    options = {"path": metrics, "allow_tables": ["metrics"]}
    with rote.Host("Operator-controlled", sqlite=options) as host:
        for verb in ("Query", "query", " QUERY "):
            found = host.call("sqlite", verb, ["SELECT * FROM metrics"])
            assert found == {"columns": ["name", "value"], "rows": [{"name": "cpu", "value": 0.5}]}
        assert code_of(host, "sqlite", "Query", ["SELECT * FROM users"]) == "sql_denied"
        insert = "INSERT INTO metrics VALUES ('mem', 1)"
        assert code_of(host, "sqlite", "Query", [insert]) == "sql_denied"
        assert code_of(host, "sqlite", "Execute", [insert]) == "verb_denied"
    with rote.Host("Operator-controlled", sqlite={**options, "allow_write": True}) as host:
        assert host.call("SQLite", "Execute", [insert])["rows_affected"] == 1
        assert code_of(host, "sqlite", "Execute", ["DELETE FROM users"]) == "sql_denied"


def test_file_artifacts(tmp_path: Path) -> None:
    host = rote.Host("Operator-controlled", fs={"sandbox_root": str(tmp_path)})
    assert host.call("fs", "Write", ["/reports/daily.json", "{}"]) == {"ok": True, "bytes": 2}
    assert (tmp_path / "reports" / "daily.json").read_text() == "{}"
    assert host.call("FS", "Read", ["/reports/daily.json"]) == {"content": "{}", "bytes": 2}
    assert host.call("fs", "List", ["/reports"])["entries"][0]["name"] == "daily.json"
    assert code_of(host, "fs", "Delete", ["/reports/daily.json"]) == "verb_denied"
    may = {"sandbox_root": str(tmp_path), "allow_delete": True}
    host = rote.Host("Operator-controlled", fs=may)
    assert host.call("fs", "Delete", ["/reports/daily.json"]) == {"ok": True, "deleted": True}


def test_guards_of_files(tmp_path: Path) -> None:
    guards = {"allow_extensions": [".json"], "max_read_bytes": 3, "max_write_bytes": 4}
    host = rote.Host("Operator-controlled", fs={"sandbox_root": str(tmp_path), **guards})
    assert code_of(host, "fs", "Write", ["daily.txt", ""]) == "extension_denied"
    assert code_of(host, "fs", "Write", ["daily.json", "12345"]) == "limit_exceeded"
    assert host.call("fs", "Write", ["daily.json", "1234"])["bytes"] == 4
    assert code_of(host, "fs", "Read", ["daily.json"]) == "limit_exceeded"
    assert code_of(host, "fs", "Read", ["../daily.json"]) == "outside_sandbox"


def test_downstream_handoff_by_the_queue(host: rote.Host) -> None:
    for verb in ("Put", "QueuePut", "put"):
        assert len(host.call("queue", verb, ["alerts", {"host": "web-1"}])) == 32
    assert host.call("Queue", "Depth", ["alerts"])["ready"] == 3


TASK = {
    "schema_version": "1.0",
    "task_id": "t1",
    "requester_id": "monitor",
    "target_agent": "oncall",
    "task_type": "look",
    "input": {"refs": [], "payload": {"host": "web-1"}},
}


def test_agent_coordination(host: rote.Host) -> None:
    assert host.call("agent", "send_task", [TASK]) == "t1"
    result = {
        "schema_version": "1.0",
        "task_id": "t1",
        "agent_id": "oncall",
        "status": "done",
        "output": {"summary": "restarted"},
    }
    host.call("agent", "post_result", [result])
    assert host.call("agent", "read_result", ["t1"]) == result
    assert host.call("Agent", "Read_Result", ["t1"]) == result


def test_the_transport_of_tasks_is_a_file_of_lines(tmp_path: Path) -> None:
    with rote.open(":memory:") as store:
        host = rote.Host("Operator-controlled", store=store, agent={"root": str(tmp_path)})
        assert host.call("agent", "send_task", [TASK]) == "t1"
    lines = (tmp_path / "tasks" / "openclaw_agent_tasks.jsonl").read_bytes().splitlines()
    assert [decode(line) for line in lines] == [TASK]

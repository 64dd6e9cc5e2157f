"""The document that the tiers come from: each row of its tables is a test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import rote
from rote.errors import Denied

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


def test_file_artifacts(tmp_path: Path) -> None:
    host = rote.Host("Operator-controlled", fs={"sandbox_root": str(tmp_path)})
    assert host.call("fs", "Write", ["/reports/daily.json", "{}"]) == {"ok": True, "bytes": 2}
    assert (tmp_path / "reports" / "daily.json").read_text() == "{}"
    assert host.call("FS", "Read", ["/reports/daily.json"]) == {"content": "{}", "bytes": 2}
    assert host.call("fs", "List", ["/reports"])["entries"][0]["name"] == "daily.json"
    with pytest.raises(Denied):
        host.call("fs", "Delete", ["/reports/daily.json"])


def test_downstream_handoff_by_the_queue(host: rote.Host) -> None:
    for verb in ("Put", "QueuePut", "put"):
        assert len(host.call("queue", verb, ["alerts", {"host": "web-1"}])) == 32
    assert host.call("Queue", "Depth", ["alerts"])["ready"] == 3


def test_agent_coordination(host: rote.Host) -> None:
    task = {
        "schema_version": "1.0",
        "task_id": "t1",
        "requester_id": "monitor",
        "target_agent": "oncall",
        "task_type": "look",
        "input": {"refs": [], "payload": {"host": "web-1"}},
    }
    assert host.call("agent", "send_task", [task]) == "t1"
    result = {
        "schema_version": "1.0",
        "task_id": "t1",
        "agent_id": "oncall",
        "status": "done",
        "output": {"summary": "restarted"},
    }
    host.call("agent", "post_result", [result])
    assert host.call("agent", "read_result", ["t1"]) == result

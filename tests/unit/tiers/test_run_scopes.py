"""Scopes of a host in a run: threads, errors without secrets, and what a replay says of other writes."""

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.bridges.replays import differing_writes, read_original
from rote.bridges.replays import replay as replay_run
from rote.errors import InvalidInput, RoteError
from rote.tiers.verbs import Verb
from rote.values import decode

SECRET = "hunter2-the-secret"
TERMS: dict[str, Any] = {
    "workflow_id": "w", "model": None, "policy_set_id": "p", "mode": "buffered_write",
}  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Iterator[rote.Store]:
    with rote.open(tmp_path / "memory.db", modes=["buffered_write"], durability="os") as store:
        yield store


@pytest.fixture
def space(store: rote.Store) -> rote.Space:
    return store.space("s")


@pytest.fixture
def host(space: rote.Space) -> rote.Host:
    return rote.Host("operator-controlled", space=space, redact=["password"])


def test_calls_of_threads_are_recorded_one_at_a_time(
    space: rote.Space, host: rote.Host, tmp_path: Path
) -> None:
    path = tmp_path / "r.jsonl"
    tools = [rote.ToolProfile("cache.get", "1")]

    def work(flow: rote.Host, name: str) -> None:
        for number in range(20):
            flow.cache.set(name, str(number), number)
            flow.cache.get(name, str(number))
            flow.queue.put("q", [name, number])
            flow.memory.append("ops", "log", name, {"n": number})

    with space.run(**TERMS, tools=tools, record=path) as run, host.scope(run=run) as flow:
        threads = [threading.Thread(target=work, args=(flow, name)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = [decode(line) for line in path.read_bytes().splitlines()][1:-1]
    assert [line["seq"] for line in lines] == list(range(4 * 60))
    assert len(run.trace["events"]) == 4 * 20
    assert host.queue.depth("q")["ready"] == 4 * 20
    with (
        pytest.raises(rote.errors.RunAborted),
        space.run(**TERMS, tools=tools, replay=path) as again,
        host.scope(run=again) as flow,
    ):
        for line in lines:
            adapter, verb = line["name"].split(".")
            flow.call(adapter, verb, line["args"])
    # But for the appends, which a recording does not have, it would write the same.
    puts = [each for each in run.operations if each["op"] == "set" and "queue" in each["id"]]
    assert again.operations == puts


class Waiting:
    """An adapter whose get waits for a set."""

    name = "cache"
    switches: Mapping[str, bool] = {}
    verbs: Mapping[str, Verb] = {}

    def __init__(self) -> None:
        self.waits, self.may_go = threading.Event(), threading.Event()

    def call(self, verb: str, arguments: Any, granted: Any, /) -> Any:
        if verb == "set":
            self.may_go.set()
            return {"ok": True}
        self.waits.set()
        return self.may_go.wait(5)

    def close(self) -> None:
        pass


def test_a_call_that_waits_is_in_nobodys_way_where_nothing_is_recorded(
    space: rote.Space, host: rote.Host
) -> None:
    """A take may wait for a minute, and another thread has leases to extend meanwhile."""
    answers: list[Any] = []
    with space.run(**TERMS) as run, host.scope(run=run) as flow:
        waiting = Waiting()
        flow._adapters["cache"] = waiting
        thread = threading.Thread(target=lambda: answers.append(flow.cache.get("n", "k")))
        thread.start()
        assert waiting.waits.wait(5)
        flow.cache.set("n", "k", 1)
        thread.join()
    assert answers == [True]


def test_a_host_of_a_pinned_view_writes_nothing_in_a_run_either(space: rote.Space) -> None:
    space.set("urn:a:1", 1)
    host = rote.Host("operator-controlled", space=space.at(1))
    envelope = {
        "schema_version": "1.0", "task_id": "t", "requester_id": "r", "target_agent": "a",
        "task_type": "x", "input": {},
    }  # fmt: skip
    calls: list[Any] = [
        ("store", "set", ["urn:a:2", 1]), ("memory", "put", ["ops", "k", "i", {}]),
        ("queue", "put", ["q", 1]), ("queue", "take", ["q"]), ("agent", "send_task", [envelope]),
    ]  # fmt: skip
    with space.run(**TERMS) as run, host.scope(run=run) as flow:
        for adapter, verb, args in calls:
            with pytest.raises(InvalidInput, match="pinned view"):
                flow.call(adapter, verb, args)
            assert verb not in flow.capabilities()["adapters"][adapter]
        assert flow.store.get("urn:a:1") == 1
    assert run.operations == []


def test_what_looks_redacted_in_a_message_leads_no_replay_astray(
    space: rote.Space, host: rote.Host, tmp_path: Path
) -> None:
    """Messages of others may hold something in the form of a redacted value."""
    path, mark = tmp_path / "r.jsonl", {"$redacted": f"{'0' * 32}:{'0' * 64}"}
    tools = [rote.ToolProfile("queue.take", "1")]
    host.queue.put("q", {"x": mark, "password": mark})

    def work(flow: rote.Host) -> None:
        message = flow.queue.take("q")["message"]
        flow.queue.ack("q", message["id"], message["lease"])
        flow.cache.set("n", "k", {"password": SECRET})
        flow.store.set("urn:a:1", {"password": SECRET, "y": message["payload"]})

    with space.run(**TERMS, tools=tools, record=path) as run, host.scope(run=run) as flow:
        work(flow)
    assert space.get("urn:a:1")["y"] == {"x": mark, "password": mark}
    with space.run(**TERMS, tools=tools, replay=path) as again, host.scope(run=again) as flow:
        work(flow)
    calls = [run.trace["events"][0]["tool_calls"] for run in (run, again)]
    assert calls[0] == calls[1]


def test_no_error_of_any_tier_tells_a_secret_while_the_run_is_recorded(
    space: rote.Space, host: rote.Host, tmp_path: Path
) -> None:
    space.set("urn:schema:user", {"type": "object", "properties": {"password": {"maxLength": 3}}})
    space.set("urn:a", {"password": "x"})
    test = [{"op": "test", "path": "/password", "value": SECRET}]
    calls: list[tuple[str, str, list[Any]]] = [
        ("store", "patch", ["urn:a", test]),
        ("store", "transact", [[{"op": SECRET, "id": "urn:a", "password": SECRET}]]),
        ("memory", "put", ["ops", "k", "i", {"password": SECRET}, None, {"tags": {"password": SECRET}}]),
        ("memory", "update", ["ops", "k", "none", {"payload": {"password": SECRET}}]),
        ("frame", "set", ["a..password", SECRET]),
        ("queue", "put", ["q", {"password": SECRET}, "key"]),
        ("agent", "send_task", [{"schema_version": "1.0", "password": SECRET}]),
    ]  # fmt: skip
    path = tmp_path / "r.jsonl"
    with space.run(**TERMS, record=path) as run, host.scope(run=run) as flow:
        for call in calls:
            with pytest.raises(RoteError) as refused:
                flow.call(*call)
            assert SECRET not in f"{refused.value} {refused.value.details}"
    assert SECRET.encode() not in path.read_bytes()


def test_a_scope_of_another_store_with_the_same_space_is_taken(
    space: rote.Space, tmp_path: Path
) -> None:
    """A program may have opened the store a second time; what it reaches is the same."""
    with rote.open(tmp_path / "memory.db", modes=["buffered_write"], durability="os") as second:
        host = rote.Host("network-restricted", store=second, space="s")
        host.queue.put("q", 1)
        with space.run(**TERMS) as run, host.scope(run=run) as flow:
            message = flow.queue.take("q")["message"]
            flow.queue.ack("q", message["id"], message["lease"])
        assert host.queue.depth("q") == {"ready": 0, "leased": 0, "dead": 0}


def test_a_replay_tells_which_writes_differ_and_not_those_of_messages(
    store: rote.Store, space: rote.Space, host: rote.Host, tmp_path: Path
) -> None:
    def work(run: rote.Run, value: int) -> None:
        with host.scope(run=run) as flow:
            flow.queue.put("q", {"n": 1})
            flow.store.set("urn:a", value)

    with space.run(**TERMS, record=True, run_id="monday") as run:
        work(run, 1)
    [record] = store.runs()
    original = read_original(record, "p", tmp_path / "observability" / "monday", None)
    assert replay_run(original, space, lambda run: work(run, 1)).status == "equal"
    outcome = replay_run(original, space, lambda run: work(run, 2))
    assert outcome.status == "different"
    assert [each.id for each in differing_writes(original, space, outcome.run)] == ["urn:a"]


def test_a_trace_has_room_for_so_many_calls_in_an_event(
    space: rote.Space, host: rote.Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rote.runs.events.EVENT_PARTS_MAX", 2)
    tools = [rote.ToolProfile("cache.set", "1")]
    with space.run(**TERMS, tools=tools) as run, host.scope(run=run) as flow:
        with run.event(role="r", interceptor="i", decision_type="d"):
            for number in range(2):
                flow.cache.set("n", "k", number)
            with pytest.raises(rote.errors.LimitExceeded):
                flow.cache.set("n", "k", 2)
        assert flow.cache.get("n", "k")["value"] == 1
    assert len(run.trace["events"][0]["tool_calls"]) == 2


def test_what_a_trace_cannot_have_is_refused_before_a_call_or_is_its_error(
    space: rote.Space, host: rote.Host, tmp_path: Path
) -> None:
    """Two names that json-v1 takes for one: é as one character, and as two."""
    twice = {"\u00e9": 1, "e\u0301": 2}
    host.cache.set("n", "k", twice)
    tools = [rote.ToolProfile("cache.get", "1"), rote.ToolProfile("cache.set", "1")]
    path = tmp_path / "r.jsonl"
    for how in ("record", "replay"):
        terms: dict[str, Any] = {**TERMS, "tools": tools, how: path}
        with space.run(**terms) as run, host.scope(run=run) as flow:
            with pytest.raises(InvalidInput):
                flow.cache.set("n", "other", twice)
            with pytest.raises(InvalidInput):
                flow.cache.get("n", "k")
    assert not host.cache.get("n", "other")["found"]


def test_names_of_all_hosts_in_a_run_are_redacted_in_all_of_its_calls(
    space: rote.Space, host: rote.Host, tmp_path: Path
) -> None:
    other = rote.Host("compute-and-store", space=space, redact=["token"])
    path = tmp_path / "r.jsonl"
    for how in ("record", "replay"):
        terms: dict[str, Any] = {**TERMS, how: path}
        with space.run(**terms) as run, host.scope(run=run) as flow, other.scope(run=run) as second:
            flow.cache.set("n", "k", {"password": SECRET, "token": SECRET})
            found = flow.cache.get("n", "k")["value"]
            second.cache.set("n", "k", found)
            flow.queue.put("q", found)
            second.memory.put("ops", "k", "i", found)
    assert SECRET.encode() not in path.read_bytes()
    assert host.queue.peek("q")["items"][0]["payload"] == {"password": SECRET, "token": SECRET}


def test_a_scope_in_a_run_offers_what_its_host_offers(space: rote.Space, host: rote.Host) -> None:
    with space.run(**TERMS) as run, host.scope(run=run) as flow:
        assert flow.capabilities() == host.capabilities()

"""The memory and the store tier: the verbs on a space, what is reserved, and what a grant leaves."""

from collections.abc import Iterator
from typing import Any

import pytest

import rote
from rote.errors import Denied, InvalidInput, NotFound, PayloadMismatch, RoteError
from rote.testing.clocks import FixedClock

TIMES = {"created_at", "updated_at"}


@pytest.fixture
def space() -> Iterator[rote.Space]:
    with rote.open(":memory:") as store:
        yield store.space("default")


@pytest.fixture
def host(space: rote.Space) -> rote.Host:
    return rote.Host("compute-and-store", space=space)


def code_of(call: Any) -> str:
    with pytest.raises(RoteError) as refused:
        call()
    return refused.value.code


# -- memory ----------------------------------------------------------------------------------------


def test_memory_verbs_answer_as_those_of_a_memory(space: rote.Space, host: rote.Host) -> None:
    """Each verb by position through the host, and the same afterwards by a Memory of its own."""
    memory = rote.Memory(space)
    calls: list[tuple[str, list[Any]]] = [
        ("put", ["session", "context", "c1", {"a": 1}, 60, {"tags": ["x"]}]),
        ("get", ["session", "context", "c1"]),
        ("append", ["daily_log", "day", "d1", {"text": "hello there"}]),
        ("list", ["session", "context", "c", None, {"tags_any": ["x"]}]),
        ("touch", ["session", "context", "c1"]),
        ("update", ["session", "context", "c1", {"payload": {"a": 2}}]),
        ("put_many", [[{"namespace": "ops", "record_kind": "k", "record_id": "i", "payload": {}}]]),
        ("history", ["session", "context", "c1"]),
        ("stats", []),
        ("capabilities", []),
        ("retention_report", [86_400, "session", ["context"]]),
        ("prune", ["session"]),
        ("delete", ["ops", "k", "i"]),
    ]
    with rote.open(":memory:") as other:
        reference = rote.Memory(other.space("default"))
        for verb, args in calls:
            assert _shape(host.call("memory", verb, args)) == _shape(reference.call(verb, args))
    assert memory.get("session", "context", "c1")["record"]["payload"] == {"a": 2}


def _shape(result: Any) -> Any:
    """Return a result without its times and dids."""
    if isinstance(result, dict):
        return {
            name: "…"
            if name.endswith(("_at", "_accessed")) or name in ("at", "bytes")
            else _shape(value)
            for name, value in result.items()
        }
    return [_shape(each) for each in result] if isinstance(result, list) else result


def test_memory_verbs_take_keywords(host: rote.Host) -> None:
    first = host.memory.put("ops", "k", "i", {"n": 1}, key="once", if_version=0)
    assert host.memory.put("ops", "k", "i", {"n": 1}, key="once", if_version=0) == first
    assert host.memory.update("ops", "k", "i", patch=[{"op": "add", "path": "/m", "value": 2}])[
        "ok"
    ]
    listed = host.memory.list("ops", include=["payload"], order="updated", descending=True)
    assert [item["payload"] for item in listed["items"]] == [{"n": 1, "m": 2}]
    assert (
        host.memory.get("ops", "k", "i", at=first["version"], include=["version"])["version"] == 1
    )
    with pytest.raises(PayloadMismatch):
        host.memory.put("ops", "k", "i", {"n": 2}, key="once")
    assert code_of(lambda: host.memory.put("ops", "k", "i", {}, if_version=9)) == "conflict"
    assert code_of(lambda: host.memory.update("ops", "k", "none", payload={})) == "not_found"
    doubled: dict[str, Any] = {"changes": {"payload": {}}, "payload": {}}
    assert code_of(lambda: host.memory.update("ops", "k", "i", **doubled)) == "bad_arguments"


def test_a_ttl_that_is_left_out_is_not_null(space: rote.Space) -> None:
    host = rote.Host(
        "compute-and-store", space=space, memory={"default_ttl_by_namespace": {"session": 60}}
    )
    host.memory.put("session", "k", "default", {})
    host.memory.put("session", "k", "never", {}, None)
    found = [
        host.memory.get("session", "k", id)["record"]["ttl_seconds"] for id in ("default", "never")
    ]
    assert found == [60, None]


def test_search_finds_records_and_erase_is_no_verb(host: rote.Host) -> None:
    host.memory.put("long_term", "fact", "f", {"text": "the heron fishes at dawn"})
    found = host.memory.search("heron", limit=5, include=["payload"], language="english")
    assert [item["record_id"] for item in found["items"]] == ["f"]
    assert code_of(lambda: host.memory.erase("long_term", reason="because")) == "unknown_verb"


@pytest.mark.parametrize(
    ("verb", "args"),
    [
        ("put", [1, "k", "i", {}]), ("put", ["ops", "k", "i", []]), ("put", ["ops", "k", "i", {}, "60"]),
        ("append", ["ops", "k", "i", "text"]), ("list", ["ops", None, None, 5]), ("list", []),
        ("search", []), ("search", ["x", "10"]), ("put_many", [{}]), ("history", ["ops", "k"]),
        ("get", {"namespace": "ops", "record_kind": "k", "record_id": "i"}), ("prune", [["ops"]]),
    ],
)  # fmt: skip
def test_ill_typed_arguments_of_memory_are_refused(host: rote.Host, verb: str, args: Any) -> None:
    assert code_of(lambda: host.call("memory", verb, args)) == "bad_arguments"


def test_a_grant_leaves_its_namespaces_alone(space: rote.Space, host: rote.Host) -> None:
    for namespace in ("session", "ops", "workflow"):
        host.memory.put(namespace, "k", "i", {"text": f"heron of {namespace}"}, 1)
    flow = host.scope(grant={"memory": {"namespaces": ["session", "ops", "elsewhere"]}})
    outside: list[tuple[str, Any]] = [
        ("put", ["workflow", "k", "i", {}]), ("get", ["workflow", "k", "i"]),
        ("append", ["workflow", "k", "j", {}]), ("list", ["workflow"]), ("delete", ["workflow", "k", "i"]),
        ("prune", ["workflow"]), ("touch", ["workflow", "k", "i"]),
        ("update", ["workflow", "k", "i", {"payload": {}}]), ("history", ["workflow", "k", "i"]),
        ("retention_report", [1, "workflow"]),
        ("put_many", [[
            {"namespace": "ops", "record_kind": "k", "record_id": "new", "payload": {}},
            {"namespace": "workflow", "record_kind": "k", "record_id": "new", "payload": {}},
        ]]),
        ("search", {"text": "heron", "filters": {"namespaces": ["ops", "workflow"]}}),
        ("get", ["nowhere", "k", "i"]),
    ]  # fmt: skip
    for verb, args in outside:
        with pytest.raises(Denied) as refused:
            flow.call("memory", verb, args)
        assert refused.value.code == "grant_denied"
    assert flow.memory.get("ops", "k", "new")["found"] is False
    assert set(flow.memory.stats()["by_namespace"]) == {"session", "ops"}
    assert flow.memory.stats()["records"] == 2
    assert flow.memory.capabilities()["namespaces"] == ["ops", "session"]
    assert flow.memory.retention_report()["totals"]["records"] == 2
    found = {item["namespace"] for item in flow.memory.search("heron")["items"]}
    assert found == {"session", "ops"}
    assert code_of(lambda: flow.memory.get("elsewhere", "k", "i")) == "invalid_input"
    with flow.scope(grant={"memory": {"namespaces": ["workflow"]}}) as none:
        for verb, args in (("stats", []), ("prune", []), ("search", ["heron"])):
            with pytest.raises(Denied):
                none.call("memory", verb, args)


def test_a_grant_of_all_the_usual_namespaces_shows_nothing_of_others(space: rote.Space) -> None:
    other = rote.Memory(space, namespaces=["private"])
    other.put("private", "k", "i", {"text": "heron in private"})
    usual = ["daily_log", "long_term", "ops", "session", "workflow"]
    host = rote.Host("compute-and-store", space=space, grant={"memory": {"namespaces": usual}})
    assert host.memory.search("heron")["items"] == []
    assert host.memory.stats()["records"] == 0


def test_prune_covers_granted_namespaces_only() -> None:
    clock = FixedClock()
    with rote.open(":memory:", clock=clock) as store:
        host = rote.Host(
            "compute-and-store",
            store=store,
            memory={"prune_strategy_by_namespace": {"ops": "ttl_only"}},
        )
        for namespace in ("session", "ops"):
            host.memory.put(namespace, "k", "i", {}, 1)
        clock.move(seconds=5)
        flow = host.scope(grant={"memory": {"namespaces": ["ops"]}})
        assert flow.memory.prune() == {"ok": True, "pruned": 1}
        assert host.memory.stats()["by_namespace"]["session"]["records"] == 1


# -- store -----------------------------------------------------------------------------------------


def test_store_verbs_read_and_write_entities(space: rote.Space, host: rote.Host) -> None:
    assert host.store.get("urn:a:1") is None
    assert host.store.get("urn:a:1", {"d": 1}) == {"d": 1}
    told = host.store.set("urn:a:1", {"n": 1})
    assert told == {"version": 1, "hash": space.commit(1).hash}
    assert host.store.patch("urn:a:1", [{"op": "add", "path": "/m", "value": 2}])["version"] == 2
    assert host.store.read("urn:a:1") == space.read("urn:a:1").to_dict()
    operations = [{"op": "set", "id": "urn:a:2", "value": 2}, {"op": "delete", "id": "urn:a:1"}]
    assert host.store.transact(operations)["version"] == 3
    assert host.store.delete("urn:a:2") == {"version": 4, "hash": space.head}
    assert host.store.read("urn:a:1")["exists"] is False
    with pytest.raises(NotFound):
        host.store.delete("urn:a:2")
    assert code_of(lambda: host.store.transact([])) == "invalid_input"


def test_a_key_makes_a_write_happen_once(host: rote.Host) -> None:
    calls: list[tuple[str, list[Any]]] = [
        ("set", ["urn:a:1", {"n": 1}, "k1"]),
        ("patch", ["urn:a:1", [{"op": "add", "path": "/n", "value": 2}], "k2"]),
        ("delete", ["urn:a:1", "k3"]),
        ("transact", [[{"op": "set", "id": "urn:a:1", "value": 1}], "k4"]),
    ]
    for verb, args in calls:
        first = host.call("store", verb, args)
        assert host.call("store", verb, args) == first
    with pytest.raises(PayloadMismatch):
        host.store.set("urn:a:1", 5, key="k1")
    assert code_of(lambda: host.store.set("urn:a:1", 5, "rote:own")) == "invalid_input"


def test_a_scan_comes_in_pages(space: rote.Space, host: rote.Host) -> None:
    ids = [f"urn:a:{number:03}" for number in range(250)]
    for id in ids:
        space.set(id, {"id": id})
    found, after = [], None
    while True:
        page = host.store.scan("urn:a:", after=after)
        assert len(page["items"]) <= 100
        found += [item["id"] for item in page["items"]]
        after = page["next"]
        if after is None:
            break
    assert found == ids
    assert host.store.scan("urn:a:", limit=250)["next"] is None
    assert host.store.scan("urn:a:", limit=249)["next"] == ids[248]
    for limit in (0, 1_001, True, "5"):
        assert code_of(lambda limit=limit: host.store.scan("", None, limit)) == "bad_arguments"


def test_a_scan_of_large_values_ends_a_page_early(space: rote.Space, host: rote.Host) -> None:
    for number in range(4):
        space.set(f"urn:a:{number}", "x" * 3_000_000)
    page = host.store.scan()
    assert len(page["items"]) == 2
    rest = host.store.scan(after=page["next"])
    assert [item["id"] for item in rest["items"]] == ["urn:a:2", "urn:a:3"]
    assert rest["next"] is None


RESERVED = ["record:ops!!k!!i!!", "queue:alerts/1", "agent:task/1", "record:", "queue:x"]


def test_ids_of_other_tiers_are_neither_read_nor_written(
    space: rote.Space, host: rote.Host
) -> None:
    rote.Memory(space).put("ops", "k", "i", {})
    for id in ("queue:alerts/1", "agent:task/1", "agenda:1", "queues:1", "records:1", "urn:a:1"):
        space.set(id, 1)
    space.set("did:other", 1)
    space.set(space.did, 1)
    for id in [*RESERVED, space.did]:
        for verb, args in (
            ("get", [id]), ("read", [id]), ("set", [id, 1]), ("delete", [id]),
            ("patch", [id, [{"op": "add", "path": "", "value": 1}]]),
            ("transact", [[{"op": "set", "id": "urn:a:2", "value": 1}, {"op": "set", "id": id, "value": 1}]]),
        ):  # fmt: skip
            with pytest.raises(Denied) as refused:
                host.call("store", verb, args)
            assert refused.value.code == "reserved_id"
    free = ["agenda:1", "did:other", "queues:1", "records:1", "urn:a:1"]
    assert [item["id"] for item in host.store.scan()["items"]] == free
    for limit in range(1, 6):
        found, after = [], None
        while True:
            page = host.store.scan("", after, limit)
            found += [item["id"] for item in page["items"]]
            after = page["next"]
            if after is None:
                break
        assert found == free
    for prefix in ("record:", "record:ops", "queue:", "agent:task/", space.did):
        assert host.store.scan(prefix) == {"items": [], "next": None}
    assert [item["id"] for item in host.store.scan("rec")["items"]] == ["records:1"]
    assert [item["id"] for item in host.store.scan("", "queue:alerts/0")["items"]] == free[2:]


def test_schemas_and_blobs_are_read_and_not_written(space: rote.Space, host: rote.Host) -> None:
    space.set("urn:schema:s", {"type": "object"})
    space.set("urn:schemas", {"urn:a:": "s"})
    blob = f"urn:blob-meta:{space.put_blob(b'bytes')}"
    for id in ("urn:schema:s", "urn:schemas", blob):
        assert host.store.get(id) == space.get(id) is not None
        for verb, args in (("set", [id, {}]), ("delete", [id]), ("patch", [id, []])):
            with pytest.raises(Denied) as refused:
                host.call("store", verb, args)
            assert refused.value.code == "reserved_id"
    assert code_of(lambda: host.store.set("urn:a:1", 5)) == "invalid_input"
    assert "urn:schemas" in [item["id"] for item in host.store.scan("urn:")["items"]]


def test_operations_that_are_none_are_refused_by_the_space(host: rote.Host) -> None:
    for operations in (
        [1],
        [{"op": "set"}],
        [{"id": 5, "op": "delete"}],
        [None],
        [{"op": "x", "id": "urn:a:1"}],
    ):
        with pytest.raises(InvalidInput):
            host.store.transact(operations)

"""The server's own commands: memories, retrieval, runs and receipts, compared with the embedded ones."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

import rote
from rote.contract import Caller
from rote.contract.commands import FindSpace, GetSide, PutSide
from rote.runs.identities import payload_fingerprint
from rote.runs.run_rows import COMMIT_PENDING, RUN, PendingCommit, run_in
from rote.server.memories import VERBS
from rote.server.server_space import SERVER_SPACE
from rote.space.sources import port_of_store
from rote.testing import FixedClock, SeededIds
from rote.testing.serving import serving
from tests.served import Served, served
from tests.wires import Wire

ATTEMPT = "0123456789abcdef" * 2
KEY: Any = ["long_term", "fact", "a"]
NAMED = {"namespace": "long_term", "kind": "fact", "id": "a"}

# Verb and arguments: first by the names of parameters, or by position; what Python is called with.
STORY: list[tuple[str, Any, tuple[list[Any], dict[str, Any]]]] = [
    ("put", [*KEY, {"text": "the sky is blue"}], ([*KEY, {"text": "the sky is blue"}], {})),
    ("put", NAMED | {"payload": {"text": "green"}, "ttl_seconds": None, "metadata": {"tags": ["t"]}},
     ([*KEY, {"text": "green"}, None, {"tags": ["t"]}], {})),
    ("put", NAMED | {"payload": {}, "if_version": 1}, ([*KEY, {}], {"if_version": 1})),
    ("put_many", {"records": [{"namespace": "ops", "record_kind": "k", "record_id": str(n),
                               "payload": {"n": n}} for n in range(3)]},
     ([[{"namespace": "ops", "record_kind": "k", "record_id": str(n), "payload": {"n": n}}
        for n in range(3)]], {})),
    ("get", KEY, (KEY, {})),
    ("get", NAMED | {"at": 1, "include": ["version"]}, (KEY, {"at": 1, "include": ["version"]})),
    ("get", ["long_term", "fact", "none"], (["long_term", "fact", "none"], {})),
    ("append", ["daily_log", "day", "1", {"text": "rain"}],
     (["daily_log", "day", "1", {"text": "rain"}], {})),
    ("append", {"namespace": "daily_log", "kind": "day", "id": "1", "entry": {"text": "sun"}},
     (["daily_log", "day", "1", {"text": "sun"}], {})),
    ("update", [*KEY, {"payload": {"text": "red"}}], (KEY, {"payload": {"text": "red"}})),
    ("update", NAMED | {"metadata": {"source": "s"}}, (KEY, {"metadata": {"source": "s"}})),
    ("list", ["ops"], (["ops"], {})),
    ("list", {"namespace": "ops", "filters": {"limit": 2}, "order": "updated", "descending": True},
     (["ops"], {"filters": {"limit": 2}, "order": "updated", "descending": True})),
    ("search", ["rain"], (["rain"], {})),
    ("search", {"text": "red", "limit": 3, "include": ["payload"]},
     (["red"], {"limit": 3, "include": ["payload"]})),
    ("history", KEY, (KEY, {})),
    ("history", NAMED | {"limit": 1}, (KEY, {"limit": 1})),
    ("touch", KEY, (KEY, {})),
    ("delete", ["ops", "k", "0"], (["ops", "k", "0"], {})),
    ("delete", ["ops", "k", "0"], (["ops", "k", "0"], {})),
    ("stats", {}, ([], {})),
    ("retention_report", {}, ([], {})),
    ("retention_report", {"expire_soon_seconds": 5, "namespace": "ops"}, ([5, "ops"], {})),
    ("prune", {}, ([], {})),
    ("erase", NAMED | {"reason": "asked", "dry_run": True}, (KEY, {"reason": "asked", "dry_run": True})),
    ("erase", NAMED | {"reason": "asked"}, (KEY, {"reason": "asked"})),
    ("get", [*KEY[:2]], (KEY[:2], {})),
    ("get", ["nowhere", "k", "i"], (["nowhere", "k", "i"], {})),
]  # fmt: skip


def command_of(verb: str) -> str:
    return next(name for name, each in VERBS.items() if each.name == verb)


def plain(result: Any) -> Any:
    """Return a result as JSON would carry it."""
    if isinstance(result, dict):
        return {name: plain(part) for name, part in result.items()}
    return [plain(part) for part in result] if isinstance(result, list | tuple) else result


def test_every_verb_has_the_embedded_answer_and_leaves_the_same_log() -> None:
    stores = [rote.open(":memory:", clock=FixedClock(), ids=SeededIds(1)) for _ in range(2)]
    embedded, behind = stores
    library = port_of_store(embedded).for_caller(Caller(is_library=True))
    library.answer("", FindSpace(SERVER_SPACE, create=True))  # so that both draw the same ids
    memory: Any = rote.Memory(embedded.space("notes"))
    asked = set()
    with serving(behind) as server, Wire(server.url, server.token) as wire:
        behind.space("notes")
        for verb, arguments, (given, named) in STORY:
            asked.add(command_of(verb))
            reply = wire.command(command_of(verb), {"arguments": arguments})
            try:
                wanted: Any = plain(getattr(memory, verb)(*given, **named))
            except (rote.errors.RoteError, TypeError) as error:
                assert reply.status >= 400, (verb, reply)
                if isinstance(error, rote.errors.RoteError):
                    assert reply.code == error.code
                    assert reply.json["error"]["details"] == error.details
            else:
                assert (reply.status, reply.json) == (200, wanted), verb
                assert reply.headers["rote-version"] == str(memory.space.version)
    assert asked == set(VERBS)
    assert embedded.space("notes").head == behind.space("notes").head
    for store in stores:
        store.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as found:
        yield found


@pytest.fixture(autouse=True)
def space(server: Served) -> None:
    server.new_space()


WRITES = [
    ("memory_put", [*KEY, {"n": 1}], [*KEY, {"n": 2}]),
    ("memory_put_many", [[{"namespace": "ops", "record_kind": "k", "record_id": "1", "payload": {}}]],
     [[{"namespace": "ops", "record_kind": "k", "record_id": "2", "payload": {}}]]),
    ("memory_append", ["daily_log", "d", "1", {"n": 1}], ["daily_log", "d", "1", {"n": 2}]),
    ("memory_update", [*KEY, {"payload": {"n": 3}}], [*KEY, {"payload": {"n": 4}}]),
    ("memory_touch", KEY, ["long_term", "fact", "b"]),
    ("memory_delete", KEY, ["long_term", "fact", "b"]),
]  # fmt: skip


@pytest.mark.parametrize("way", ["key", "attempt", "header key", "header attempt"])
@pytest.mark.parametrize(("name", "arguments", "others"), WRITES)
def test_a_repeated_verb_is_done_once_and_answers_the_same(
    server: Served, name: str, arguments: Any, others: Any, way: str
) -> None:
    memory: Any = rote.Memory(server.space)
    memory.put(*KEY, {"n": 0})
    memory.put("long_term", "fact", "b", {"n": 0})
    members = {"key": "k1"} if way == "key" else {"attempt": ATTEMPT} if way == "attempt" else {}
    headers = {
        "header key": {"idempotency_key": "k1"}, "header attempt": {"rote_attempt": ATTEMPT},
    }.get(way, {})  # fmt: skip
    first = server.command(name, {"arguments": arguments, **members}, **headers)
    assert first.status == 200, first
    version = server.space.version
    memory.put(*KEY, {"n": 100})  # others go on writing
    again = server.command(name, {"arguments": arguments, **members}, **headers)
    assert again.json == first.json
    assert server.space.version == version + 1
    other = server.command(name, {"arguments": others, **members}, **headers)
    assert (other.status, other.code) == (422, "payload_mismatch")
    assert server.space.version == version + 1


def test_an_attempt_is_no_part_of_the_commit(server: Served) -> None:
    server.command("memory_put", {"arguments": [*KEY, {}], "attempt": ATTEMPT})
    assert server.space.commit(1).key is None
    settled = server.command("settle", {"attempt": ATTEMPT})
    assert settled.json["commit"]["version"] == 1


def test_a_memory_on_a_branch_and_of_the_past(server: Served) -> None:
    memory: Any = rote.Memory(server.space)
    memory.put(*KEY, {"n": 1})
    server.space.create_branch("draft")
    server.command("memory_put", {"arguments": [*KEY, {"n": 2}], "branch": "draft"})
    assert rote.Memory(server.space.on("draft")).get(*KEY)["record"]["payload"] == {"n": 2}
    assert memory.get(*KEY)["record"]["payload"] == {"n": 1}
    memory.put(*KEY, {"n": 3})
    old = server.command("memory_get", {"arguments": KEY, "version": 1})
    assert old.json["record"]["payload"] == {"n": 1}
    refused = server.command("memory_put", {"arguments": [*KEY, {}], "version": 1})
    assert refused.status == 400


def test_namespaces_are_those_of_the_contract_and_those_found(server: Served) -> None:
    arguments = ["mine", "k", "1", {}]
    assert server.command("memory_put", {"arguments": arguments}).status == 400
    named = {"arguments": arguments, "namespaces": ["mine"]}
    assert server.command("memory_put", named).status == 200
    assert server.command("memory_get", {"arguments": ["mine", "k", "1"]}).json["found"] is True
    only = {"arguments": ["ops"], "namespaces": ["mine"]}
    assert server.command("memory_list", only).status == 400


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("memory_put", {"arguments": "x"}),
        ("memory_put", {"arguments": [*KEY]}),
        ("memory_put", {"arguments": [*KEY, {}, None, None, 1]}),
        ("memory_put", {"arguments": NAMED}),
        ("memory_put", {"arguments": NAMED | {"payload": {}, "x": 1}}),
        ("memory_put", {"arguments": NAMED | {"payload": {}, "self": 1}}),
        ("memory_put", {"arguments": [*KEY, []]}),
        ("memory_put", {"arguments": [*KEY, {}], "profile": "v9"}),
        ("memory_put", {"arguments": [*KEY, {}], "branch": 1}),
        ("memory_put", {"arguments": [*KEY, {}], "namespaces": "ops"}),
        ("memory_put", {"arguments": [*KEY, {}], "more": 1}),
        ("memory_put", {"arguments": [*KEY, {}], "attempt": "x"}),
        ("memory_put", {"arguments": NAMED | {"payload": {}, "key": "a"}, "key": "b"}),
        ("memory_get", {"arguments": KEY, "key": "b"}),
        ("memory_get", {"arguments": [1, 2, 3]}),
        ("memory_list", {"arguments": [None]}),
        ("memory_list", {"arguments": ["ops", 1]}),
        ("memory_search", {"arguments": {"text": "x", "unknown": 1}}),
        ("memory_put_many", {"arguments": [1]}),
        ("memory_update", {"arguments": [*KEY, 1]}),
        ("memory_erase", {"arguments": KEY}),
        ("runs", {"limit": 0}),
        ("runs", {"limit": "x"}),
        ("receipt_add", {}),
        ("receipt_add", {"receipt": 1}),
        ("receipt_add", {"receipt": {"kind": "other", "data": {}}}),
        ("commit_run", {"run_id": "x"}),
        ("acl_read", {"x": 1}),
    ],
)
def test_bad_arguments_are_400_and_store_nothing(server: Served, name: str, body: Any) -> None:
    reply = server.command(name, body)
    assert reply.status == 400, reply
    assert server.space.version == 0


REQUEST = {"query": "sky", "store_paths": [], "budget": {"max_excerpt_tokens": 100}}


def test_a_retrieval_is_the_embedded_one_and_leaves_its_receipt(server: Served) -> None:
    memory: Any = rote.Memory(server.space)
    memory.put(*KEY, {"text": "the sky is blue"})
    request = {**REQUEST, "store_paths": [f"rote:{server.space.name}"]}
    for dropped in (None, "full"):
        wanted = rote.retrieve(request, store=server.store, dropped=dropped)
        before = len(server.store.receipts())
        reply = server.wire.command(
            "retrieve", {"request": request, "dropped": dropped}, space=None
        )
        assert (reply.status, reply.json) == (200, wanted)
        receipts = server.store.receipts()
        assert len(receipts) == before + 1 and receipts[-1] == receipts[-2]
    pinned = {**request, "store_paths": [f"rote:{server.space.name}@main:1"]}
    assert server.wire.command("retrieve", {"request": pinned}, space=None).status == 200
    lost = {**request, "store_paths": ["rote:nowhere"]}
    reply = server.wire.command("retrieve", {"request": lost}, space=None)
    assert (reply.status, reply.code) == (404, "store_not_found")


def test_files_are_denied_without_a_root(server: Served) -> None:
    for request in (
        {**REQUEST, "store_paths": ["notes.jsonl"]},
        {**REQUEST, "store_paths": ["/etc/passwd"]},
        {**REQUEST, "store_paths": [f"rote:{server.space.name}"],
         "trust_filter": {"trust_snapshot_path": "trust.json"}},
    ):  # fmt: skip
        reply = server.wire.command("retrieve", {"request": request}, space=None)
        assert (reply.status, reply.code) == (403, "outside_sandbox"), reply


def test_files_below_the_root_are_read_and_no_others(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    line = b'{"memory_id":"m1","text":"the sky","ts_utc":"2026-01-01T00:00:00Z","tags":[]}\n'
    (root / "a" / "notes.jsonl").write_bytes(line)
    (tmp_path / "secret.jsonl").write_bytes(line)
    (root / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (root / "folder").symlink_to(tmp_path)
    with served(retrieval_root=root) as server:

        def ask(path: str) -> Any:
            request = {**REQUEST, "store_paths": [path]}
            return server.wire.command("retrieve", {"request": request}, space=None)

        found = ask("a/notes.jsonl")
        assert found.status == 200, found
        assert len(found.json["selection"]["selected"]) == 1
        for path in ("../secret.jsonl", "link.jsonl", "folder/secret.jsonl", "/etc/passwd",
                     str(tmp_path / "secret.jsonl"), "a/../../secret.jsonl"):  # fmt: skip
            assert ask(path).status == 403, path
        for path in ("a/none.jsonl", "none/notes.jsonl"):
            assert ask(path).status == 404, path


def run_terms(server: Served) -> dict[str, Any]:
    return {"workflow_id": "w", "model": rote.ModelConfig("m", "1"), "policy_set_id": "p"}


def test_runs_are_the_ledger_of_the_space(server: Served) -> None:
    for _ in range(3):
        with server.space.run(**run_terms(server)):
            pass
    mine = server.space.name
    records = [run.to_dict() for run in server.store.runs()]
    page = server.command("runs", {"limit": 2})
    assert page.status == 200, (mine, page)
    assert len(page.json["runs"]) == 2
    rest = server.command("runs", {"after": page.json["next"]})
    found = page.json["runs"] + rest.json["runs"]
    assert rest.json["next"] is None
    by_id = {record["run_id"]: record for record in records}
    assert found == [by_id[run_id] for run_id in sorted(run["run_id"] for run in found)]
    assert len(found) == 3


def test_a_receipt_is_kept(server: Served) -> None:
    memory: Any = rote.Memory(server.space)
    memory.put(*KEY, {"text": "the sky is blue"})
    request = {**REQUEST, "store_paths": [f"rote:{server.space.name}"]}
    receipt = rote.receipt(rote.retrieve(request, store=server.store))
    before = len(server.store.receipts())
    assert server.command("receipt_add", {"receipt": receipt}).json == {}
    assert server.store.receipts()[-1] == receipt and len(server.store.receipts()) == before + 1


def test_the_acl_that_was_never_written_is_null(server: Served) -> None:
    assert server.command("acl_read").json == {"acl": None, "version": 0}


def pending_run(server: Served) -> tuple[str, int]:
    """Leave a run that is pending, as an owner does that is killed before its commit."""
    with server.space.run(**run_terms(server)) as run:
        pass
    port, did = port_of_store(server.store), server.space.did
    row = port.answer(did, GetSide(RUN, run.run_id))
    assert row is not None
    operations: list[dict[str, Any]] = [{"op": "set", "id": "urn:run", "value": 1}]
    body = structs.replace(
        run_in(row),
        state=COMMIT_PENDING,
        at=None,
        payload=PendingCommit(operations, [], []).text(),
        payload_fingerprint=payload_fingerprint("main", operations),
    )
    return run.run_id, port.answer(did, PutSide(RUN, run.run_id, body.body(), row.fence)).fence


def test_a_pending_run_is_committed_once_as_its_owner_would(server: Served) -> None:
    run_id, fence = pending_run(server)
    stale = server.command("commit_run", {"run_id": run_id, "fence": fence - 1})
    assert (stale.status, server.space.version) == (403, 0)
    reply = server.command("commit_run", {"run_id": run_id, "fence": fence})
    assert reply.status == 200, reply
    assert server.space.get("urn:run") == 1
    assert reply.json["version"] == server.space.version == 1
    assert reply.json["key"].startswith("rote:run:")
    (record,) = [each for each in server.store.runs() if each.run_id == run_id]
    assert (record.state, record.version) == ("commit_applied", 1)
    again = server.command("commit_run", {"run_id": run_id, "fence": fence})
    assert again.status == 403
    lost = server.command("commit_run", {"run_id": "nowhere", "fence": 1})
    assert lost.status == 404
    ended = server.command("commit_run", {"run_id": run_id, "fence": fence + 1})
    assert ended.status == 400 and server.space.version == 1


def test_a_run_that_would_write_something_else_is_refused(server: Served) -> None:
    run_id, fence = pending_run(server)
    port, did = port_of_store(server.store), server.space.did
    row = port.answer(did, GetSide(RUN, run_id))
    assert row is not None
    body = structs.replace(run_in(row), payload_fingerprint="0" * 64).body()
    fence = port.answer(did, PutSide(RUN, run_id, body, fence)).fence
    reply = server.command("commit_run", {"run_id": run_id, "fence": fence})
    assert (reply.status, server.space.version) == (400, 0)


def test_a_delete_that_is_repeated_has_still_deleted(server: Served) -> None:
    rote.Memory(server.space).put("long_term", "fact", "a", {})
    for way in ({"attempt": ATTEMPT}, {"attempt": ATTEMPT}):
        reply = server.command("memory_delete", {"arguments": KEY, **way})
        assert reply.json == {"ok": True, "deleted": True}
    assert server.command("memory_delete", {"arguments": KEY}).json["deleted"] is False

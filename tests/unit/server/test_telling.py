"""Health, readiness, metrics and the document of a server; each command and route is in them."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema_rs
import pytest

from rote.access.tokens import TokenRight
from rote.errors import Unavailable
from rote.server.table import ROUTES, ROWS
from rote.testing import SeededIds
from tests.served import Served, served
from tests.wires import Reply, Wire


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as found:
        found.space.set("urn:a", 1)
        yield found


@pytest.fixture(scope="module")
def document(server: Served) -> Any:
    with Wire(server.server.url) as nobody:
        reply = nobody.ask("GET", "/v1/openapi.json")
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert "max-age" in reply.headers["cache-control"]
    return reply.json


# -- health and readiness --------------------------------------------------------------------------


def test_health_needs_nobody(server: Served) -> None:
    with Wire(server.server.url) as nobody:
        for route, more in (("/health", {"server": server.server.did}), ("/ready", {})):
            reply = nobody.ask("GET", route)
            assert (reply.status, reply.json) == (200, {"status": "ok", **more})
            assert reply.headers["cache-control"] == "no-store"
            assert nobody.ask("GET", f"{route}?x=1").status == 400
            assert nobody.ask("POST", route, b"{}").status == 405


def test_a_store_that_does_not_answer_is_not_ready(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = server.server.service

    def fail(*_: object) -> None:
        raise Unavailable("the disk is gone", code="disk_full")

    with monkeypatch.context() as patch:
        patch.setattr(type(service.port), "answer", fail)
        service.ask_store()
    reply = server.wire.ask("GET", "/ready")
    assert (reply.status, reply.json) == (503, {"status": "unavailable", "reason": "disk_full"})
    assert reply.headers["retry-after"] == "1"
    assert server.wire.ask("GET", "/health").status == 200
    service.ask_store()
    assert server.wire.ask("GET", "/ready").status == 200


def test_a_full_or_stopping_server_is_not_ready(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = server.server.service
    with monkeypatch.context() as patch:
        patch.setattr(service, "is_overloaded", lambda: True)
        assert server.wire.ask("GET", "/ready").json["reason"] == "overloaded"
        patch.setattr(service, "is_stopping", True)
        with server.another() as wire:
            assert wire.ask("GET", "/ready").json["reason"] == "stopping"
    with server.another() as wire:
        assert wire.ask("GET", "/ready").status == 200


# -- metrics ---------------------------------------------------------------------------------------


def test_metrics_are_an_operators_and_count_what_happens(server: Served) -> None:
    def told() -> dict[str, float]:
        reply = server.wire.ask("GET", "/metrics")
        assert reply.status == 200
        assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
        lines = [line for line in reply.body.decode().splitlines() if line[0] != "#"]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    with Wire(server.server.url) as nobody:
        assert nobody.ask("GET", "/metrics").status == 401
    read = 'rote_requests_total{command="read",status="200"}'
    lost = 'rote_requests_total{command="read",status="404"}'
    before = told()
    server.command("read", {"ids": ["urn:a"]})
    server.wire.command("read", {"ids": ["urn:a"]}, space="nowhere")
    server.command("commit", {"operations": [{"op": "set", "id": "urn:b", "value": 1}]})
    after = told()
    assert after[read] == before.get(read, 0) + 1
    assert after[lost] == before.get(lost, 0) + 1
    committed = 'rote_commits_total{outcome="committed"}'
    assert after[committed] == before[committed] + 1
    assert after["rote_connections"] >= 1 and after["rote_watches"] == 0
    assert after['rote_request_seconds_count{command="read"}'] >= 2
    text = server.wire.ask("GET", "/metrics").body.decode()
    assert str(server.server.token) not in text and "nowhere" not in text and "urn:" not in text
    for name in (
        "rote_requests_in_flight", "rote_requests_waiting", "rote_buffered_bytes",
        "rote_watch_frames_total", "rote_log_dropped_total", "rote_commit_seconds_count",
        "process_cpu_seconds_total", "process_open_fds",
    ):  # fmt: skip
        assert name in after, name


def commits_told(server: Served) -> dict[str, int]:
    text = server.wire.ask("GET", "/metrics").body.decode()
    return {
        name: int(n) for name, n in re.findall(r'rote_commits_total{outcome="(\w+)"} (\d+)', text)
    }


def test_every_command_that_commits_is_counted_by_what_became_of_it(server: Served) -> None:
    server.new_space()
    record = {"namespace": "daily_log", "kind": "note", "id": "n", "payload": {}}
    entity = "entity?id=urn:a"
    asked: list[tuple[str | None, Callable[[], Reply]]] = [
        ("committed", lambda: server.ask("PUT", entity, b"1")),
        ("conflict", lambda: server.ask("PUT", entity, b"2", if_none_match="*")),
        ("refused", lambda: server.ask("PATCH", entity, b"[1]")),
        ("committed", lambda: server.ask("PUT", entity, b"3", idempotency_key="k")),
        ("replayed", lambda: server.ask("PUT", entity, b"3", idempotency_key="k")),
        ("committed", lambda: server.command("memory_put", {"arguments": record, "key": "m"})),
        ("replayed", lambda: server.command("memory_put", {"arguments": record, "key": "m"})),
        (None, lambda: server.command("memory_get", {"arguments": {
            name: record[name] for name in ("namespace", "kind", "id")}})),
        ("committed", lambda: server.command("create_branch", {"name": "b"})),
        (None, lambda: server.command("merge", {"source": "b"})),
        ("committed", lambda: server.ask("DELETE", entity)),
    ]  # fmt: skip
    for place, (outcome, ask) in enumerate(asked):
        before = commits_told(server)
        reply = ask()
        after = commits_told(server)
        counted = [name for name in after if after[name] != before[name]]
        assert counted == ([] if outcome is None else [outcome]), (place, reply.status, reply.body)


def test_the_commands_that_commit_are_those_that_write_to_a_log() -> None:
    writing = {row.name for row in ROWS if row.space and row.right in ("write", "owner")}
    assert {row.name for row in ROWS if row.commits} == writing - {
        "put_side", "drop_side", "drop_sides", "sides_out", "put_vectors", "vector_names",
        "vectors_out", "receipt_add", "blob_piece", "blob_drop", "blob_list", "find_written",
        "gc", "reindex", "copy_out", "foundation_out",
    }  # fmt: skip


# -- the document ----------------------------------------------------------------------------------


def operations(document: Any) -> Iterator[tuple[str, str, Any]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_every_command_and_route_is_in_the_document(document: Any) -> None:
    found = {(path, method) for path, method, _ in operations(document)}
    for row in ROWS:
        if row.way == "command":
            place = "/v1/spaces/{space}/" if row.space else "/v1/"
            assert (place + row.name, "post") in found, row.name
    for route in ROUTES:
        assert (route.pattern, route.method.lower()) in found, route.pattern
    assert document["x-rote-limits"]["body_bytes"] == 1 << 20
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(ids) == len(set(ids))


def test_every_row_that_is_on_the_wire_can_be_reached() -> None:
    routed = {route.row for route in ROUTES}
    for row in ROWS:
        assert row.way != "routes" or row.name in routed, row.name


def test_the_document_is_whole(document: Any) -> None:
    """References lead somewhere, and parameters of paths are declared."""
    text = document
    waiting = [document]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if "$ref" in part:
                place = text
                for name in part["$ref"].removeprefix("#/").split("/"):
                    place = place[name]
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    for path, method, operation in operations(document):
        declared = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
        assert declared == set(re.findall(r"\{(\w+)\}", path)), (path, method)
        names = [(each["in"], each["name"]) for each in operation["parameters"]]
        assert len(names) == len(set(names)), (path, method)
        assert {"200", "400", "401", "403", "404", "500", "503"} <= operation["responses"].keys()
        assert operation["security"] or operation["x-rote-right"] == "open"


def schema_of(document: Any, path: str, method: str) -> Any:
    content = document["paths"][path][method]["responses"]["200"]["content"]
    schema = content["application/json"]["schema"]
    return {**schema, "components": document["components"]}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read", {"ids": ["urn:a", "urn:none"]}), ("scan", {}), ("history", {"id": "urn:a"}),
        ("log", {}), ("head", {}), ("space", {}), ("branches", {}), ("verify", {}),
        ("glance", {"id": "urn:a"}), ("query", {"query": {"select": {"*": {}}}}),
        ("commit", {"operations": [{"op": "set", "id": "urn:c", "value": [1]}]}),
        ("merge", {"source": "main", "dry_run": True}), ("checkpoint", {}), ("gc", {}),
        ("memory_stats", {}), ("runs", {}), ("acl_read", {}), ("sides", {"kind": "note"}),
        ("settle", {"attempt": "ab" * 16}), ("blob_list", {}), ("copy_out", {"since": 0}),
    ],
)  # fmt: skip
def test_answers_are_as_the_document_says(
    server: Served, document: Any, name: str, arguments: Any
) -> None:
    reply = server.command(name, arguments)
    path = f"/v1/spaces/{{space}}/{name}"
    if reply.status == 200:
        validator = jsonschema_rs.Draft202012Validator(schema_of(document, path, "post"))
        assert [str(error) for error in validator.iter_errors(reply.json)] == []
    else:
        error = document["components"]["schemas"]["Error"]
        assert jsonschema_rs.is_valid(error, reply.json), reply
        assert str(reply.status) in document["paths"][path]["post"]["responses"]
        assert name in (
            "merge",
            "copy_out",
        )  # a branch into itself, and an argument that is missing


@pytest.mark.parametrize(
    ("name", "arguments", "member"),
    [
        ("glance", {"id": "urn:a", "sizes": {"": "draft"}}, "sizes"),
        ("glance", {"id": "urn:a", "values": {}}, "values"),
        ("glance", {"id": "urn:a", "values": [1]}, "values"),
        ("read", {"ids": {}}, "ids"),
        ("read", {"ids": [], "known": ""}, "known"),
        ("commit", {"operations": [], "reads": {}}, "reads"),
        ("commit", {"operations": [], "guards": ""}, "guards"),
        ("rehearse", {"operations": [], "now": 0, "own": []}, "own"),
        ("merge", {"source": "main", "resolutions": []}, "resolutions"),
        ("erase", {"reason": "", "ids": {}}, "ids"),
        ("postings", {"index": "words", "terms": {}}, "terms"),
    ],
)
def test_a_list_is_no_object_and_an_object_no_list(
    server: Served, document: Any, name: str, arguments: Any, member: str
) -> None:
    # `sizes` as an object was taken: its keys were read as pointers.
    reply = server.command(name, arguments)
    assert (reply.status, reply.json["error"]["code"]) == (400, "invalid_input")
    assert reply.json["error"]["details"] == {"key": member}
    assert not jsonschema_rs.is_valid(asked_schema(document, name), arguments)


def test_an_argument_may_leave_out_what_has_a_default(server: Served, document: Any) -> None:
    arguments = {"before": {}, "after": {"branch": "main"}}
    assert server.command("diff", arguments).status == 200
    assert jsonschema_rs.is_valid(asked_schema(document, "diff"), arguments)


def asked_schema(document: Any, name: str) -> Any:
    operation = document["paths"][f"/v1/spaces/{{space}}/{name}"]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    return {**schema, "components": document["components"]}


def test_a_malformed_argument_tells_nobody_that_a_space_is_there(server: Served) -> None:
    # `revoke` asks for no right before its arguments: a stranger was answered 400 where there is a space.
    token = TokenRight("read", server.store.space("elsewhere").did, None)
    home = server.server.service.home
    text, _ = home.create_token("stranger", token, now=0, expires=None, ids=SeededIds())
    with Wire(server.server.url, text) as stranger:
        here = stranger.command("revoke", {"more": 1}, space=server.space.name)
        nowhere = stranger.command("revoke", {"more": 1}, space="nowhere")
    assert here.status == nowhere.status == 404
    assert here.headers.keys() == nowhere.headers.keys()

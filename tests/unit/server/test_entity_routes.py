"""Entities by GET, PUT, PATCH and DELETE, compared with the embedded space."""

import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from rote.contract.commands import MakeCommit
from rote.kernel import Kernel
from rote.values import canonical
from tests.served import Served, served
from tests.wires import Reply

ID = "urn:note:ä+b&c=%20"
ATTEMPT = "0123456789abcdef" * 2


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as found:
        yield found


@pytest.fixture(autouse=True)
def space(server: Served) -> None:
    server.new_space()


def put(server: Served, value: Any, id: str = ID, **headers: Any) -> Reply:
    return server.ask("PUT", "entity", canonical(value), query={"id": id}, **headers)


def get(server: Served, id: str = ID, query: Any = None, **headers: Any) -> Reply:
    return server.ask("GET", "entity", query={"id": id, **(query or {})}, **headers)


@pytest.mark.parametrize("value", [{"a": [1, 1.5, None]}, [], "häß", 0, None, True, 1.5])
def test_a_value_that_is_put_is_got(server: Served, value: Any) -> None:
    reply = put(server, value)
    assert reply.status == 200
    state = server.space.read(ID)
    assert state.value == value and type(state.value) is type(value)
    (fact,) = server.space.commit(1).facts
    assert reply.headers["etag"] == f'"{fact.hash}"'
    assert reply.headers["rote-version"] == "1"
    assert reply.headers["rote-entity-version"] == "1"
    assert reply.json["version"] == 1 and reply.json["facts"][0]["hash"] == fact.hash
    found = get(server)
    assert (found.status, found.body) == (200, canonical(value))
    assert found.headers["content-type"] == "application/json"
    assert found.headers["etag"] == f'"{state.hash}"'
    assert found.headers["cache-control"] == "private, no-cache"


def test_what_is_not_there_is_404_and_what_was_deleted_says_so(server: Served) -> None:
    reply = get(server)
    assert (reply.status, reply.code) == (404, "not_found")
    assert "deleted" not in reply.json["error"]["details"]
    put(server, 1)
    deleted = server.ask("DELETE", "entity", query={"id": ID})
    assert deleted.status == 200
    state = server.space.read(ID)
    assert deleted.headers["etag"] == f'"{state.hash}"'
    reply = get(server)
    assert reply.status == 404
    assert reply.json["error"]["details"] == {"deleted": True, "version": 2, "hash": state.hash}
    assert server.ask("DELETE", "entity", query={"id": ID}).status == 404
    assert server.space.version == 2


def test_the_past_and_a_branch_are_read(server: Served) -> None:
    put(server, 1)
    put(server, 2)
    at = server.space.commit(1).at
    server.space.create_branch("draft")
    server.ask("PUT", "entity", b"3", query={"id": ID, "branch": "draft"})
    assert get(server, query={"at": 1}).body == b"1"
    assert get(server, query={"at": at}).body == b"1"
    assert get(server).body == b"2"
    assert get(server, query={"branch": "draft"}).body == b"3"
    assert server.space.on("draft").get(ID) == 3
    assert get(server, query={"branch": "none"}).status == 404
    assert get(server, query={"at": 99}).status == 404


def test_a_known_value_is_not_sent_again(server: Served) -> None:
    etag = put(server, {"a": 1}).headers["etag"]
    for header in (etag, f'"other", {etag}', f"W/{etag}", "*"):
        reply = get(server, if_none_match=header)
        assert (reply.status, reply.body) == (304, b""), header
        assert reply.headers["etag"] == etag
    assert get(server, if_none_match='"other"').status == 200
    assert get(server, if_none_match="other").status == 400


def test_head_is_get_without_a_body(server: Served) -> None:
    put(server, {"a": 1})
    reply = server.ask("HEAD", "entity", query={"id": ID})
    whole = get(server)
    assert (reply.status, reply.body) == (200, b"")
    for name in ("etag", "content-length", "content-type", "rote-version"):
        assert reply.headers[name] == whole.headers[name]


def test_a_write_under_if_match_is_made_only_on_the_newest(server: Served) -> None:
    first = put(server, 1).headers["etag"]
    second = put(server, 2, if_match=first).headers["etag"]
    stale = put(server, 3, if_match=first)
    assert (stale.status, stale.code) == (412, "conflict")
    assert stale.json["error"]["details"]["conflicts"][0]["actual_hash"] == second.strip('"')
    assert put(server, 3, if_match=f"{first}, {second}").status == 200
    assert put(server, 4, if_match="*").status == 200
    assert put(server, 1, id="urn:new", if_match="*").status == 412
    assert server.ask("DELETE", "entity", query={"id": ID}, if_match=first).status == 412
    assert server.space.get(ID) == 4 and server.space.get("urn:new") is None


def test_a_write_under_if_none_match_is_made_only_once(server: Served) -> None:
    assert put(server, 1, if_none_match="*").status == 200
    assert put(server, 2, if_none_match="*").status == 412
    server.ask("DELETE", "entity", query={"id": ID})
    assert put(server, 3, if_none_match="*").status == 200
    assert server.space.get(ID) == 3


def test_a_patch_is_applied_or_refused_whole(server: Served) -> None:
    put(server, {"a": 1})
    ops = canonical([{"op": "replace", "path": "/a", "value": 2}])
    for kind in ("application/json-patch+json", "application/json"):
        reply = server.ask("PATCH", "entity", ops, query={"id": ID}, content_type=kind)
        assert reply.status == 200
    assert server.space.get(ID) == {"a": 2}
    bad = canonical([{"op": "remove", "path": "/b"}])
    reply = server.ask("PATCH", "entity", bad, query={"id": ID})
    assert (reply.status, reply.code) == (422, "patch_failed")
    reply = server.ask("PATCH", "entity", b"{}", query={"id": ID})
    assert reply.status in (400, 422)
    assert server.ask("PATCH", "entity", ops, query={"id": "urn:none"}).status == 404
    assert server.space.version == 3


@pytest.mark.parametrize("header", [{"idempotency_key": "k1"}, {"rote_attempt": ATTEMPT}])
def test_a_repeated_write_gets_its_first_answer(server: Served, header: dict[str, str]) -> None:
    first = put(server, 1, **header)
    assert put(server, 1, **header).body == first.body
    other = put(server, 2, **header)
    assert (other.status, other.code) == (422, "payload_mismatch")
    assert server.space.version == 1


@pytest.mark.parametrize("header", [{"idempotency_key": "k1"}, {"rote_attempt": ATTEMPT}])
def test_a_repeated_write_under_a_condition_gets_its_first_answer(
    server: Served, header: dict[str, str]
) -> None:
    first = put(server, 1, if_none_match="*", **header)
    again = put(server, 1, if_none_match="*", **header)
    assert (again.status, again.body) == (200, first.body)
    assert put(server, 2, if_none_match="*", idempotency_key="k2").status == 412
    assert server.space.version == 1


@pytest.mark.parametrize(
    ("method", "query", "body"),
    [
        ("GET", "", None),
        ("GET", "id", None),
        ("GET", "id=urn:a&id=urn:a", None),
        ("GET", "id=urn:a&x=1", None),
        ("GET", "id=urn:a&at=x", None),
        ("GET", "id=urn:a&at=01", None),
        ("GET", "id=%zz", None),
        ("GET", "id=%ff", None),
        ("GET", "id=no-scheme", None),
        ("PUT", "id=urn:a", b""),
        ("PUT", "id=urn:a", b"{"),
        ("PUT", "id=urn:a", b'{"a":1,"a":2}'),
        ("PUT", "id=urn:a", b"NaN"),
        ("PUT", "id=urn:a&at=1", b"1"),
        ("PUT", "", b"1"),
        ("PUT", "id=urn:a&branch=%20", b"1"),
    ],
)
def test_bad_input_is_400_and_stores_nothing(
    server: Served, method: str, query: str, body: bytes | None
) -> None:
    target = f"/v1/spaces/{server.space.name}/entity?{query}"
    reply = server.wire.ask(method, target, body)
    assert reply.status == 400, reply
    assert reply.code in ("invalid_input", "invalid_value")
    assert server.space.version == 0


def test_of_writers_that_race_under_if_match_none_is_lost(server: Served) -> None:
    put(server, 0)
    target = f"/v1/spaces/{server.space.name}/entity?id={quote(ID)}"

    def add(times: int) -> None:
        with server.another() as wire:
            while times:
                seen = wire.ask("GET", target)
                body = canonical(seen.json + 1)
                times -= wire.ask("PUT", target, body, if_match=seen.headers["etag"]).status == 200

    threads = [threading.Thread(target=add, args=(10,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (server.space.get(ID), server.space.version) == (40, 41)


def test_a_write_between_the_look_and_the_commit_is_seen(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    etag = put(server, 1).headers["etag"]
    answer = Kernel.answer
    raced: list[Any] = []

    def racing(self: Kernel, space: str, command: Any) -> Any:
        if isinstance(command, MakeCommit) and not raced:
            raced.append(answer(self, space, MakeCommit([{"op": "set", "id": ID, "value": 2}])))
        return answer(self, space, command)

    with monkeypatch.context() as patch:
        patch.setattr(Kernel, "answer", racing)
        assert put(server, 3, if_match=etag).status == 412
    assert server.space.get(ID) == 2

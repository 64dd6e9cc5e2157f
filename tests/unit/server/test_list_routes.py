"""Lists of a space, as pages and as lines, compared with the embedded ones."""

from collections.abc import Iterator
from typing import Any

import pytest

import rote
from rote.bridges.exports import export_records
from rote.contract.wire import encode_value
from rote.values import canonical, decode
from tests.served import Served, served

LINES = "application/x-ndjson"
COUNT = 30


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as found:
        for number in range(COUNT):
            found.space.set(f"urn:n:{number:02}", {"n": number})
        for number in range(COUNT):
            found.space.patch("urn:n:00", [{"op": "replace", "path": "/n", "value": number + 100}])
        found.space.create_branch("draft")
        found.space.on("draft").set("urn:draft", 1)
        yield found


def lines(server: Served, route: str, **query: Any) -> list[Any]:
    reply = server.ask("GET", route, query=query, accept=LINES)
    assert reply.status == 200, reply
    assert reply.headers["content-type"] == LINES
    assert reply.headers["rote-version"] == str(server.space.version)
    assert not reply.body or reply.body.endswith(b"\n")
    return [decode(line) for line in reply.body.splitlines()]


def plain(value: Any) -> Any:
    return decode(encode_value(value))


def test_entities_are_those_of_a_scan(server: Served) -> None:
    states = [plain(state) for state in server.space.scan("urn:n:")]
    page = server.ask("GET", "entities", query={"prefix": "urn:n:"}).json
    assert page == {"states": states, "version": server.space.version, "next": None}
    page = server.ask("GET", "entities", query={"prefix": "urn:n:", "limit": 3}).json
    assert page["states"] == states[:3] and page["next"] == states[2]["id"]
    page = server.ask("GET", "entities", query={"after": page["next"], "limit": 3}).json
    assert page["states"] == states[3:6]
    at = server.ask("GET", "entities", query={"at": 5}).json
    assert at["states"] == [plain(state) for state in server.space.at(5).scan()]
    draft = server.ask("GET", "entities", query={"branch": "draft", "prefix": "urn:d"}).json
    assert [state["id"] for state in draft["states"]] == ["urn:draft"]


def test_entities_as_lines_are_all_of_them(server: Served) -> None:
    states = [plain(state) for state in server.space.scan()]
    assert lines(server, "entities") == states
    assert lines(server, "entities", limit=4) == states[:4]
    assert lines(server, "entities", limit=0) == []
    assert lines(server, "entities", prefix="urn:n:1") == states[10:20]
    assert lines(server, "entities", at=7) == [plain(each) for each in server.space.at(7).scan()]
    assert lines(server, "entities", prefix="urn:none") == []


def test_lines_are_of_one_state_whoever_writes_meanwhile(server: Served) -> None:
    server.new_space()
    server.space.transact(
        [
            {"op": "set", "id": f"urn:big:{number:04}", "value": "x" * 2_000}
            for number in range(1500)
        ]
    )
    target = f"/v1/spaces/{server.space.name}/entities"
    with server.another() as wire:
        wire.send(wire.request("GET", target, accept=LINES))
        wire.head()
        chunks = wire.chunks()
        first = next(chunks)
        for number in range(1500, 1510):
            server.space.set(f"urn:big:{number:04}", 1)
        server.space.set("urn:big:1499", 2)
        body = first + b"".join(chunks)
    found = [decode(line) for line in body.splitlines()]
    assert len(found) == 1500 and {state["version"] for state in found} == {1}


def test_history_is_the_embedded_one(server: Served) -> None:
    server.space = server.first
    facts = [plain(fact) for fact in server.space.history("urn:n:00")]
    page = server.ask("GET", "history", query={"id": "urn:n:00", "limit": 5}).json
    assert page["facts"] == facts[:5]
    before = ".".join(map(str, page["next"]))
    page = server.ask("GET", "history", query={"id": "urn:n:00", "before": before}).json
    assert page == {"facts": facts[5:], "next": None}
    assert lines(server, "history", id="urn:n:00") == facts
    assert lines(server, "history", id="urn:n:00", limit=7) == facts[:7]
    assert lines(server, "history", id="urn:never") == []
    assert lines(server, "history", id="urn:draft", branch="draft")[0]["body"] == 1


def test_the_log_is_the_embedded_one(server: Served) -> None:
    commits = [plain(commit) for commit in server.space.log()]
    assert server.ask("GET", "log").json == {"commits": commits}
    page = server.ask("GET", "log", query={"since": 3, "before": 9, "limit": 4}).json
    assert page["commits"] == commits[3:7]
    page = server.ask("GET", "log", query={"newest": "true", "limit": 2}).json
    assert page["commits"] == commits[:-3:-1]
    assert lines(server, "log") == commits
    assert lines(server, "log", newest="true") == commits[::-1]
    assert lines(server, "log", since=5, before=8) == commits[5:7]
    assert lines(server, "log", limit=3) == commits[:3]


def test_a_compacted_log_begins_with_the_oldest(server: Served) -> None:
    space = server.new_space()
    for number in range(6):
        space.set("urn:a", number)
    space.compact(before=4)
    kept = [plain(commit) for commit in space.log(since=None)]
    assert lines(server, "log") == kept
    reply = server.ask("GET", "log", query={"since": 0}, accept=LINES)
    assert (reply.status, reply.code) == (410, "compacted")
    assert server.ask("GET", "log").status == 410


def test_small_answers_are_the_embedded_ones(server: Served) -> None:
    server.space = server.first
    space = server.space
    assert server.ask("GET", "branches").json == {
        "branches": [plain(branch) for branch in space.branches()]
    }
    assert server.ask("GET", "head").json["hash"] == space.head
    assert server.ask("GET", "head", query={"at": 3}).json["version"] == 3
    at = space.commit(4).at
    assert server.ask("GET", "head", query={"at": at}).json["version"] == 4
    assert server.ask("GET", "verify").json == plain(space.verify())
    assert server.ask("GET", "acl").json == {"acl": None, "version": 0}
    about = server.wire.ask("GET", f"/v1/spaces/{space.name}")
    assert about.json["did"] == space.did and about.json["version"] == space.version
    by_did = server.wire.ask("GET", f"/v1/spaces/{space.did}")
    assert by_did.body == about.body


def test_spaces_are_listed_and_made(server: Served) -> None:
    listed = server.wire.ask("GET", "/v1/spaces").json
    assert listed == {
        "spaces": [{"did": each.did, "name": each.name} for each in server.store.spaces()],
        "next": None,
    }
    made = server.wire.ask("PUT", "/v1/spaces/fresh", b"")
    assert made.status == 200
    assert made.json == {"did": server.store.space("fresh").did, "name": "fresh"}
    assert server.wire.ask("PUT", "/v1/spaces/fresh", b"").body == made.body
    assert server.wire.ask("PUT", "/v1/spaces/other", b'{"a":1}').status == 400
    page = server.wire.ask("GET", "/v1/spaces?limit=1").json
    assert len(page["spaces"]) == 1 and page["next"] == page["spaces"][0]["name"]


def test_an_export_is_that_of_the_bridge(server: Served) -> None:
    space = server.new_space()
    memory = rote.Memory(space, namespaces=["long_term", "mine"])
    for number in range(5):
        memory.put("mine", "k", str(number), {"text": f"t{number}"})
        memory.put("long_term", "k", str(number), {"n": number}, metadata={"tags": ["a"]})
    reply = server.ask("GET", "export", query={"format": "jsonl"})
    assert (reply.status, reply.headers["content-type"]) == (200, LINES)
    wanted = b"".join(canonical(record) + b"\n" for record in export_records(memory))
    assert reply.body == wanted and wanted.count(b"\n") == 10
    memory.delete("mine", "k", "0")
    before = server.ask("GET", "export", query={"format": "jsonl", "at": 10})
    assert before.body == wanted
    assert server.ask("GET", "export", query={"format": "csv"}).status == 400
    assert server.ask("GET", "export").status == 400


@pytest.mark.parametrize(
    "target",
    [
        "entities?limit=-1", "entities?limit=1.0", "entities?limit=x", "entities?prefix=%C3",
        "entities?after=a&after=b", "entities?branch=", "history", "history?id=urn:a&before=1",
        "history?id=urn:a&before=1.x", "log?newest=1", "log?since=", "log?since=99999999999999999999",
        "branches?version=x", "head?at=yesterday", "head?x", "verify?against=1", "acl?x=1",
    ],
)  # fmt: skip
@pytest.mark.parametrize("accept", ["application/json", LINES])
def test_bad_parameters_are_400(server: Served, target: str, accept: str) -> None:
    reply = server.wire.ask("GET", f"/v1/spaces/{server.first.name}/{target}", accept=accept)
    assert reply.status == 400, reply


def test_what_is_not_there_is_404_also_as_lines(server: Served) -> None:
    for route in ("entities", "log", "head", "export?format=jsonl", "watch?query=%7B%7D"):
        reply = server.wire.ask("GET", f"/v1/spaces/nowhere/{route}", accept=LINES)
        assert reply.status == 404, route
    target = f"/v1/spaces/{server.first.name}/entities?branch=none"
    assert server.wire.ask("GET", target, accept=LINES).status == 404


def test_lines_of_the_log_end_where_it_ended(server: Served) -> None:
    server.new_space()
    for number in range(12):
        server.space.set("urn:big", "x" * 1_000_000 + str(number))
    with server.another() as wire:
        wire.send(wire.request("GET", f"/v1/spaces/{server.space.name}/log", accept=LINES))
        wire.head()
        chunks = wire.chunks()
        first = next(chunks)
        for number in range(5):
            server.space.set("urn:small", number)
        lines = (first + b"".join(chunks)).splitlines()
    assert [decode(line)["version"] for line in lines] == list(range(1, 13))

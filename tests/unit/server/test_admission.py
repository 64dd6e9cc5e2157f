"""Admission: refusals that say nothing, paths, spaces, and rights that are lost in flight."""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest
from msgspec import Struct

import rote
from rote.access.tokens import TokenRight
from rote.contract.commands import GetSide, Read
from rote.errors import Corrupt
from rote.opening.sources import SystemClock, SystemIds
from rote.space import Space
from rote.testing.intercepting import intercept
from rote.testing.keys import did_of, lend
from rote.testing.postgres import database_url
from rote.testing.serving import serving
from rote.values import micros_of
from tests.callers import Caller, Served, Server, Signer, bearer, serving_notes, told
from tests.lanes import examples
from tests.wires import Reply, Wire

ROTE = Path(sys.executable).with_name("rote")
A, B = "urn:entity:a", "urn:other:b"
ADA, BEN, CYD = did_of("ada"), did_of("ben"), did_of("cyd")


@pytest.fixture
def served() -> Iterator[Served]:
    with serving_notes() as served:
        yield served


def told_of(reply: Reply) -> tuple[int, bytes, dict[str, str]]:
    """Return all that an answer tells, but for its request id and its date."""
    headers = {
        name: value for name, value in reply.headers.items() if name not in ("date", "rote-request")
    }
    return reply.status, reply.body, headers


# -- refusals that say nothing ------------------------------------------------------------------


def test_no_right_and_no_space_have_the_same_answer(served: Served) -> None:
    served.store.space("exist")
    commands: list[tuple[str, Any]] = [
        ("read", {"ids": [A]}),
        ("commit", {"operations": [{"op": "set", "id": A, "value": 1}]}),
        ("commit", {"operations": "nonsense"}),
        ("acl_read", {}),
        ("acl_write", {"acl": {}}),
        ("revoke", {"id": "0" * 64}),
        ("revoke", {"delegation": {}}),
        ("erase", {"id": A, "reason": "x"}),
        ("memory_get", {}),
        ("merge", {"source": "x"}),
        ("gc", {}),
        ("put_side", {"kind": "nonce", "key": "x", "body": 1, "fence": 0}),
    ]
    routes = [
        ("GET", f"/entity?id={A}"), ("PUT", f"/entity?id={A}"), ("GET", "/entities"), ("GET", "/log"),
        ("GET", "/acl"), ("GET", ""), ("PUT", ""), ("GET", "/blobs/" + "0" * 64), ("GET", "/watch?query={}"),
        ("GET", "/export?format=jsonl"), ("GET", "/head"),
    ]  # fmt: skip
    strangers = [
        Signer(served.server, "eve").granted(),
        served.token("elsewhere", right="owner", space=did_of("x")),
    ]
    for caller in strangers:
        for name, given in commands:
            answers = [
                told_of(caller.command(name, given, space=each)) for each in ("exist", "absnt")
            ]
            assert answers[0][0] == 404, name
            assert answers[0][1].replace(b"exist", b"absnt") == answers[1][1], name
            assert answers[0][2] == answers[1][2], name
        for method, target in routes:
            body = b"1" if (method, target[:7]) == ("PUT", "/entity") else None
            answers = [
                told_of(caller.ask(method, f"/v1/spaces/{each}{target}", body))
                for each in ("exist", "absnt")
            ]
            assert answers[0][0] == 404, target
            assert answers[0][1].replace(b"exist", b"absnt") == answers[1][1], target
            assert answers[0][2] == answers[1][2], target


def test_a_void_chain_has_the_same_answer_for_a_space_that_is_not_there(served: Served) -> None:
    served.store.space("exist")
    guest = Signer(served.server, "guest", proofs=[served.lend("eve", "guest")]).granted()
    for space in ("notes", "exist", "absent"):
        assert told(guest.read(A, space=space)) == (401, {"reason": "proofs", "why": "space"})
    late = Signer(served.server, "guest", proofs=[served.lend("ada", "guest", begins=60)]).granted()
    for space in ("notes", "absent"):
        assert told(late.read(A, space=space)) == (401, {"reason": "proofs", "why": "time"})


def test_the_space_of_the_server_is_not_there_for_anybody(served: Served) -> None:
    for caller in (served.operator, served.ada, served.token("all", right="owner")):
        for space in ("rote.server", served.server.did):
            assert caller.read(A, space=space).status == 404
            assert caller.ask("PUT", f"/v1/spaces/{space}").status == 404
    listed = served.operator.command("spaces", space=None).json["spaces"]
    assert [each["name"] for each in listed] == ["notes"]
    erased = {"space": "rote.server", "reason": "x", "confirm": "rote.server"}
    assert served.operator.command("space_erase", erased, space=None).status == 404


def test_outside_the_path_nothing_says_whether_something_exists(served: Served) -> None:
    guest = served.token("guest", right="write", path="urn:entity:")
    for id in (B, "urn:other:none"):
        for reply in (guest.read(id), guest.read(A, id), guest.set(id)):
            assert reply.status == 403
            assert reply.json["error"]["details"]["path_rule"] == "ids"
        entity = guest.ask("GET", f"/v1/spaces/notes/entity?id={id}")
        assert told(entity) == (403, {"command": "read", "path_rule": "ids"})
        put = guest.ask("PUT", f"/v1/spaces/notes/entity?id={id}", b"1")
        assert told(put) == (403, {"command": "entity_put", "path_rule": "ids"})
        deleted = guest.ask("DELETE", f"/v1/spaces/notes/entity?id={id}")
        assert told(deleted) == (403, {"command": "entity_delete", "path_rule": "ids"})
    assert guest.ask("GET", f"/v1/spaces/notes/entity?id={A}").json == 1
    assert guest.ask("PUT", f"/v1/spaces/notes/entity?id={A}", b"2").status == 200
    assert guest.ask("GET", "/v1/spaces/notes/entities?prefix=urn:entity:").status == 200
    assert guest.ask("GET", "/v1/spaces/notes/entities?prefix=urn:").status == 403
    assert guest.ask("GET", "/v1/spaces/notes/log").status == 403
    read = {"id": B, "version": 1}
    for reads in (
        [read],
        [{"prefix": "urn:", "version": 1}],
        [{"from": "a", "to": None, "version": 1}],
    ):
        assert guest.set(A, reads=reads).status == 403
    assert guest.set(A, reads=[{"prefix": "urn:entity:", "version": 9}]).status != 403
    assert guest.set(A, guards=[{"kind": "note", "key": "k", "fence": 0, "body": 1}]).status == 403


def test_links_that_lead_outside_the_path_are_missing(served: Served) -> None:
    link = {"/": {"link@1": {"id": B}}}
    served.notes.set(A, {"to": link})
    guest = served.token("guest", right="read", path="urn:entity:")
    query = {"select": {"urn:entity:*": {"schema": True}}}
    found = guest.command("query", {"query": query}).json
    assert (list(found["facts"]), found["missing"]) == ([A], [B])
    assert list(served.operator.command("query", {"query": query}).json["facts"]) == [A, B]
    assert guest.command("values", {"query": query}).json["values"] == {A: {"to": link}}
    assert guest.command("query", {"query": {"select": {"*": {}}}}).status == 403


@pytest.mark.parametrize("member", ["only_if", "path"])
def test_what_the_server_adds_to_commands_is_not_for_clients(served: Served, member: str) -> None:
    given: dict[str, Any] = {"query": {"select": {}}, "path": "urn:"}
    if member == "only_if":
        given = {"name": "x", "only_if": {"id": A, "version": 1}}
    reply = served.operator.command("query" if member == "path" else "create_branch", given)
    assert (reply.status, reply.code) == (400, "invalid_input")


# -- spaces -------------------------------------------------------------------------------------


def test_only_spaces_with_a_right_are_listed(served: Served) -> None:
    other = served.store.space("other")
    other.grant(CYD, "owner")

    def names(caller: Caller) -> list[str]:
        return [each["name"] for each in caller.command("spaces", space=None).json["spaces"]]

    assert names(served.operator) == ["notes", "other"]
    assert names(served.ada) == ["notes"]
    assert names(Signer(served.server, "cyd").granted()) == ["other"]
    assert names(Signer(served.server, "eve").granted()) == []
    assert names(served.token("one", right="read", space=other.did)) == ["other"]
    assert names(served.token("all", right="read")) == ["notes", "other"]


def test_pages_of_spaces_name_no_other(served: Served) -> None:
    for name in ("a", "m", "n", "o", "z"):
        space = served.store.space(name)
        if name in "mo":
            space.grant(CYD, "read")
    cyd = Signer(served.server, "cyd").granted()
    found, after = [], None
    for _ in range(3):
        page = cyd.command("spaces", {"limit": 1, "after": after}, space=None).json
        found += [each["name"] for each in page["spaces"]]
        after = page["next"]
        assert after in (None, "m", "o")
        if after is None:
            break
    assert (found, after) == (["m", "o"], None)


def test_rules_that_cannot_be_read_let_nobody_in(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(space: str, command: Any, answer: object) -> None:
        raise Corrupt("a planted fault")

    intercept(monkeypatch, served.server.service.port, Read, damaged)
    assert served.ben.read(A).status == 503
    monkeypatch.undo()
    assert served.ben.read(A).status == 200
    intercept(monkeypatch, served.server.service.home._port, GetSide, damaged)
    assert served.ben.read(A).status == 503


def test_operators_make_spaces_and_others_see_theirs(served: Served) -> None:
    create = {"name": "notes"}
    assert served.ada.command("space_create", create, space=None).json["did"] == served.notes.did
    for caller in (served.ada, served.token("all", right="owner")):
        assert caller.command("space_create", {"name": "new"}, space=None).status == 404
    eve = Signer(served.server, "eve").granted()
    replies = [
        eve.command("space_create", {"name": name}, space=None) for name in ("notes", "absnt")
    ]
    assert replies[0].body.replace(b"notes", b"absnt") == replies[1].body
    assert served.operator.command("space_create", {"name": "new"}, space=None).status == 200
    assert served.store.space("new").version == 0


def test_with_open_creation_a_did_owns_what_it_makes(served: Served) -> None:
    with serving(served.store, auth=("token", "did"), open_creation=True) as server:
        eve = Signer(server, "eve").granted()
        made = eve.command("space_create", {"name": "hers"}, space=None)
        assert made.status == 200
        space = served.store.space("hers")
        assert [commit.author for commit in space.log()] == [did_of("eve")]
        assert (space.acl() or {})["grants"] == {did_of("eve"): "owner"}
        assert eve.set(A, space="hers").status == 200
        assert eve.command("space_create", {"name": "hers"}, space=None).json == made.json
        assert eve.command("space_create", {"name": "notes"}, space=None).status == 404
        assert Signer(server, "ben").granted().read(A, space="hers").status == 404
        token, _ = server.service.home.create_token(
            "t", TokenRight("owner"), now=0, expires=None, ids=SystemIds()
        )
        assert (
            bearer(server, token).command("space_create", {"name": "x"}, space=None).status == 404
        )


# -- in flight ----------------------------------------------------------------------------------


def test_a_watch_ends_when_its_right_is_lost(served: Served) -> None:
    query = '{"select":{"urn:entity:*":{}}}'
    target = f"/v1/spaces/notes/watch?query={query.replace(chr(34), '%22')}"
    served.notes.grant(CYD, "read")
    cyd = Signer(served.server, "cyd").granted()
    with Wire(served.server.url) as wire:
        headers: dict[str, str | None] = {**cyd.headers("GET", target, None)}
        wire.send(wire.request("GET", target, None, accept="application/x-ndjson", **headers))
        status, _ = wire.head()
        assert status == 200
        pieces = wire.chunks()
        assert b"upserts" in next(pieces)
        served.notes.withdraw(CYD)
        served.notes.set(A, "secret")
        last = next(pieces)
        assert b"secret" not in last
        assert b'"error"' in last


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
@pytest.mark.parametrize("way", ["acl", "delegation"])
def test_no_commit_above_a_revocation_was_allowed_by_the_acl_before(
    tmp_path: Path, way: str, engine: str
) -> None:
    """Two servers on one store; writers hammer one while the other takes their right away."""
    url = str(tmp_path / "store.db") if engine == "sqlite" else database_url(tmp_path)
    with rote.open(url, durability="os") as first, rote.open(url, durability="os") as second:
        for number in range(examples(1, 30)):
            notes = first.space(f"notes-{number}")
            notes.grant(ADA, "owner")
            notes.grant(BEN, "write")
            with serving(first, auth=("did",)) as near, serving(second, auth=("did",)) as far:
                _hammer(near, far, notes, way)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["acl", "delegation"])
def test_the_same_holds_for_servers_in_processes_of_their_own(tmp_path: Path, way: str) -> None:
    path = tmp_path / "store.db"
    with rote.open(path) as store, process_of(path) as near, process_of(path) as far:
        for number in range(20):
            notes = store.space(f"notes-{number}")
            notes.grant(ADA, "owner")
            notes.grant(BEN, "write")
            _hammer(near, far, notes, way)


class ServerProcess(Struct):
    """A server in a process of its own."""

    url: str
    did: str


@contextmanager
def process_of(path: Path) -> Iterator[ServerProcess]:
    words = ["serve", "--store", str(path), "--port", "0", "--auth", "did", "--access-log", "none"]
    with Popen([ROTE, *words, "--json"], stdout=PIPE) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        try:
            yield ServerProcess(told["url"], told["did"])
        finally:
            process.terminate()


def _hammer(near: Server, far: Server, notes: Space, way: str, *, writers: int = 4) -> None:
    now = micros_of(SystemClock().now())
    proof = lend("ben", "cyd", space=notes.did, now=now)
    name, proofs = ("ben", []) if way == "acl" else ("cyd", [proof])
    callers = [Signer(near, name, proofs=proofs).granted() for _ in range(writers)]
    owner = Signer(far, "ada").granted()
    begun, has_begun, done = (
        threading.Barrier(writers + 1),
        threading.Event(),
        threading.Event(),
    )
    statuses: list[int] = []

    def write(caller: Caller, number: int) -> None:
        begun.wait()
        count = 0
        while not done.is_set() or count < 5:
            count += 1
            reply = caller.set(f"urn:{number}:{count}", space=notes.name)
            statuses.append(reply.status)
            if len(statuses) >= 4 * writers:
                has_begun.set()
            if reply.status != 200:
                return

    threads = [
        threading.Thread(target=write, args=each)
        for each in zip(callers, range(writers), strict=True)
    ]
    for thread in threads:
        thread.start()
    begun.wait()
    assert has_begun.wait(30)
    if way == "acl":
        acl = {"kind": "acl/1", "grants": {ADA: "owner"}}
        answered = owner.command("acl_write", {"acl": acl}, space=notes.name)
    else:
        answered = owner.command("revoke", {"delegation": proof}, space=notes.name)
    done.set()
    for thread in threads:
        thread.join()
    assert answered.status == 200
    version = answered.json["version"]
    authors = [commit.author for commit in notes.log(since=version)]
    assert authors == []
    assert set(statuses) <= {200, 401, 404}
    assert statuses.count(200) >= 3 * writers

"""Steps of `/v1/sync`: what they hold, when they come, how they flow, and when they end."""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rote
from rote.contract.commands import Read
from rote.errors import Corrupt
from rote.server import serving as serving_module
from rote.server.authentication import Opener
from rote.sessions import flow as flow_module
from rote.sessions import steps as steps_module
from rote.testing.frames import Folded
from rote.testing.intercepting import intercept
from rote.testing.keys import did_of
from rote.testing.serving import serving
from tests.callers import ADA, BEN
from tests.callers import Served as Rights
from tests.served import Served, served
from tests.syncs import EVERYTHING, SyncLine

NOTES: Any = {"select": {"urn:n:*": {}}}
ONE: Any = {"select": {"urn:n:1": {"schema": True}}}


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as found:
        yield found


@pytest.fixture(autouse=True)
def space(server: Served) -> None:
    server.new_space()


@pytest.fixture
def line(server: Served) -> Iterator[SyncLine]:
    with SyncLine(server.server.url) as found:
        yield found


def opened(server: Served, line: SyncLine, **members: Any) -> Any:
    return line.open(server.space.name, server.server.token, **members)


def frames_of(parts: list[Any]) -> dict[str, Any]:
    """Return the frames in the parts of a step, by watch."""
    frames: dict[str, Any] = {}
    for part in parts:
        for name, told in part["watches"].items():
            frame = frames.setdefault(
                name, {"from": told["from"], "to": part["to"], "upserts": [], "removes": []}
            )
            assert frame["from"] == told["from"]
            for place in told["upserts"]:
                state = dict(part["states"][place])
                del state["branch"]
                frame["upserts"].append(state)
            frame["removes"] += told["removes"]
            if "truncated" in told:
                frame["truncated"] = told["truncated"]
    return frames


def step_of(line: SyncLine) -> list[Any]:
    """Return the parts of the next step, and acknowledge it."""
    parts = [line.take()]
    while parts[-1]["more"]:
        parts.append(line.take())
    assert len({part["to"] for part in parts}) == 1
    return parts


def mark(space: Any) -> dict[str, Any]:
    return {"version": space.version, "hash": space.head}


def test_a_step_has_the_frames_of_embedded_watches_and_each_entity_once(
    server: Served, line: SyncLine
) -> None:
    space = server.space
    space.set("urn:n:1", {"to": {"/": {"link@1": {"id": "urn:n:2"}}}})
    space.set("urn:n:2", 2.5)
    queries = {"all": EVERYTHING, "notes": NOTES, "one": ONE, "none": {"select": {"urn:x*": {}}}}
    embedded = {name: space.watch(query, timeout=0) for name, query in queries.items()}
    opened(server, line, watches=queries)
    (part,) = step_of(line)
    assert [state["id"] for state in part["states"]] == ["urn:n:1", "urn:n:2"]
    assert {state["branch"] for state in part["states"]} == {"main"}
    assert (part["hash"], part["at"]) == (space.head, part["at"])
    assert (part["decided"], part["erased"]) == (0, 0)
    assert frames_of([part]) == {name: next(watch) for name, watch in embedded.items()}
    space.delete("urn:n:2")
    (part,) = step_of(line)
    frames = frames_of([part])
    assert frames == {name: next(embedded[name]) for name in ("all", "notes", "one")}
    erased = space.erase("urn:n:1", reason="test").commit.version
    (part,) = step_of(line)
    assert part["erased"] == erased


def test_entities_of_two_branches_are_two_states(server: Served, line: SyncLine) -> None:
    server.space.set("urn:n:1", 1)
    server.space.create_branch("draft").set("urn:n:1", 2)
    opened(server, line, watches={"a": NOTES, "b": {**NOTES, "branch": "draft"}})
    (part,) = step_of(line)
    assert [(each["branch"], each["value"]) for each in part["states"]] == [
        ("draft", 2),
        ("main", 1),
    ]
    assert frames_of([part])["a"]["upserts"][0]["value"] == 1


def test_a_large_step_comes_in_parts_of_bounded_size(
    server: Served, line: SyncLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps_module, "SYNC_PART_BYTES_MAX", 20_000)
    space = server.space
    space.transact([{"op": "set", "id": f"urn:n:{n:04}", "value": n} for n in range(2_500)])
    space.transact([{"op": "set", "id": f"urn:big:{n}", "value": "x" * 6_000} for n in range(8)])
    queries = {"a": {**EVERYTHING, "max_entities": 10_000}, "b": {**NOTES, "max_entities": 10_000}}
    opened(server, line, watches=queries)
    parts = step_of(line)
    assert len(parts) > 4
    for part in parts:
        assert len(part["states"]) <= 1_000
        assert sum(len(str(state["value"])) for state in part["states"]) <= 20_000
    frames = frames_of(parts)
    for name, query in queries.items():
        assert frames[name] == next(space.watch(query, timeout=0))
    space.transact([{"op": "delete", "id": f"urn:n:{n:04}"} for n in range(2_500)])
    assert frames_of(step_of(line))["b"]["removes"] == [f"urn:n:{n:04}" for n in range(2_500)]


def test_a_client_that_acknowledges_nothing_gets_two_steps_and_then_one(
    server: Served, line: SyncLine
) -> None:
    opened(server, line, watches={"a": NOTES})
    (session,) = server.server.app.sessions._connections
    folded = Folded()
    for number in range(2):
        folded.take(frames_of([line.push()])["a"])
        server.space.set("urn:n:1", number)
    for number in range(20):
        server.space.set(f"urn:n:{number}", [number])
        assert session.unacknowledged <= 2
    reached = line.ask("watch.add", watches={})["version"]
    assert reached == folded.version != server.space.version
    assert not line.kept
    line.ask("ack", to=folded.version)
    (part,) = step_of(line)
    assert (part["watches"]["a"]["from"], part["to"]) == (reached, server.space.version)
    folded.take(frames_of([part])["a"])
    assert folded.facts == server.space.query(NOTES)["facts"]
    line.ask("ack", to=0)  # it never goes back
    server.space.set("urn:n:1", "more")
    step_of(line)


def test_an_answer_to_watch_add_says_how_far_all_steps_have_come(
    server: Served, line: SyncLine
) -> None:
    opened(server, line, watches={"a": NOTES})
    step_of(line)
    for number in range(5):
        server.space.set("urn:n:1", number)
        assert line.ask("watch.add", watches={}) == {"version": server.space.version}
        assert frames_of([line.kept[-1]])["a"]["upserts"][0]["value"] == number
        step_of(line)


def test_a_client_that_takes_no_byte_is_cut() -> None:
    with served(write_seconds=0.3) as server, SyncLine(server.server.url) as line:
        line.socket.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        server.space.transact(
            [{"op": "set", "id": f"urn:n:{n}", "value": "x" * 2**20} for n in range(16)]
        )
        line.hello()
        stuck = line.socket.socket
        opening = {"space": server.space.name, "auth": {"token": server.server.token}}
        # Its library reads by a thread of its own, which waits for this test from the first step on.
        line.tell("session.open", ephemeral=True, watches={"a": NOTES}, **opening)
        with line.socket.protocol_mutex:
            sessions = server.server.app.sessions
            while not sessions.count:
                server.wire.ask("GET", "/health")
            while sessions.count:
                server.wire.ask("GET", "/health")
        assert stuck.fileno() >= 0
        assert server.server.app.buffered.size_bytes == 0


def test_a_step_without_anything_to_say_comes_now_and_then(
    server: Served, line: SyncLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_module, "SYNC_EMPTY_SECONDS", 0.5)
    opened(server, line, watches={"a": NOTES})
    step_of(line)
    begun = server.server.app.monotonic()
    for _ in range(2):
        server.space.set("urn:other", begun)
        server.space.set("urn:other", 1)
        version = server.space.version
        (part,) = step_of(line)
        assert (part["states"], part["watches"], part["more"]) == ([], {}, False)
        assert (part["to"], part["hash"]) == (version, server.space.head)
    assert server.server.app.monotonic() - begun > 0.9


def test_a_session_without_watches_hears_how_far_the_space_has_come(
    server: Served, line: SyncLine
) -> None:
    opened(server, line)
    server.space.set("urn:n:1", 1)
    (part,) = step_of(line)
    assert (part["to"], part["watches"]) == (1, {})


# -- going on --------------------------------------------------------------------------------------


def test_what_was_seen_is_not_sent_again(server: Served, line: SyncLine) -> None:
    for number in range(3):
        server.space.set(f"urn:n:{number}", number)
    seen = mark(server.space)
    opened(server, line, watches={"a": NOTES}, seen=seen)
    (part,) = step_of(line)
    assert part["watches"] == {"a": {"from": 3, "upserts": [], "removes": []}}
    server.space.set("urn:n:1", "new")
    (part,) = step_of(line)
    assert frames_of([part])["a"]["from"] == 3
    line.ask("watch.set", watches={"b": NOTES}, since=seen)
    (part,) = step_of(line)
    assert frames_of([part]).keys() == {"b"}
    assert frames_of([part])["b"]["upserts"][0]["value"] == "new"


@pytest.mark.parametrize(
    "wrong",
    [
        {"version": 1, "hash": "0" * 64}, {"version": 9, "hash": "0" * 64},
        {"version": 0, "hash": "0" * 64}, {"version": 1, "hash": None},
    ],
)  # fmt: skip
def test_another_log_than_was_seen_is_told_and_opens_nothing(
    server: Served, line: SyncLine, wrong: Any
) -> None:
    server.space.set("urn:n:1", 1)
    line.hello()
    request = {"space": server.space.name, "auth": {"token": server.server.token}}
    watches = {"a": NOTES}
    error = line.refused("session.open", ephemeral=True, watches=watches, seen=wrong, **request)
    assert error["code"] == "diverged"
    assert server.server.app.sessions.count == server.server.service.watches.count == 0
    line.ask("session.open", ephemeral=True, watches=watches, **request)
    assert line.refused("watch.set", watches={}, since=wrong)["code"] == "diverged"
    (part,) = step_of(line)
    assert part["watches"].keys() == {"a"}


def test_what_was_seen_before_a_compaction_is_started_over(server: Served, line: SyncLine) -> None:
    server.space.set("urn:n:1", 0)
    seen = mark(server.space)
    for number in range(5):
        server.space.set("urn:n:1", number)
    server.space.compact(before=5)
    opened(server, line, watches={"a": NOTES}, seen=seen)
    (part,) = step_of(line)
    assert part["watches"]["a"]["from"] is None


def test_a_compaction_in_the_middle_of_a_step_starts_all_watches_over(
    server: Served, line: SyncLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(server, line, watches={"a": NOTES, "b": EVERYTHING})
    step_of(line)
    go_on = steps_module.LiveWatches._step
    met: list[int] = []

    def compacted(self: Any, head: Any) -> Any:
        if not met:
            met.append(head.version)
            server.space.set("urn:n:2", 1)
            server.space.compact(before=server.space.version)
        return go_on(self, head)

    monkeypatch.setattr(steps_module.LiveWatches, "_step", compacted)
    server.space.set("urn:n:1", 1)
    (part,) = step_of(line)
    assert met and part["to"] == server.space.version
    assert {told["from"] for told in part["watches"].values()} == {None}


# -- changing watches ------------------------------------------------------------------------------


def test_watches_are_added_removed_and_replaced(server: Served, line: SyncLine) -> None:
    server.space.set("urn:n:1", 1)
    opened(server, line, watches={"a": NOTES})
    step_of(line)
    assert line.ask("watch.add", watches={"a": NOTES, "b": ONE}) == {"version": 1}
    assert not line.kept  # the answer comes before the first step with its watches
    (part,) = step_of(line)
    assert part["watches"].keys() == {"b"}
    refused = line.refused("watch.add", watches={"c": NOTES, "a": ONE})
    assert (refused["code"], "'a'" in refused["message"]) == ("invalid_input", True)
    for bad in ({"select": 1}, {"select": {}, "at": 1}, {**NOTES, "branch": "nowhere"}):
        for type in ("watch.add", "watch.set"):
            assert line.refused(type, watches={"c": NOTES, "d": bad})["code"] in (
                "invalid_input", "not_found",
            )  # fmt: skip
    assert server.server.service.watches.count == 2
    line.ask("watch.remove", names=["b", "unknown"])
    server.space.set("urn:n:1", 2)
    (part,) = step_of(line)
    assert part["watches"].keys() == {"a"}
    line.ask("watch.set", watches={"x": ONE})
    (part,) = step_of(line)
    assert part["watches"]["x"]["from"] is None
    assert server.server.service.watches.count == 1


def test_a_session_has_so_many_watches_and_a_server_too(server: Served, line: SyncLine) -> None:
    opened(server, line, watches={str(n): ONE for n in range(60)})
    step_of(line)
    assert line.refused("watch.add", watches={f"x{n}": ONE for n in range(41)})["code"] == (
        "limit_exceeded"
    )
    assert line.refused("watch.set", watches={f"x{n}": ONE for n in range(101)})["code"] == (
        "limit_exceeded"
    )
    line.ask("watch.add", watches={f"x{n}": ONE for n in range(40)})
    assert server.server.service.watches.count == 100
    with served(watches=3) as small, SyncLine(small.server.url) as another:
        opened(small, another, watches={"a": ONE, "b": ONE})
        assert another.refused("watch.add", watches={"c": ONE, "d": ONE})["code"] == "overloaded"
        assert another.ask("watch.add", watches={"c": ONE})
        assert small.server.service.watches.count == 3


# -- ends ------------------------------------------------------------------------------------------


def test_a_space_that_is_erased_revokes_its_sessions(server: Served, line: SyncLine) -> None:
    opened(server, line, watches={"a": NOTES})
    step_of(line)
    name = server.space.name
    server.store.erase_space(name, reason="test", confirm=name)
    assert line.push() == {"type": "revoked", "reason": "access"}
    assert line.closed() == 4403
    assert not line.kept


@pytest.fixture
def rights() -> Iterator[Rights]:
    with (
        rote.open(":memory:") as store,
        serving(store, auth=("token", "did"), operators=(did_of("op"),)) as server,
    ):
        found = Rights(server, store)
        found.notes.set(found.notes.did, found.acl({ADA: "owner", BEN: "write"}))
        yield found


def token_in(caller: Any) -> str:
    return str(caller._headers["authorization"].partition(" ")[2])


def test_a_right_that_is_withdrawn_revokes_within_a_second(rights: Rights) -> None:
    with SyncLine(rights.server.url) as line:
        line.open("notes", token_in(rights.ben), watches={"a": NOTES})
        line.take()
        operation = {"op": "set", "id": "urn:n:1", "value": 1}
        assert line.ask("call", command="commit", args={"operations": [operation]})["author"] == BEN
        line.take()
        rights.notes.set(rights.notes.did, rights.acl({ADA: "owner", BEN: "read"}))
        refused = line.refused("call", command="commit", args={"operations": [operation]})
        assert refused["code"] == "denied"
        begun = rights.server.app.monotonic()
        rights.notes.set(rights.notes.did, rights.acl({ADA: "owner"}))
        while (push := line.push())["type"] == "sync":
            pass
        assert push == {"type": "revoked", "reason": "access"}
        assert rights.server.app.monotonic() - begun < 1
        assert line.closed() == 4403
    with SyncLine(rights.server.url) as line:
        line.hello()
        auth = {"token": token_in(rights.ben)}
        error = line.refused("session.open", space="notes", auth=auth, ephemeral=True)
        assert (error["code"], error["details"]) == ("not_found", {"space": "notes"})


def test_a_session_without_watches_is_revoked_too(rights: Rights) -> None:
    with SyncLine(rights.server.url) as line:
        line.open("notes", token_in(rights.ben))
        rights.notes.set(rights.notes.did, rights.acl({ADA: "owner"}))
        while (push := line.push())["type"] == "sync":
            pass
        assert push["type"] == "revoked"


def test_a_session_that_gets_no_steps_is_revoked_too(rights: Rights) -> None:
    with SyncLine(rights.server.url) as line:
        line.open("notes", token_in(rights.ben), watches={"a": NOTES})
        line.push()
        rights.notes.set("urn:n:1", 1)
        line.push()  # both are not acknowledged
        rights.notes.set(rights.notes.did, rights.acl({ADA: "owner"}))
        assert line.push() == {"type": "revoked", "reason": "access"}
        assert line.closed() == 4403


def test_a_space_that_cannot_be_judged_keeps_no_other_session_open(
    rights: Rights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One session whose rights could not be read left all of a server open."""
    other = rights.store.space("other")
    other.set(other.did, rights.acl({BEN: "read"}))

    def unreadable(space: str, command: Read, answer: Callable[[Read], Any]) -> Any:
        if space == other.did:
            raise Corrupt("planted")
        return answer(command)

    with SyncLine(rights.server.url) as first, SyncLine(rights.server.url) as line:
        first.open("other", token_in(rights.ben))
        line.open("notes", token_in(rights.ben), watches={"a": NOTES})
        line.push()
        rights.notes.set("urn:n:1", 1)
        line.push()  # both are not acknowledged, so that no step finds it
        intercept(monkeypatch, rights.server.service.port, Read, unreadable)
        rights.notes.set(rights.notes.did, rights.acl({ADA: "owner"}))
        while (push := line.push())["type"] == "sync":
            pass
        assert push["type"] == "revoked"


def test_a_bug_in_the_look_at_rights_ends_the_session_and_not_the_looks(
    rights: Rights, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SyncLine(rights.server.url) as first, SyncLine(rights.server.url) as line:
        first.open("notes", token_in(rights.ada))
        line.open("notes", token_in(rights.ben))
        is_good = rights.server.app.authentication.is_good

        def planted(opener: Opener) -> bool:
            if opener.principal.name == ADA:
                raise RuntimeError("planted")
            return is_good(opener)

        monkeypatch.setattr(rights.server.app.authentication, "is_good", planted)
        assert first.closed() == 1011
        rights.notes.set(rights.notes.did, rights.acl({ADA: "owner"}))
        while (push := line.push())["type"] == "sync":
            pass
        assert push["type"] == "revoked"


def test_a_token_that_ends_closes_its_sessions(rights: Rights) -> None:
    reader = rights.token("reader", right="read")
    with SyncLine(rights.server.url) as line, SyncLine(rights.server.url) as another:
        for each in (line, another):
            each.open("notes", token_in(reader), watches={"a": NOTES})
            each.take()
        rights.server.service.home.revoke_token("reader")
        error = line.refused("call", command="read", args={"ids": []})
        assert error["code"] == "unauthenticated"
        assert line.closed() == 4401
        assert another.closed() == 4401


def test_a_path_narrows_what_a_watch_shows(rights: Rights) -> None:
    rights.notes.set("urn:n:1", {"to": {"/": {"link@1": {"id": "urn:x"}}}})
    rights.notes.set("urn:x", "secret")
    reader = rights.token("reader", right="read", path="urn:n:")
    with SyncLine(rights.server.url) as line:
        line.open("notes", token_in(reader), watches={"a": ONE})
        assert [state["id"] for state in line.take()["states"]] == ["urn:n:1"]
        assert line.refused("watch.add", watches={"b": EVERYTHING})["code"] == "denied"


def test_a_client_that_gives_no_pong_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_module, "SYNC_PING_SECONDS", 0.1)
    monkeypatch.setattr(serving_module, "SYNC_PONG_SECONDS", 0.2)
    with served() as server, server.another() as wire:
        wire.send(
            wire.request(
                "GET", "/v1/sync", upgrade="websocket", connection="upgrade",
                sec_websocket_version="13", sec_websocket_key="AAAAAAAAAAAAAAAAAAAAAA==",
            )
        )  # fmt: skip
        assert wire.head()[0] == 101
        data = wire._left
        while chunk := wire.socket.recv(100):
            data += chunk
        assert b"\x88" in data and (4408).to_bytes(2, "big") in data

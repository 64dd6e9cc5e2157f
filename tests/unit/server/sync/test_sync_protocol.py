"""Every message of `/v1/sync` with its answer, its refusals and its close codes."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

import rote
from rote.access.session_openings import sign_opening
from rote.server.sync import connection as connection_module
from rote.server.sync import sessions as sessions_module
from rote.sessions import steps as steps_module
from rote.testing.serving import serving
from rote.values import Identity, canonical
from rote.values.sync_limits import SYNC_FIRST_BYTES_MAX
from tests.served import Served, served
from tests.syncs import EVERYTHING, SyncLine

NOTES: Any = {"select": {"urn:n:*": {}}}


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


# -- hello and session.open ------------------------------------------------------------------------


def test_hello_tells_server_challenge_and_limits(server: Served, line: SyncLine) -> None:
    welcome = line.hello()
    assert welcome.keys() == {"protocol", "server", "challenge", "expires", "limits"}
    assert (welcome["protocol"], welcome["server"]) == ("rote/1", server.server.did)
    assert len(welcome["challenge"]) == 43
    assert welcome["limits"] == {
        "message_bytes": 65 * 2**20, "calls": 64, "transacts": 256, "watches": 100, "window": 2,
    }  # fmt: skip
    assert line.refused("hello", protocol="rote/1")["code"] == "out_of_turn"


def test_another_protocol_closes_the_connection(line: SyncLine) -> None:
    error = line.refused("hello", protocol="rote/2")
    assert (error["code"], error["details"]) == ("unsupported_protocol", {"supported": ["rote/1"]})
    assert line.closed() == 4406


def test_what_comes_before_its_turn_is_refused_and_the_connection_goes_on(
    server: Served, line: SyncLine
) -> None:
    others: list[tuple[str, dict[str, Any]]] = [
        ("transact", {"local": 1, "basis": 0, "operations": []}), ("abandon", {"local": 1}),
        ("ack", {}), ("watch.set", {"watches": {}}), ("watch.add", {"watches": {}}),
        ("watch.remove", {"names": []}), ("call", {"command": "read", "args": {}}),
        ("session.close", {}),
    ]  # fmt: skip
    for type, members in [("session.open", {"space": "x"}), *others]:
        assert line.refused(type, **members)["code"] == "out_of_turn", type
    line.hello()
    for type, members in others:
        assert line.refused(type, **members)["code"] == "out_of_turn", type
    auth = {"token": server.server.token}
    line.ask("session.open", space=server.space.name, auth=auth, ephemeral=True)
    for type, members in [("session.open", {"space": "x"}), others[0], others[1]]:
        assert line.refused(type, **members)["code"] == "out_of_turn", type
    assert line.ask("ack") == {}


def test_an_ephemeral_session_has_no_id_and_no_token(server: Served, line: SyncLine) -> None:
    server.space.set("urn:n:1", 1)
    assert opened(server, line) == {
        "space": server.space.did, "session": None, "token": None, "version": 1,
        "resumed": False, "decided": 0, "verdicts": [],
    }  # fmt: skip


def test_an_ephemeral_session_is_not_opened_again(server: Served, line: SyncLine) -> None:
    line.hello()
    auth = {"token": server.server.token}
    for more in ({"session": "0" * 32}, {"token": "x"}, {"session": "0" * 32, "token": "x"}):
        members = {"space": server.space.name, "auth": auth, "ephemeral": True, **more}
        assert line.refused("session.open", **members)["code"] == "invalid_input", more
    line.ask("session.open", space=server.space.name, auth=auth, ephemeral=True)


@pytest.mark.parametrize(
    ("auth", "reason"),
    [
        (None, "missing"), ("x", "malformed"), ({}, "way_disabled"), ({"token": 1}, "way_disabled"),
        ({"token": "rote_x"}, "token"), ({"token": f"rote_{'0' * 12}_{'x' * 43}"}, "token"),
        ({"token": f"rotg_{'x' * 43}"}, "way_disabled"), ({"signed": {}, "sig": ""}, "way_disabled"),
    ],
)  # fmt: skip
def test_who_does_not_show_who_they_are_is_told_and_closed(
    server: Served, line: SyncLine, auth: Any, reason: str
) -> None:
    line.hello()
    error = line.refused("session.open", space=server.space.name, auth=auth, ephemeral=True)
    assert (error["code"], error["details"]) == ("unauthenticated", {"reason": reason})
    assert line.closed() == 4401


def test_a_space_without_a_right_is_refused_like_one_that_is_not_there(
    server: Served, line: SyncLine
) -> None:
    line.hello()
    auth = {"token": server.server.token}
    error = line.refused("session.open", space="nowhere", auth=auth, ephemeral=True)
    assert (error["code"], error["details"]) == ("not_found", {"space": "nowhere"})
    line.ask("session.open", space=server.space.name, auth=auth, ephemeral=True)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None), ({"challenge": "x"}, "challenge"), ({"now": -400}, "expired"),
        ({"now": 400}, "not_yet"), ({"server": "did:key:z6Mk"}, "wrong_audience"),
        ({"space": "did:key:z6Mk"}, "wrong_audience"), ({"sig": "A" * 86}, "signature"),
        ({"sig": "x"}, "malformed"), ({"more": 1}, "malformed"),
    ],
    ids=str,
)  # fmt: skip
def test_a_did_opens_with_one_signature(change: dict[str, Any], reason: str | None) -> None:
    identity = Identity.from_seed(bytes(32))
    with (
        rote.open(":memory:") as store,
        serving(store, auth=("did",), operators=(identity.did,)) as server,
        SyncLine(server.url) as line,
    ):
        space = store.space("notes")
        welcome = line.hello()
        now = server.service.admission.now() // 1_000_000
        auth = sign_opening(
            identity,
            server=change.get("server", welcome["server"]),
            space=change.get("space", space.did),
            challenge=change.get("challenge", welcome["challenge"]),
            now=now + change.get("now", 0),
        )
        auth["sig"] = change.get("sig", auth["sig"])
        if "more" in change:
            auth["signed"]["more"] = 1
        request = {"space": "notes", "auth": auth, "ephemeral": True}
        if reason is None:
            assert line.ask("session.open", **request)["space"] == space.did
        else:
            assert line.refused("session.open", **request)["details"] == {"reason": reason}
            assert line.closed() == 4401


def test_a_challenge_is_good_for_one_opening() -> None:
    identity = Identity.from_seed(bytes(32))
    with (
        rote.open(":memory:") as store,
        serving(store, auth=("did",), operators=(identity.did,)) as server,
        SyncLine(server.url) as line,
    ):
        challenge, now = line.hello()["challenge"], server.service.admission.now() // 1_000_000
        signed = {"server": server.did, "challenge": challenge, "now": now}
        auth = sign_opening(identity, space="nowhere", **signed)
        request = {"auth": auth, "ephemeral": True}
        assert line.refused("session.open", space="nowhere", **request)["code"] == "not_found"
        error = line.refused("session.open", space="nowhere", **request)
        assert error["details"] == {"reason": "challenge"}


# -- malformed messages ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ({"type": "nothing"}, "nothing"), ({"type": 1}, "1"), ({}, "None"),
        ({"type": "ack", "more": 1}, "more"), ({"type": "ack", "to": True}, "to"),
        ({"type": "ack", "to": -1}, "to"), ({"type": "ack", "to": 10**6}, "to"),
        ({"type": "watch.add"}, "watches"), ({"type": "watch.add", "watches": []}, "watches"),
        ({"type": "watch.add", "watches": {"a": 1}}, "watches"),
        ({"type": "watch.add", "watches": {"": NOTES}}, "watches"),
        ({"type": "watch.add", "watches": {"x" * 101: NOTES}}, "watches"),
        ({"type": "watch.add", "watches": {}, "since": None}, "since"),
        ({"type": "watch.set", "watches": {}, "since": {"version": 0}}, "since"),
        ({"type": "watch.set", "watches": {}, "since": {"version": -1, "hash": None}}, "since"),
        ({"type": "watch.set", "watches": {}, "since": {"version": 0, "hash": None, "x": 1}}, "x"),
        ({"type": "watch.remove", "names": [1]}, "names"),
        ({"type": "call", "args": {}}, "command"), ({"type": "call", "command": "x"}, "command"),
        ({"type": "call", "command": "read", "args": []}, "args"),
        ({"type": "call", "command": "read", "args": {"x": 1}}, "x"),
        ({"type": "transact", "local": 1, "basis": 0}, "operations"),
        ({"type": "abandon", "local": "1"}, "local"),
    ],
    ids=str,
)  # fmt: skip
def test_a_malformed_request_is_answered_naming_it_and_the_connection_goes_on(
    server: Served, line: SyncLine, message: dict[str, Any], named: str
) -> None:
    opened(server, line)
    error = line.refused(**{"type": "", **message}) if message else line.refused("")
    assert error["code"] == "invalid_input"
    assert named in error["message"] or not message
    assert line.ask("ack") == {}
    assert not line.kept


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("[]", 4400), ("1", 4400), ("", 4400), ("{", 4400), ("{}", 4400), ('{"id":0}', 4400),
        ('{"id":"1"}', 4400), ('{"id":true}', 4400), ('{"id":1.0}', 4400), ('{"id":-1}', 4400),
        ('{"id":9223372036854775808}', 4400), (b"{}", 1003), ("[" * 100_000, 4400),
    ],
    ids=lambda part: str(part)[:30],
)  # fmt: skip
def test_what_cannot_be_answered_closes_the_connection(
    server: Served, line: SyncLine, data: str | bytes, code: int
) -> None:
    line.socket.send(data)
    assert line.closed() == code


def test_a_value_that_no_store_takes_is_refused_with_its_id(line: SyncLine) -> None:
    for text in (
        '{"id":7,"type":"hello","protocol":1e999}',
        '{"id":7,"type":"hello","type":"hello"}',
        '{"id":7,"type":' + "[" * 90 + "]" * 90 + "}",
    ):
        line.socket.send(text)
        assert line.answer(7)["error"]["code"] == "invalid_value"
    line.hello()


def test_two_requests_in_flight_never_share_an_id(
    server: Served, line: SyncLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(server, line)
    gate = threading.Event()
    answer = server.server.service.answer
    monkeypatch.setattr(
        server.server.service, "answer", lambda *a, **k: (gate.wait(30), answer(*a, **k))[1]
    )
    line.socket.send('{"type":"call","id":9,"command":"read","args":{"ids":[]}}')
    line.socket.send('{"type":"ack","id":9}')
    gate.set()
    assert line.closed() == 4400


def test_text_that_is_not_utf_8_and_too_long_messages_close(server: Served) -> None:
    with SyncLine(server.server.url) as line:
        line.socket.send(b"\xff\xfe", text=True)
        assert line.closed() == 1007
    with SyncLine(server.server.url) as line:
        line.socket.send("x" * (SYNC_FIRST_BYTES_MAX + 1))
        assert line.closed() == 1009


def test_before_a_session_messages_are_short_and_afterwards_as_long_as_hello_says() -> None:
    with (
        served(commit_bytes=3 * SYNC_FIRST_BYTES_MAX) as server,
        SyncLine(server.server.url) as line,
    ):
        opened(server, line)
        operation = {"op": "set", "id": "urn:n:1", "value": "x" * 2 * SYNC_FIRST_BYTES_MAX}
        parts = canonical_parts(operation)
        line.socket.send(parts)  # fragments are fine
        assert line.answer(77)["ok"]["version"] == 1
        # The head of a text frame, which says how long it is: RFC 6455, section 5.2.
        size_bytes = (3 * SYNC_FIRST_BYTES_MAX + 1).to_bytes(8, "big")
        line.socket.socket.sendall(b"\x81\xff" + size_bytes + b"mask")
        assert line.closed() == 1009


def canonical_parts(operation: Any) -> list[str]:
    message = {"type": "call", "id": 77, "command": "commit", "args": {"operations": [operation]}}
    text = canonical(message).decode()
    return [text[at : at + 50_000] for at in range(0, len(text), 50_000)]


# -- the handshake ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "headers", "status"),
    [
        ("/v1/sync", {"host": "elsewhere"}, 421), ("/v1/sync", {"origin": "http://evil"}, 403),
        ("/v1/sync", {"origin": "null"}, 403), ("/v1/other", {}, 404), ("/v1/sync/", {}, 404),
        ("/v1/sync?x=1", {}, 400), (f"/v1/sync?token=rote_{'0' * 12}_{'x' * 43}", {}, 400),
    ],
)  # fmt: skip
def test_a_handshake_is_checked_like_a_request(
    server: Served, target: str, headers: dict[str, str], status: int
) -> None:
    more = {"upgrade": "websocket", "connection": "upgrade", "sec-websocket-version": "13",
            "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA=="}  # fmt: skip
    with server.another() as wire:
        reply = wire.ask("GET", target, **{**more, **headers})
    assert (reply.status, "error" in reply.json) == (status, True)
    assert "rote-request" in reply.headers


def test_a_request_without_an_upgrade_is_told_what_it_lacks(server: Served) -> None:
    reply = server.wire.ask("GET", "/v1/sync")
    assert (reply.status, reply.code) == (400, "invalid_input")
    assert server.wire.ask("POST", "/v1/sync").status == 405


def test_another_protocol_begins_only_after_all_answers(server: Served) -> None:
    """A watch on the connection would never have been told that its client has gone."""
    watch = f"/v1/spaces/{server.space.name}/watch?query=%7B%22select%22:%7B%7D%7D"
    with server.another() as wire:
        wire.send(wire.request("GET", watch))
        wire.head()
        wire.send(
            wire.request(
                "GET", "/v1/sync", upgrade="websocket", connection="upgrade",
                sec_websocket_version="13", sec_websocket_key="AAAAAAAAAAAAAAAAAAAAAA==",
            )
        )  # fmt: skip
    while server.server.service.watches.count:
        server.space.set("urn:n:0", 1)


def test_a_page_of_an_allowed_origin_may_connect() -> None:
    with served(allow_origins=("http://page",)) as server:
        with SyncLine(server.server.url, origin="http://page") as line:
            line.hello()
        with pytest.raises(InvalidStatus):
            SyncLine(server.server.url, origin="http://other")


# -- time ------------------------------------------------------------------------------------------


def test_a_client_without_hello_or_session_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "SYNC_HELLO_SECONDS", 0.2)
    monkeypatch.setattr(connection_module, "SYNC_OPEN_SECONDS", 0.2)
    with served() as server:
        with SyncLine(server.server.url) as line:
            assert line.closed() == 4408
        with SyncLine(server.server.url) as line:
            line.hello()
            assert line.refused("ack")["code"] == "out_of_turn"
            assert line.closed() == 4408


def test_a_challenge_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "SYNC_CHALLENGE_SECONDS", -1)
    identity = Identity.from_seed(bytes(32))
    with (
        served(auth=("did",), operators=(identity.did,)) as server,
        SyncLine(server.server.url) as line,
    ):
        auth = sign_opening(
            identity, server=server.server.did, space=server.space.did,
            challenge=line.hello()["challenge"],
            now=server.server.service.admission.now() // 1_000_000,
        )  # fmt: skip
        error = line.refused("session.open", space=server.space.did, auth=auth, ephemeral=True)
        assert error["details"] == {"reason": "challenge"}


# -- calls -----------------------------------------------------------------------------------------


def test_a_call_is_the_command_of_http(server: Served, line: SyncLine) -> None:
    opened(server, line)
    operation = {"op": "set", "id": "urn:n:1", "value": {"a": [1, "x"]}}
    commit = line.ask("call", command="commit", args={"operations": [operation]})
    assert commit["version"] == server.space.version == 1
    for name, arguments in (
        ("read", {"ids": ["urn:n:1", "urn:n:2"]}), ("scan", {"prefix": "urn:"}),
        ("query", {"query": NOTES}), ("memory_stats", {"arguments": {}}), ("branches", {}),
    ):  # fmt: skip
        reply = server.command(name, arguments)
        assert line.ask("call", command=name, args=arguments) == reply.json, name
    for name, arguments in (
        ("read", {"ids": 1}), ("read", {"ids": ["urn:n:1"], "version": 9}), ("read", {"x": 1}),
        ("commit", {"operations": [{"op": "set", "id": "no id", "value": 1}]}),
    ):  # fmt: skip
        assert (
            line.refused("call", command=name, args=arguments)
            == (server.command(name, arguments).json["error"])
        )


@pytest.mark.parametrize(
    "command",
    ["now", "spaces", "space", "head", "snapshot", "space_create", "space_erase", "adopt", "copy_in",
     "sides_in", "foundation_in", "blob_put", "blob_get", "watch", "entity_put", "metrics", "health",
     "hello", "grant_create", "states", "await", "nothing"],
)  # fmt: skip
def test_what_has_no_session_message_is_not_called(
    server: Served, line: SyncLine, command: str
) -> None:
    opened(server, line)
    assert line.refused("call", command=command, args={})["code"] == "invalid_input"


def test_a_socket_is_not_read_while_its_calls_are_too_many(
    server: Served, line: SyncLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(server, line)
    gate, most = threading.Event(), []
    answer = server.server.service.answer

    def counted(*arguments: Any, **named: Any) -> Any:
        gate.wait(30)
        (session,) = server.server.app.sessions._connections
        most.append(len(server.server.app.sessions._connections[session]._calls))
        return answer(*arguments, **named)

    monkeypatch.setattr(server.server.service, "answer", counted)
    ids = [line.tell("call", command="read", args={"ids": []}) for _ in range(100)]
    gate.set()
    assert all("ok" in line.answer(id) for id in ids)
    assert max(most) <= 64


# -- what is counted, and ends -------------------------------------------------------------------


def test_metrics_count_sessions_and_watches(server: Served, line: SyncLine) -> None:
    before = server.server.service.watches.count
    opened(server, line, watches={"a": NOTES, "b": EVERYTHING})
    text = server.wire.ask("GET", "/metrics").body.decode()
    assert "\nrote_sessions 1\n" in text
    assert f"\nrote_watches {before + 2}\n" in text
    line.ask("watch.remove", names=["a"])
    line.ask("session.close")
    assert line.closed() == 1000
    assert server.server.service.watches.count == before
    assert server.server.app.sessions.count == 0


def test_so_many_sessions_of_a_principal_and_no_more(
    server: Served, line: SyncLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions_module, "SYNC_SESSIONS_MAX", 1)
    opened(server, line)
    with SyncLine(server.server.url) as another:
        another.hello()
        auth = {"token": server.server.token}
        error = another.refused("session.open", space=server.space.name, auth=auth, ephemeral=True)
        assert error["code"] == "too_many_requests"
        assert another.closed() == 4429
    line.ask("session.close")
    assert line.closed() == 1000
    with SyncLine(server.server.url) as another:
        opened(server, another)


def test_a_stopping_server_answers_what_it_has_read_and_says_closing() -> None:
    with served() as server, SyncLine(server.server.url) as line:
        opened(server, line, watches={"a": NOTES})
        line.take()
        server.server.stop()
        assert line.push() == {"type": "closing"}
        assert line.closed() == 1001


def test_a_bug_of_the_server_is_told_as_one(
    server: Served, line: SyncLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(server, line, watches={"a": NOTES})
    line.take()
    monkeypatch.setattr(
        server.server.service, "answer", lambda *_, **__: (_ for _ in ()).throw(KeyError("x"))
    )
    assert line.refused("call", command="read", args={"ids": []})["code"] == "internal_error"
    monkeypatch.setattr(
        steps_module.LiveWatches, "go_on", lambda _: (_ for _ in ()).throw(KeyError("x"))
    )
    server.space.set("urn:n:1", 1)
    assert line.closed() == 1011

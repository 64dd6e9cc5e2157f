"""Sessions on `/v1/sync` that decide commits: what they answer, who has them, what they may, how they end."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from rote.contract.commands import GetSide
from rote.server.sync import decisions as decisions_module
from rote.sessions import desk as desk_module
from rote.sessions.sittings import Sitting
from rote.space.sources import port_of_store
from rote.testing.serving import serving
from tests.callers import ADA, BEN, serving_notes
from tests.callers import Served as Rights
from tests.served import Served, served
from tests.syncs import EVERYTHING, SyncLine

A, B = "urn:n:a", "urn:n:b"


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


@pytest.fixture
def other(server: Served) -> Iterator[SyncLine]:
    with SyncLine(server.server.url) as found:
        yield found


@pytest.fixture
def rights() -> Iterator[Rights]:
    with serving_notes() as found:
        yield found


def sit(server: Served, line: SyncLine, **members: Any) -> Any:
    return line.sit(server.space.name, server.server.token, **members)


def resume(server: Served, line: SyncLine, opened: Any, **members: Any) -> Any:
    return sit(server, line, session=opened["session"], token=opened["token"], **members)


def put(local: int, id: str = A, **more: Any) -> dict[str, Any]:
    return {
        "local": local, "basis": 0, "operations": [{"op": "set", "id": id, "value": local}], **more
    }  # fmt: skip


def token_in(caller: Any) -> str:
    return str(caller._headers["authorization"].partition(" ")[2])


# -- answers ---------------------------------------------------------------------------------------


def test_an_opening_gives_an_id_and_a_token(server: Served, line: SyncLine) -> None:
    server.space.set(A, 1)
    opened = sit(server, line)
    assert {**opened, "session": "", "token": ""} == {
        "space": server.space.did, "session": "", "token": "", "version": 1,
        "resumed": False, "decided": 0, "verdicts": [],
    }  # fmt: skip
    assert (len(opened["session"]), len(opened["token"])) == (32, 43)


def test_verdicts_have_exactly_these_members(server: Served, line: SyncLine) -> None:
    opened = sit(server, line)
    accepted = line.ask("transact", **put(1, meta={"m": 1}))
    (commit,) = server.space.log()
    assert accepted == {
        "local": 1, "accepted": True, "version": 1, "hash": commit.hash, "at": commit.at,
        "commit": server.command("log").json["commits"][0],
    }  # fmt: skip
    rejected = line.ask("transact", **put(2, reads=[{"id": A, "version": 0}]))
    error = rejected.pop("error")
    assert rejected == {"local": 2, "accepted": False, "version": 1}
    assert error.keys() == {"code", "message", "details"}
    assert error["code"] == "conflict"
    with SyncLine(server.server.url) as again:
        later = resume(server, again, opened)
    del accepted["commit"]
    assert later["verdicts"] == [accepted, {**rejected, "error": error}]
    assert (later["resumed"], later["decided"], later["version"]) == (True, 2, 1)


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ({"local": 1, "basis": 0}, "operations"), ({"basis": 0, "operations": []}, "local"),
        ({"local": 1, "operations": []}, "basis"), ({**put(1), "more": 1}, "more"),
        ({**put(1), "local": True}, "local"), ({**put(1), "local": 1.5}, "local"),
        ({**put(1), "local": "1"}, "local"), ({**put(1), "local": -1}, "local"),
        ({**put(1), "basis": None}, "basis"), ({**put(1), "basis": -1}, "basis"),
        ({**put(1), "branch": 1}, "branch"), ({**put(1), "key": 1}, "key"),
        ({**put(1), "local": 0}, "local"),
    ],
    ids=str,
)  # fmt: skip
def test_a_malformed_envelope_decides_nothing(
    server: Served, line: SyncLine, message: dict[str, Any], named: str
) -> None:
    sit(server, line)
    error = line.refused("transact", **message)
    assert error["code"] == "invalid_input"
    assert named in error["message"]
    assert line.ask("transact", **put(1))["accepted"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"operations": []}, {"operations": {}}, {"operations": None}, {"operations": [{}]},
        {"operations": [{"op": "set", "id": "no urn", "value": 1}]}, {"reads": None},
        {"reads": [{"id": A, "version": 9}]}, {"reads": [{"id": A, "layers": [1]}]},
        {"reads": [{"id": A, "layers": [True]}]}, {"reads": [{"id": A, "layers": "1"}]},
        {"key": ""}, {"key": "rote:mine"}, {"basis": 1}, {"branch": "nowhere"},
        {"operations": [{"op": "delete", "id": A}]},
        {"operations": [{"op": "patch", "id": A, "ops": [{"op": "remove", "path": "/x"}]}]},
    ],
    ids=str,
)  # fmt: skip
def test_a_fault_of_the_commit_is_its_verdict(
    server: Served, line: SyncLine, wrong: dict[str, Any]
) -> None:
    sit(server, line)
    verdict = line.ask("transact", **{**put(1), **wrong})
    assert (verdict["local"], verdict["accepted"], verdict["version"]) == (1, False, 0)
    assert verdict["error"]["code"] in ("invalid_input", "not_found")
    assert line.ask("transact", **put(2))["version"] == 1


def test_what_was_sent_together_is_decided_in_its_order(server: Served, line: SyncLine) -> None:
    opened = sit(server, line)
    ids = [line.tell("transact", **put(local)) for local in range(1, 51)]
    ids.append(line.tell("abandon", local=51))
    ids.append(line.tell("ack", verdicts=51, basis=50))
    ids.append(line.tell("transact", **put(52, basis=50)))
    answers = [line.answer(id)["ok"] for id in ids]
    assert [each.get("local") for each in answers] == [*range(1, 52), None, 52]
    assert [each["version"] for each in answers[:50]] == list(range(1, 51))
    assert answers[50]["error"]["code"] == "withdrawn"
    assert line.refused("transact", **put(51))["code"] == "verdict_gone"
    with SyncLine(server.server.url) as again:
        assert [each["local"] for each in resume(server, again, opened)["verdicts"]] == [52]


def test_two_requests_in_flight_never_share_an_id(
    server: Served, line: SyncLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    sit(server, line)
    gate = threading.Event()
    decide = Sitting.transact

    def waiting(self: Sitting, sent: Any) -> Any:
        gate.wait(30)
        return decide(self, sent)

    monkeypatch.setattr(Sitting, "transact", waiting)
    line.tell("transact", **put(1))
    line._last -= 1
    line.tell("transact", **put(2))
    assert line.closed() == 4400
    gate.set()


def test_a_socket_is_not_read_while_too_many_commits_wait(
    server: Served, line: SyncLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions_module, "SYNC_TRANSACTS_MAX", 4)
    sit(server, line)
    gate, most = threading.Event(), []
    decide = Sitting.transact

    def counted(self: Sitting, sent: Any) -> Any:
        gate.wait(30)
        (session,) = server.server.app.sessions._connections
        assert session.decisions is not None
        most.append(len(session.decisions.ids))
        return decide(self, sent)

    monkeypatch.setattr(Sitting, "transact", counted)
    ids = [line.tell("transact", **put(local)) for local in range(1, 21)]
    gate.set()
    assert [line.answer(id)["ok"]["local"] for id in ids] == list(range(1, 21))
    assert max(most) <= 4


def test_a_bug_of_the_server_is_told_as_one_and_decides_nothing(
    server: Served, line: SyncLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    sit(server, line)
    with monkeypatch.context() as patches:
        patches.setattr(Sitting, "transact", lambda *_: (_ for _ in ()).throw(KeyError("x")))
        assert line.refused("transact", **put(1))["code"] == "internal_error"
        assert line.closed() == 1011
    assert server.space.version == 0


# -- who has it ------------------------------------------------------------------------------------


def test_another_opening_revokes_the_one_before_at_once(
    server: Served, line: SyncLine, other: SyncLine
) -> None:
    opened = sit(server, line)
    line.ask("transact", **put(1))
    again = resume(server, other, opened)
    while (push := line.push())["type"] == "sync":
        pass
    assert push == {"type": "revoked", "reason": "taken_over"}
    assert line.closed() == 4409
    assert other.ask("transact", **put(2))["version"] == 2
    with SyncLine(server.server.url) as late:
        late.hello()
        members = {"session": opened["session"], "auth": {"token": server.server.token}}
        place = {"space": server.space.name, **members}
        assert late.refused("session.open", **place, token=opened["token"])["code"] == (
            "session_revoked"
        )
        assert late.ask("session.open", **place, token=again["token"])["decided"] == 2


@pytest.mark.parametrize("decides", [True, False])
def test_another_server_takes_a_session_over(server: Served, line: SyncLine, decides: bool) -> None:
    opened = sit(server, line, watches={"all": EVERYTHING})
    line.take()
    with serving(server.store) as far, SyncLine(far.url) as other:
        other.sit(
            server.space.name, far.token, session=opened["session"], token=opened["token"]
        )  # fmt: skip
        if decides:
            error = line.refused("transact", **put(1, value="stale"))
            assert error["code"] in ("session_revoked", "invalid_input")
        assert other.ask("transact", **put(1))["version"] == 1
        assert line.closed() == 4409
        assert [each["type"] for each in line.kept] == ["revoked"]
    assert server.space.get(A) == 1
    assert server.space.version == 1


@pytest.mark.parametrize(
    "first", [("ack", {}), ("watch.add", {"watches": {}}), ("nothing", {}), ("abandon", {"local": 9})]
)  # fmt: skip
def test_the_first_message_makes_its_token_the_only_good_one(
    server: Served, line: SyncLine, other: SyncLine, first: tuple[str, dict[str, Any]]
) -> None:
    opened = sit(server, line)
    resume(server, other, opened)
    other.answer(other.tell(first[0], **first[1]))
    with SyncLine(server.server.url) as late:
        members = {"session": opened["session"], "token": opened["token"]}
        error = late.sit_refused(server.space.name, server.server.token, **members)
        assert error["code"] == "session_revoked"


def test_a_lost_answer_to_an_opening_locks_nobody_out(server: Served, line: SyncLine) -> None:
    opened = sit(server, line)
    for _ in range(3):
        with SyncLine(server.server.url) as lost:
            resume(server, lost, opened)
    with SyncLine(server.server.url) as again:
        resume(server, again, opened)
        assert again.ask("transact", **put(1))["accepted"]


def test_a_session_is_its_principals_alone(rights: Rights) -> None:
    ben, ada = token_in(rights.ben), token_in(rights.ada)
    with SyncLine(rights.server.url) as line:
        opened = line.sit("notes", ben)
        assert line.ask("transact", **put(1))["commit"]["author"] == BEN
    refusals = []
    for session in (opened["session"], "0" * 32):
        with SyncLine(rights.server.url) as line:
            members = {"session": session, "token": opened["token"]}
            refusals.append(line.sit_refused("notes", ada, **members))
    assert refusals[0] == refusals[1]
    assert refusals[0]["code"] == "session_expired"
    with SyncLine(rights.server.url) as line:
        again = line.sit("notes", ben, session=opened["session"], token=opened["token"])
        assert again["decided"] == 1


def test_a_session_that_is_closed_leaves_no_row(server: Served, line: SyncLine) -> None:
    opened = sit(server, line)
    line.tell("transact", **put(1))
    assert line.ask("session.close") == {}
    assert line.closed() == 1000
    port = port_of_store(server.store)
    for kind, key in (
        ("session", opened["session"]),
        ("verdict", opened["session"] + ":0000000001"),
    ):
        assert port.answer(server.space.did, GetSide(kind, key)) is None
    assert server.space.version == 1


def test_a_session_that_somebody_else_has_closed_is_revoked(server: Served, line: SyncLine) -> None:
    opened = sit(server, line)
    line.ask("ack")
    with serving(server.store) as far:
        with SyncLine(far.url) as other:
            other.sit(
                server.space.name, far.token, session=opened["session"], token=opened["token"]
            )  # fmt: skip
            other.ask("session.close")
        assert line.push() == {"type": "revoked", "reason": "expired"}
        assert line.closed() == 4409


def test_so_many_sessions_lie_in_a_space_and_no_more(
    server: Served, line: SyncLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk_module, "SESSIONS_PER_PRINCIPAL_MAX", 1)
    sit(server, line)
    with SyncLine(server.server.url) as other:
        error = other.sit_refused(server.space.name, server.server.token)
        assert error["code"] == "limit_exceeded"
    line.ask("session.close")
    with SyncLine(server.server.url) as other:
        sit(server, other)


# -- rights ----------------------------------------------------------------------------------------


def test_who_may_only_read_gets_denied_as_the_verdict(rights: Rights) -> None:
    rights.notes.set(rights.notes.did, rights.acl({ADA: "owner", BEN: "read"}))
    with SyncLine(rights.server.url) as line:
        line.sit("notes", token_in(rights.ben))
        verdict = line.ask("transact", **put(1))
        assert (verdict["accepted"], verdict["error"]["code"]) == (False, "denied")
        assert verdict["error"]["details"] == {"command": "commit", "needs": "write"}
        rights.notes.set(rights.notes.did, rights.acl({ADA: "owner", BEN: "write"}))
        assert line.ask("transact", **put(2))["accepted"]


def test_a_path_bounds_what_is_written_and_read(rights: Rights) -> None:
    writer = rights.token("writer", right="write", path="urn:n:")
    with SyncLine(rights.server.url) as line:
        line.sit("notes", token_in(writer))
        assert line.ask("transact", **put(1))["accepted"]
        outside = [put(2, "urn:x"), put(3, reads=[{"id": "urn:x", "version": 0}]),
                   put(4, reads=[{"prefix": "urn:", "version": 0}])]  # fmt: skip
        for message in outside:
            verdict = line.ask("transact", **message)
            assert verdict["error"]["code"] == "denied", message
        assert line.ask("transact", **put(5, reads=[{"id": B, "version": 0}]))["accepted"]


def test_only_an_acl_in_force_lets_a_commit_in(rights: Rights) -> None:
    with SyncLine(rights.server.url) as line:
        line.sit("notes", token_in(rights.ben))
        acl = put(1, rights.notes.did)
        acl["operations"][0]["value"] = rights.acl({BEN: "owner"})
        assert line.ask("transact", **acl)["error"]["code"] == "denied"
        both = put(2)
        both["operations"] += acl["operations"]
        assert line.ask("transact", **both)["error"]["code"] == "denied"
        conflict = line.ask("transact", **put(3, reads=[{"id": A, "version": 0}]))
        assert conflict["accepted"], "the read of the ACL is not the client's"


def test_a_right_that_is_withdrawn_refuses_what_is_in_flight(rights: Rights) -> None:
    with SyncLine(rights.server.url) as line:
        line.sit("notes", token_in(rights.ben))
        assert line.ask("transact", **put(1))["accepted"]
        rights.notes.set(rights.notes.did, rights.acl({ADA: "owner"}))
        version = rights.notes.version
        id = line.tell("transact", **put(2))
        assert line.closed() == 4403
        answer = line.answers.get(id)  # none when the connection was closed before it was read
        assert answer is None or answer["error"]["code"] == "not_found"
        assert line.kept[-1] == {"type": "revoked", "reason": "access"}
        assert rights.notes.version == version
    rights.notes.set(rights.notes.did, rights.acl({ADA: "owner", BEN: "write"}))


def test_a_credential_that_has_ended_decides_nothing(rights: Rights) -> None:
    writer = rights.token("writer", right="write")
    with SyncLine(rights.server.url) as line:
        opened = line.sit("notes", token_in(writer))
        rights.server.service.home.revoke_token("writer")
        id = line.tell("transact", **put(1))
        assert line.closed() == 4401
        answer = line.answers.get(id)  # none when the connection was closed before it was read
        assert answer is None or answer["error"]["code"] == "unauthenticated"
    assert rights.side("session", opened["session"]).body["decided"] == 0


def test_rows_of_sessions_are_not_read_or_written_by_commands(
    server: Served, line: SyncLine
) -> None:
    opened = sit(server, line)
    for command, members in (
        ("side", {"kind": "session", "key": opened["session"]}),
        ("sides", {"kind": "verdict"}),
        ("put_side", {"kind": "session", "key": "x", "body": 1, "fence": 0}),
        ("drop_side", {"kind": "session", "key": opened["session"], "fence": 1}),
    ):
        assert line.refused("call", command=command, args=members)["code"] == "denied", command


# -- its end ---------------------------------------------------------------------------------------


def test_a_stopping_server_decides_what_it_has_read(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    decide = Sitting.transact

    def waiting(self: Sitting, sent: Any) -> Any:
        gate.wait(30)
        return decide(self, sent)

    with served() as server, SyncLine(server.server.url) as line:
        sit(server, line)
        monkeypatch.setattr(Sitting, "transact", waiting)
        ids = [line.tell("transact", **put(local)) for local in range(1, 6)]
        line.ask("call", command="read", args={"ids": []})  # so all before it were read
        server.server.stop()
        assert line.push() == {"type": "closing"}
        gate.set()
        assert [line.answer(id)["ok"]["local"] for id in ids] == [1, 2, 3, 4, 5]
        assert line.closed() == 1001

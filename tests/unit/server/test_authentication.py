"""Authentication: every way to show it, and every reason to refuse it, through real sockets."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.access.delegations import parse_delegation
from rote.access.tokens import TokenRight
from rote.errors import Unavailable
from rote.opening.sources import SystemClock, SystemIds
from rote.server.failures import Failures
from rote.server.serving import Serving
from rote.space import Store
from rote.testing.keys import did_of, lend, seed_of
from rote.testing.serving import serving
from rote.values import canonical, micros_of
from tests.callers import Caller, Signer, bearer, nobody
from tests.wires import Reply, Wire

A = "urn:entity:a"


@pytest.fixture
def store() -> Iterator[Store]:
    with rote.open(":memory:", author="store") as store:
        store.space("notes").set(A, 1)
        store.space("notes").grant(did_of("ada"), "owner")
        yield store


@pytest.fixture
def server(store: Store) -> Iterator[Serving]:
    with serving(store, auth=("token", "did"), operators=(did_of("op"),)) as server:
        yield server


def reason(reply: Reply) -> str:
    assert reply.status == 401, reply
    assert reply.headers["www-authenticate"] == 'Bearer realm="rote"'
    error = reply.json["error"]
    assert error["code"] == "unauthenticated"
    return str(error["details"]["reason"])


def token_for(
    server: Serving, name: str = "reader", *, seconds: float | None = None, **bound: Any
) -> str:
    now = micros_of(SystemClock().now())
    text, _ = server.service.home.create_token(
        name,
        TokenRight(**{"right": "read", **bound}),
        now=now,
        expires=None if seconds is None else now + int(seconds * 1_000_000),
        ids=SystemIds(),
    )
    return text


# -- tokens ----------------------------------------------------------------------------------------


def test_the_start_token_is_the_operator_and_writes_as_the_store(server: Serving) -> None:
    operator = bearer(server, server.token)
    assert operator.set(A, 2).json["author"] is None
    assert operator.read(A).status == 200


def test_a_named_token_writes_under_its_name(server: Serving) -> None:
    writer = bearer(server, token_for(server, "writer", right="write"))
    assert writer.set(A, 2).json["author"] == "token:writer"
    operator = bearer(server, token_for(server, "boss", right="operator"))
    assert operator.command("space_create", {"name": "more"}, space=None).status == 200
    assert operator.set(A, 2, space="more").json["author"] == "token:boss"


def test_a_request_without_credentials_is_refused(server: Serving) -> None:
    assert reason(nobody(server).read(A)) == "missing"
    assert nobody(server).ask("GET", "/v1/openapi.json").status == 200


@pytest.mark.parametrize(
    "text",
    ["", "x", "rote_", "rote_000000000000_" + "A" * 43, "rotg_" + "A" * 43, "rote_" + "0" * 60],
)
def test_an_unknown_token_is_refused(server: Serving, text: str) -> None:
    assert reason(bearer(server, text).read(A)) == "token"


def test_a_wrong_secret_of_a_known_id_is_refused(server: Serving) -> None:
    token = token_for(server)
    assert bearer(server, token).read(A).status == 200
    assert reason(bearer(server, token[:-43] + "A" * 43).read(A)) == "token"


def test_a_token_that_was_revoked_or_has_expired_is_refused_at_the_next_call(
    server: Serving,
) -> None:
    token, short = token_for(server), token_for(server, "short", seconds=-1)
    assert bearer(server, token).read(A).status == 200
    server.service.home.revoke_token("reader")
    assert reason(bearer(server, token).read(A)) == "token"
    assert reason(bearer(server, short).read(A)) == "token"


def test_a_record_that_was_tampered_with_is_no_token(server: Serving) -> None:
    token = token_for(server)
    space = server.service.home._space
    record: Any = space.get("urn:token:reader")
    space.set("urn:token:reader", {**record, "right": "root"})
    assert reason(bearer(server, token).read(A)) == "token"
    space.set("urn:token:reader", record)
    assert bearer(server, token).read(A).status == 200


@pytest.mark.parametrize(
    "header",
    ["Basic {}", "{}", "Bearer", "Bearer  {}", "Bearer {}, Bearer {}", "Token {}"],
)
def test_another_form_of_the_header_is_refused(server: Serving, header: str) -> None:
    value = header.format(server.token, server.token)
    reply = Caller(server, authorization=value).read(A)
    assert reason(reply) in ("malformed", "token")


def test_two_credentials_at_once_are_malformed(server: Serving) -> None:
    token = f"Bearer {server.token}"
    with Wire(server.url) as wire:
        request = wire.request("POST", "/v1/now", b"{}", authorization=token)
        wire.send(request.replace(b"host:", f"authorization: {token}\r\nhost:".encode()))
        assert reason(wire.reply()) == "malformed"
    signed = Signer(server, "ada")
    assert reason(signed.ask("POST", "/v1/now", b"{}", authorization=token)) == "malformed"


@pytest.mark.parametrize("target", ["/v1/spaces?token={}", "/v1/spaces/{}", "/v1/spaces?x={}"])
@pytest.mark.parametrize("is_encoded", [False, True])
def test_a_token_in_a_url_is_refused_and_not_echoed(
    server: Serving, target: str, is_encoded: bool
) -> None:
    token = server.token or ""
    shown = "".join(f"%{ord(each):02X}" for each in token) if is_encoded else token
    reply = bearer(server, token).ask("GET", target.format(shown))
    assert (reply.status, reply.code) == (400, "invalid_input")
    assert token.encode() not in reply.body
    assert shown.encode() not in reply.body


def test_a_way_that_is_not_enabled_is_refused(store: Store) -> None:
    with serving(store, auth=("did",)) as server:
        assert server.token is None
        assert reason(bearer(server, token_for(server)).read(A)) == "way_disabled"
        assert Signer(server, "ada").read(A).status == 200
    with serving(store) as server:
        assert reason(Signer(server, "ada").read(A)) == "way_disabled"
        assert reason(bearer(server, "rotg_" + "A" * 43).read(A)) == "way_disabled"


# -- signed requests -------------------------------------------------------------------------------


def test_a_signed_request_writes_under_its_did(server: Serving) -> None:
    assert Signer(server, "ada").set(A, 2).json["author"] == did_of("ada")
    assert Signer(server, "ada").ask("GET", f"/v1/spaces/notes/entity?id={A}").json == 2
    assert Signer(server, "op").command("space_create", {"name": "more"}, space=None).status == 200


def test_a_signed_request_is_good_once(server: Serving) -> None:
    ada = Signer(server, "ada", nonce="the-same-nonce-twice")
    assert ada.set(A, 2).status == 200
    assert reason(ada.set(A, 2)) == "replayed"
    assert Signer(server, "op", nonce="the-same-nonce-twice").read(A).status == 200


def test_a_nonce_counts_for_other_processes_and_after_a_restart(store: Store) -> None:
    with serving(store, auth=("did",)) as first, serving(store, auth=("did",)) as second:
        headers = Signer(first, "ada").headers("POST", "/v1/now", b"{}")
        both = [Caller(first, **headers), Caller(second, **headers)]
        assert first.did == second.did
        assert [caller.ask("POST", "/v1/now", b"{}").status for caller in both] == [200, 401]
    with serving(store, auth=("did",)) as again:
        assert again.did == first.did
        assert reason(Caller(again, **headers).ask("POST", "/v1/now", b"{}")) == "replayed"


@pytest.mark.parametrize(
    ("created", "expires", "expected"),
    [
        (-10, -1, "expired"),
        (-300, 0, "expired"),
        (65, 120, "not_yet"),
        (0, 301, "too_long"),
        (0, 0, "malformed"),
        (55, 100, None),
        (-240, 60, None),
    ],
)
def test_a_signature_holds_only_between_its_times(
    server: Serving, created: int, expires: int, expected: str | None
) -> None:
    now = int(SystemClock().now().timestamp())
    reply = Signer(server, "ada", created=now + created, expires=now + expires).read(A)
    assert reply.status == 200 if expected is None else reason(reply) == expected


def test_a_signature_for_another_server_is_refused(server: Serving) -> None:
    assert reason(Signer(server, "ada", audience=did_of("x")).read(A)) == "wrong_audience"


def test_a_changed_request_is_refused_and_its_nonce_is_not_used(server: Serving) -> None:
    ada = Signer(server, "ada")
    body = canonical({"ids": [A]})
    headers = ada.headers("POST", "/v1/spaces/notes/read", body)
    caller = Caller(server, **headers)
    assert reason(caller.ask("POST", "/v1/spaces/notes/scan", body)) == "signature"
    assert reason(caller.ask("POST", "/v1/spaces/notes/read?", b"{}")) == "digest"
    assert reason(caller.ask("POST", "/v1/spaces/notes/read", body + b" ")) == "digest"
    assert caller.ask("POST", "/v1/spaces/notes/read", body).status == 200


def test_a_refused_body_stores_nothing(server: Serving, store: Store) -> None:
    version = store.space("notes").version
    body = canonical({"operations": [{"op": "set", "id": A, "value": 9}]})
    headers = Signer(server, "ada").headers("POST", "/v1/spaces/notes/commit", body)
    other = body.replace(b"9", b"8")
    assert (
        reason(Caller(server, **headers).ask("POST", "/v1/spaces/notes/commit", other)) == "digest"
    )
    assert store.space("notes").version == version


def test_a_signed_blob_counts_only_when_its_digest_is_right(server: Serving, store: Store) -> None:
    data = b"some bytes"
    target = "/v1/spaces/notes/blobs"
    good = Signer(server, "ada", headers={"content-type": "text/plain"})
    reply = good.ask("POST", target, data, content_type="text/plain")
    assert (reply.status, reply.json["size"]) == (200, len(data))
    version = store.space("notes").version
    headers = good.headers("POST", target, b"other bytes")
    refused = Caller(server, **headers).ask(
        "POST", target, b"wrong bytes", content_type="text/plain"
    )
    assert reason(refused) == "digest"
    assert store.space("notes").version == version


def test_nonces_that_have_ended_are_dropped(server: Serving) -> None:
    home = server.service.home
    for number in range(64):
        assert home.note_nonce(did_of("ada"), f"{number:020d}", expires=1_000, now=900)
    assert not home.note_nonce(did_of("ada"), f"{0:020d}", expires=1_000, now=1_060)
    for number in range(63):
        assert home.note_nonce(did_of("ben"), f"{number:020d}", expires=2_000, now=1_061)
    assert home.note_nonce(did_of("ada"), f"{0:020d}", expires=3_000, now=2_000)


# -- grants ----------------------------------------------------------------------------------------


def test_a_grant_stands_for_the_did_that_asked_for_it(server: Serving) -> None:
    ada = Signer(server, "ada").granted()
    assert ada.set(A, 2).json["author"] == did_of("ada")
    assert ada.read(A).status == 200


def test_a_grant_says_when_it_ends_and_holds_at_most_an_hour(server: Serving) -> None:
    ada = Signer(server, "ada")
    reply = ada.ask("POST", "/v1/grants", b'{"seconds":60}').json
    assert reply["principal"] == did_of("ada")
    left = rote.values.parse_time(reply["expires"]) - micros_of(SystemClock().now())
    assert 50_000_000 < left <= 60_000_000
    for seconds in (b"0", b"3601", b"true", b"1.0", b'"60"'):
        assert ada.ask("POST", "/v1/grants", b'{"seconds":%b}' % seconds).status == 400


def test_a_grant_that_has_ended_is_refused(server: Serving) -> None:
    home = server.service.home
    token, _ = home.create_grant(did_of("ada"), [], now=1_000, seconds=60, ids=SystemIds())
    assert reason(bearer(server, token).read(A)) == "token"
    ada = Signer(server, "ada").granted()
    assert ada.ask("DELETE", "/v1/grants").status == 200
    assert reason(ada.read(A)) == "token"


def test_a_grant_is_given_for_a_signature_alone(server: Serving) -> None:
    ada = Signer(server, "ada").granted()
    for caller in (ada, bearer(server, server.token), bearer(server, token_for(server))):
        reply = caller.ask("POST", "/v1/grants", b"{}")
        assert (reply.status, reply.code) == (403, "denied")
    assert bearer(server, server.token).ask("DELETE", "/v1/grants").status == 403


def test_a_grant_carries_its_proofs_and_no_rights(server: Serving, store: Store) -> None:
    notes = store.space("notes")
    now = micros_of(SystemClock().now())
    proof = lend("ada", "ben", space=notes.did, right="read", now=now)
    ben = Signer(server, "ben", proofs=[proof]).granted()
    assert ben.read(A).status == 200
    assert Signer(server, "ben").read(A).status == 404
    notes.revoke(proof)
    assert reason(ben.read(A)) == "proofs"


# -- no authentication, failures, secrets ----------------------------------------------------------


def test_without_authentication_everybody_is_the_operator(store: Store) -> None:
    with serving(store, auth=("none",)) as server:
        assert nobody(server).set(A, 3).status == 200
        assert nobody(server).command("space_create", {"name": "more"}, space=None).status == 200


def test_failures_of_one_address_are_counted_for_a_while() -> None:
    now = 0.0
    failures = Failures(3, now=lambda: now)
    for peer in ("192.0.2.1", "192.0.2.2"):
        for _ in range(3):
            failures.count(peer)
        with pytest.raises(Unavailable) as refused:
            failures.count(peer)
        assert refused.value.code == "too_many_requests"
    now = 9.9
    with pytest.raises(Unavailable):
        failures.count("192.0.2.1")
    now = 10.0
    failures.count("192.0.2.1")
    for local in ("127.0.0.1", "::1", None):
        for _ in range(9):
            failures.count(local)


def test_an_address_that_failed_too_often_waits_but_not_with_right_credentials(
    store: Store,
) -> None:
    with serving(store, behind_proxy=True, failures=3) as server:
        target, body = "/v1/now", b"{}"

        def ask(token: str | None, address: str) -> Reply:
            return bearer(server, token).ask("POST", target, body, x_forwarded_for=address)

        for _ in range(3):
            assert reason(ask("wrong", "192.0.2.1")) == "token"
        refused = ask("wrong", "192.0.2.1")
        assert (refused.status, refused.code) == (429, "too_many_requests")
        assert "retry-after" in refused.headers
        assert ask(server.token, "192.0.2.1").status == 200
        assert reason(ask("wrong", "192.0.2.2")) == "token"


def test_no_log_and_no_metric_shows_a_credential(store: Store, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    with serving(store, auth=("token", "did"), access_log=str(log)) as server:
        token = token_for(server)
        proof = lend(
            "ada", "ben", space=store.space("notes").did, now=micros_of(SystemClock().now())
        )
        signed = Signer(server, "ben", proofs=[proof])
        reply = signed.ask("POST", "/v1/grants", b"{}")
        grant = reply.json["token"]
        headers = signed.headers("POST", "/v1/now", b"{}")
        for caller in (
            bearer(server, token),
            bearer(server, grant),
            signed,
            bearer(server, token[:-1]),
        ):
            caller.read(A)
            caller.command("gc")
            caller.ask("GET", f"/v1/spaces?token={token}")
        metrics = bearer(server, server.token).ask("GET", "/metrics").body
        hidden = [
            token,
            grant,
            server.token or "",
            headers["signature"],
            headers["rote-proofs"],
            proof["sig"],
        ]
    lines = log.read_text()
    assert did_of("ben") in lines
    assert parse_delegation(proof).id in lines
    for secret in hidden:
        assert secret not in lines
        assert secret.encode() not in metrics


def test_no_answer_shows_a_credential(server: Serving, capfd: pytest.CaptureFixture[str]) -> None:
    token = token_for(server)
    secrets = [token, server.token or "", seed_of("ada").hex()]
    for caller in (bearer(server, token), bearer(server, token + "x"), Signer(server, "ada")):
        for reply in (
            caller.read(A),
            caller.set("nonsense"),
            caller.command("gc"),
            caller.read(space="x"),
        ):
            for secret in secrets:
                assert secret.encode() not in reply.body
                assert secret not in str(reply.headers)
    output = capfd.readouterr()
    assert not any(secret in output.out + output.err for secret in secrets)

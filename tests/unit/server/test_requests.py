"""The form of requests and answers: what is refused with which status, and what every answer says."""

from collections.abc import Iterator

import pytest

import rote
from rote.errors import InvalidInput
from rote.server.messages import Head
from rote.server.origins import Origins
from rote.server.serving import Serving
from rote.server.settings import Settings
from rote.testing.serving import serving
from rote.values import decode
from tests.wires import Wire

READ = "/v1/spaces/notes/read"
BODY = b'{"ids":["urn:a"]}'
PAGE = "https://app.example"


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with (
        rote.open(":memory:") as store,
        serving(store, allow_origins=(PAGE,), allow_hosts=("rote.example",)) as running,
    ):
        store.space("notes").set("urn:a", {"n": 1})
        yield running


@pytest.fixture
def wire(server: Serving) -> Iterator[Wire]:
    with Wire(server.url, server.token) as made:
        yield made


# -- malformed HTTP --------------------------------------------------------------------------------

HEAD = b"POST /v1/now HTTP/1.1\r\nHost: %b\r\n"
MALFORMED = {
    "no request": b"\x00\x01\x02\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "different lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
    "a list of lengths": HEAD + b"Content-Length: 2, 2\r\n\r\n{}",
    "a signed length": HEAD + b"Content-Length: +2\r\n\r\n{}",
    "a length in hex": HEAD + b"Content-Length: 0x2\r\n\r\n{}",
    "length and coding": HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding and length": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
    "an unknown coding": HEAD + b"Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n",
    "a coding before chunked": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": HEAD + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "two codings": HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
    "a broken chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "a chunk without an end": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}0\r\n\r\n",
    "a trailer": HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nAuthorization: x\r\n\r\n",
    "no host": b"POST /v1/now HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    "two hosts": HEAD + b"Host: localhost\r\nContent-Length: 0\r\n\r\n",
    "an obsolete fold": HEAD + b"X-A: one\r\n two\r\nContent-Length: 0\r\n\r\n",
    "a fold with a tab": HEAD + b"X-A: one\r\n\ttwo\r\nContent-Length: 0\r\n\r\n",
    "a bare line feed": b"POST /v1/now HTTP/1.1\nHost: %b\n\n",
    "a bare carriage return": HEAD + b"X-A: one\rtwo\r\n\r\n",
    "a NUL": HEAD + b"X-A: a\x00b\r\n\r\n",
    "a space before the colon": HEAD + b"X-A : b\r\n\r\n",
    "a name of nothing": HEAD + b": b\r\n\r\n",
    "an absolute target": b"POST http://%b/v1/now HTTP/1.1\r\nHost: x\r\n\r\n",
    "a fragment": b"POST /v1/now#x HTTP/1.1\r\nHost: %b\r\n\r\n",
    "an asterisk": b"OPTIONS * HTTP/1.1\r\nHost: %b\r\n\r\n",
    "an authority": b"CONNECT %b HTTP/1.1\r\nHost: x\r\n\r\n",
    "an unknown method": b"FLY /v1/now HTTP/1.1\r\nHost: %b\r\n\r\n",
    "another version": b"POST /v1/now HTTP/1.2\r\nHost: %b\r\n\r\n",
    "an ancient version": b"POST /v1/now HTTP/0.9\r\nHost: %b\r\n\r\n",
    "the next protocol": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no version": b"POST /v1/now\r\nHost: %b\r\n\r\n",
    "a byte that is no character": b"POST /v1/n\xffow HTTP/1.1\r\nHost: %b\r\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_request_is_refused_and_the_connection_closed(
    server: Serving, name: str
) -> None:
    with Wire(server.url) as wire:
        data = MALFORMED[name]
        wire.send(data.replace(b"%b", wire.host.encode()))
        reply = wire.reply()
        assert (reply.status, reply.code) == (400, "invalid_input")
        assert reply.headers["connection"] == "close"
        assert {"rote-request", "cache-control", "x-content-type-options"} <= reply.headers.keys()
        assert wire.is_closed


def test_garbage_behind_a_good_request_waits_for_its_answer(wire: Wire) -> None:
    wire.send(wire.request("POST", READ, BODY) + b"\x00garbage\r\n\r\n")
    assert wire.reply().json["states"][0]["value"] == {"n": 1}
    assert wire.reply().status == 400
    assert wire.is_closed


def test_requests_that_come_together_are_answered_in_their_order(wire: Wire) -> None:
    bodies = [b'{"ids":["urn:%d"]}' % number for number in range(20)]
    wire.send(b"".join(wire.request("POST", READ, body) for body in bodies))
    ids = [wire.reply().json["states"][0]["id"] for _ in bodies]
    assert ids == [f"urn:{number}" for number in range(20)]


def test_another_protocol_is_not_taken_up(server: Serving) -> None:
    for protocol in ("h2c", "websocket"):
        with Wire(server.url, server.token) as wire:
            reply = wire.ask("POST", "/v1/now", connection="Upgrade", upgrade=protocol)
            assert (reply.status, reply.headers["connection"]) == (200, "close")
            assert wire.is_closed
        with Wire(server.url, server.token) as wire:
            reply = wire.ask("POST", READ, BODY, connection="Upgrade", upgrade=protocol)
            assert (reply.status, reply.code) == (400, "invalid_input")
            assert wire.is_closed


def test_version_one_zero_is_answered_and_closed(wire: Wire) -> None:
    wire.send(wire.request("POST", READ, BODY).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
    assert wire.reply().status == 200
    assert wire.is_closed


# -- hosts and origins -----------------------------------------------------------------------------


def test_a_server_answers_only_to_its_own_names(wire: Wire) -> None:
    port = wire.host.rpartition(":")[2]
    for host in (f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}", "rote.example",
                 "rote.example:443"):  # fmt: skip
        assert wire.ask("POST", READ, BODY, host=host).status == 200, host
    for host in ("evil.example", f"evil.example:{port}", "localhost", "localhost:1", "127.0.0.1",
                 f"127.0.0.1.evil.example:{port}", "", "rote.example.evil"):  # fmt: skip
        reply = wire.ask("POST", READ, BODY, host=host)
        assert (reply.status, reply.code) == (421, "host"), host


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_server_at_every_address_answers_to_the_names_of_loopback(host: str) -> None:
    settings = Settings(host=host, allow_hosts=("rote.example",))
    origins = Origins(settings, host=host, port=7474, scheme="http")

    def check(name: str) -> None:
        origins.check(Head("GET", b"/health", b"", ((b"host", name.encode()),)))

    for name in ("localhost:7474", "127.0.0.1:7474", "[::1]:7474", "rote.example"):
        check(name)
    for name in ("localhost", "localhost:1", "evil.example:7474", "10.0.0.1:7474"):
        with pytest.raises(InvalidInput) as caught:
            check(name)
        assert caught.value.code == "host", name


def test_a_page_of_another_origin_is_refused(wire: Wire) -> None:
    for origin in ("https://evil.example", "null", "http://localhost:1", f"{PAGE}.evil", "x"):
        reply = wire.ask("POST", READ, BODY, origin=origin)
        assert (reply.status, reply.code) == (403, "origin"), origin
        assert "access-control-allow-origin" not in reply.headers


def test_a_page_of_this_server_or_of_an_allowed_origin_may_ask(wire: Wire) -> None:
    own = wire.ask("POST", READ, BODY, origin=f"http://{wire.host}")
    assert own.status == 200 and "access-control-allow-origin" not in own.headers
    allowed = wire.ask("POST", READ, BODY, origin=PAGE)
    assert (allowed.status, allowed.headers["access-control-allow-origin"]) == (200, PAGE)
    assert "access-control-allow-credentials" not in allowed.headers


def test_a_preflight_says_what_an_allowed_page_may_send(wire: Wire) -> None:
    reply = wire.ask("OPTIONS", READ, origin=PAGE, access_control_request_method="POST")
    assert reply.status == 204
    assert (
        reply.headers["access-control-allow-methods"] == reply.headers["allow"] == "OPTIONS, POST"
    )
    assert reply.headers["access-control-max-age"] == "600"
    assert "authorization" in reply.headers["access-control-allow-headers"]


# -- routes, methods and bodies --------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/", "//", "/v1", "/v1/", "/v1//now", "/v1/now/", "/v1/./now", "/v1/../v1/now", "/v2/now",
        "/v1/NOW", "/v1/nothing", "/v1/spaces//read", "/v1/spaces/notes/", "/v1/spaces/notes/read/x",
        "/v1/spaces/notes%2Fread", "/v1/spaces%2Fnotes/read", "/v1/spaces/%ff/read", "/v1/now;x",
        "/v1/spaces/n%25otes/read", "/v1/spaces/%00/read", "/v1/read", "/v1/spaces/notes/now",
        "//x/v1/now", "//127.0.0.1/v1/now", "/v1/%6eow", "/%76%31/now", "/v1/spaces/notes/%72ead",
        "/v1/spaces/{space}/read", "/v1/spaces/none/read", "/v1/spaces/rote.server/read",
    ],
)  # fmt: skip
def test_a_path_that_is_no_route_is_not_found(wire: Wire, path: str) -> None:
    reply = wire.ask("POST", path, b"{}")
    assert (reply.status, reply.code) == (404, "not_found")


def test_another_method_is_refused_with_those_that_are_taken(wire: Wire) -> None:
    for method in ("GET", "HEAD", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND"):
        reply = wire.ask(method, READ)
        assert (reply.status, reply.headers["allow"]) == (405, "OPTIONS, POST"), method
    assert wire.ask("OPTIONS", READ).headers["allow"] == "OPTIONS, POST"


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""]
)
def test_a_body_of_another_type_is_refused(wire: Wire, kind: str | None) -> None:
    reply = wire.ask("POST", READ, BODY, content_type=kind)
    assert (reply.status, reply.code) == (415, "media_type")


def test_a_type_may_have_parameters_and_any_case(wire: Wire) -> None:
    for kind in ("application/json; charset=utf-8", "Application/JSON"):
        assert wire.ask("POST", READ, BODY, content_type=kind).status == 200


def test_nothing_is_inflated(wire: Wire) -> None:
    assert wire.ask("POST", READ, BODY, content_encoding="gzip").code == "media_type"
    assert wire.ask("POST", READ, BODY, content_encoding="identity").status == 200


def test_an_empty_body_is_an_empty_object(wire: Wire) -> None:
    for body in (None, b""):
        assert wire.ask("POST", "/v1/now", body, content_type=None).json.keys() == {
            "now", "shared_now"}  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        b"[]", b"null", b"1", b'"x"', b"{", b'{"ids":["urn:a"],"ids":[]}', b'{"ids":[NaN]}',
        b'{"ids":["\xff"]}', b"\xef\xbb\xbf{}", b'{"ids":["urn:a"]} x', b'{"ids":[1e999]}',
        b'{"ids":["\\ud800"]}', b'{"ids":' + b"[" * 100 + b"]" * 100 + b"}",
        b'{"ids":{}}', b'{"ids":["urn:a"],"version":true}', b'{"ids":["urn:a"],"version":1.0}',
        b'{"ids":[1]}', b'{"ids":["no id"]}', b'{"ids":["urn:a"],"more":1}', b"{}",
        b'{"ids":["urn:a"],"branch":null}', b'{"ids":["urn:a"],"version":"1"}',
    ],
)  # fmt: skip
def test_arguments_that_are_not_exactly_right_are_refused(wire: Wire, body: bytes) -> None:
    reply = wire.ask("POST", READ, body)
    assert reply.status == 400
    assert reply.code in ("invalid_input", "invalid_value")


def test_an_unknown_member_and_a_value_outside_the_domain_are_named(wire: Wire) -> None:
    error = wire.ask("POST", READ, b'{"ids":[],"more":1,"most":2}').json["error"]
    assert error["details"] == {"argument": "more"}
    error = wire.ask("POST", READ, b'{"ids":["urn:a",{"x":1e999}]}').json["error"]
    assert (error["code"], error["details"]["pointer"]) == ("invalid_value", "/ids/1/x")


def test_a_command_takes_nothing_in_its_address(wire: Wire) -> None:
    for query in ("ids=urn:a", "token=rote_secret", "x", "a=1&a=1"):
        reply = wire.ask("POST", f"{READ}?{query}", BODY)
        assert (reply.status, reply.code) == (400, "invalid_input")
        assert b"secret" not in reply.body
    assert wire.ask("POST", f"{READ}?", BODY).status == 200


def test_a_scan_takes_a_prefix_for_its_range(wire: Wire) -> None:
    by_prefix = wire.command("scan", {"prefix": "urn:"})
    assert by_prefix.body == wire.command("scan", {"start": "urn:", "end": "urn;"}).body
    assert wire.command("scan", {"prefix": "urn:", "end": "urn;"}).status == 400


# -- writing once ----------------------------------------------------------------------------------


def test_a_key_in_the_head_is_the_key_of_the_body(wire: Wire) -> None:
    commit = {"operations": [{"op": "set", "id": "urn:key", "value": 1}]}
    first = wire.command("commit", commit, idempotency_key="k")
    assert first.body == wire.command("commit", {**commit, "key": "k"}).body
    both = wire.command("commit", {**commit, "key": "k"}, idempotency_key="k")
    assert both.body == first.body and both.headers["rote-version"] == first.headers["rote-version"]
    assert wire.command("commit", {**commit, "key": "k"}, idempotency_key="j").status == 400
    other = {"operations": [{"op": "set", "id": "urn:key", "value": 2}]}
    reply = wire.command("commit", other, idempotency_key="k")
    assert (reply.status, reply.code) == (422, "payload_mismatch")


def test_an_attempt_in_the_head_is_answered_once(wire: Wire) -> None:
    commit = {"operations": [{"op": "set", "id": "urn:attempt", "value": 1}]}
    first = wire.command("commit", commit, rote_attempt="ab" * 16)
    assert first.body == wire.command("commit", {**commit, "attempt": "ab" * 16}).body
    settled = wire.command("settle", {"attempt": "ab" * 16})
    assert settled.json["commit"] == first.json
    assert wire.command("commit", commit, rote_attempt="short").status == 400


# -- headers ---------------------------------------------------------------------------------------


def test_every_answer_says_its_request_and_is_not_cached(wire: Wire) -> None:
    for reply in (wire.ask("POST", READ, BODY), wire.ask("POST", "/none"), wire.ask("GET", READ)):
        assert len(bytes.fromhex(reply.headers["rote-request"])) == 8
        assert reply.headers["cache-control"] == "private, no-cache"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert "server" not in reply.headers


def test_a_good_request_id_is_the_clients(wire: Wire) -> None:
    good = "A.b_c-9" + "x" * 57
    assert wire.ask("POST", READ, BODY, x_request_id=good).headers["rote-request"] == good
    for bad in ("", "x" * 65, "a b", "a\xe4", "<script>"):
        assert wire.ask("POST", READ, BODY, x_request_id=bad).headers["rote-request"] != bad
    token = "rote_" + "0" * 12 + "_" + "x" * 43  # it would be logged
    assert wire.ask("POST", READ, BODY, x_request_id=token).headers["rote-request"] != token


def test_an_answer_of_a_space_says_the_head_it_was_made_at(wire: Wire, server: Serving) -> None:
    before = server.service.store.space("notes").version
    assert wire.ask("POST", READ, BODY).headers["rote-version"] == str(before)
    commit = {"operations": [{"op": "set", "id": "urn:b", "value": 1}]}
    assert wire.command("commit", commit).headers["rote-version"] == str(before + 1)
    stale = {**commit, "reads": [{"id": "urn:b", "version": 0}]}
    conflict = wire.command("commit", stale)
    assert (conflict.status, conflict.headers["rote-version"]) == (409, str(before + 1))
    assert "rote-version" not in wire.command("now", {}, space=None).headers
    assert "rote-version" not in wire.command("read", {"ids": []}, space="none").headers


def test_an_answer_of_a_space_says_its_newest_erasure(wire: Wire, server: Serving) -> None:
    server.service.store.space("other").set("urn:a", 1)
    read = wire.command("read", {"ids": ["urn:a"]}, space="other")
    assert read.headers["rote-erased"] == "0"
    erased = wire.command("erase", {"id": "urn:a", "reason": "asked"}, space="other")
    assert (erased.headers["rote-version"], erased.headers["rote-erased"]) == ("2", "2")
    read = wire.command("read", {"ids": ["urn:a"]}, space="other")
    assert read.headers["rote-erased"] == "2"


# -- long work -------------------------------------------------------------------------------------


def test_long_work_may_tell_of_its_progress(wire: Wire) -> None:
    reply = wire.command("verify", {}, accept="application/x-ndjson")
    assert reply.headers["content-type"] == "application/x-ndjson"
    *progress, last = [line for line in reply.body.split(b"\n") if line]
    assert all(line.startswith(b'{"progress":[') for line in progress)
    assert last == b'{"result":%b}' % wire.command("verify", {}).body


def test_a_difference_may_come_as_lines(wire: Wire, server: Serving) -> None:
    space = server.service.store.space("diffed")
    for number in range(3):
        space.set(f"urn:{number}", {"n": number})
    asked = {"before": {"version": 1}, "after": {}}
    whole = wire.command("diff", asked, space="diffed").json["changes"]
    lines = wire.command("diff", asked, space="diffed", accept="application/x-ndjson")
    assert lines.headers["content-type"] == "application/x-ndjson"
    assert [decode(line) for line in lines.body.splitlines()] == whole
    assert [change["id"] for change in whole] == ["urn:1", "urn:2"]
    refused = wire.command("diff", {**asked, "after": {"version": 9}}, space="diffed",
                           accept="application/x-ndjson")  # fmt: skip
    assert (refused.status, refused.code) == (404, "version_not_found")


def test_an_error_before_long_work_has_its_own_status(wire: Wire) -> None:
    reply = wire.command("verify", {"against": 1}, accept="application/x-ndjson")
    assert reply.status == 400
    assert wire.command("verify", {}, space="none", accept="application/x-ndjson").status == 404


def test_a_client_that_waits_for_a_word_gets_it_only_when_it_may(server: Serving) -> None:
    with Wire(server.url, server.token) as wire:
        request = wire.request("POST", READ, BODY, expect="100-continue")
        wire.send(request.removesuffix(BODY))
        assert wire.reply().status == 100
        wire.send(BODY)
        assert wire.reply().status == 200
        wire.send(wire.request("POST", "/v1/spaces/none/read", BODY, expect="100-continue")[:-17])
        assert wire.reply().status == 404
        assert wire.is_closed
    with Wire(server.url, "rote_wrong") as wire:
        wire.send(wire.request("POST", READ, BODY, expect="100-continue").removesuffix(BODY))
        assert wire.reply().status == 401
        assert wire.is_closed
    with Wire(server.url, server.token) as wire:
        assert wire.ask("POST", READ, BODY, expect="payment").code == "expectation"

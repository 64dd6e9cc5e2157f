"""Answers that no server of Rote gives: what the caller hears, and what a write may have become."""

import socket
from collections.abc import Callable, Iterator

import pytest

import rote
from rote.client import replies
from rote.contract import View
from rote.contract.commands import Read
from rote.errors import InvalidInput, Unavailable
from rote.space import Space
from rote.space.sources import port_of
from tests.cutting import Between, Plan, answers, between, says
from tests.served import Served, served
from tests.unit.client.test_calls import break_next

A, B = "urn:a", "urn:b"
HTML = b"<html>"


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as found:
        yield found


@pytest.fixture(params=["httptools", "http.client"])
def line(
    server: Served, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Between]:
    if request.param == "http.client":
        monkeypatch.setattr(replies, "httptools", None)
    server.new_space()
    with between(server.server.url) as found:
        yield found


@pytest.fixture
def space(server: Served, line: Between) -> Iterator[Space]:
    with rote.open(line.url, token=server.server.token, timeout=5) as store:
        yield store.space(server.space.name)


def whole(body: bytes, status: int = 200) -> bytes:
    return b"HTTP/1.1 %d Of a test\r\ncontent-length: %d\r\n\r\n" % (status, len(body)) + body


def pinned(space: Space) -> object:
    return port_of(space).answer(space.did, Read((A, B), View("main", 0)))


READS: dict[str, Callable[[Space], object]] = {
    "get": lambda space: space.get(A),
    "pinned": pinned,
    "history": lambda space: list(space.history(A)),
    "log": lambda space: list(space.log()),
    "scan": lambda space: list(space.scan()),
    "query": lambda space: space.query({"select": {A: {}}}),
    "head": lambda space: space.head,
}
WRITES: dict[str, Callable[[Space], object]] = {
    "set": lambda space: space.set(A, 1),
    "put_blob": lambda space: space.put_blob(b"bytes"),
    "erase": lambda space: space.erase(A, reason="asked"),
    "transact": lambda space: space.transact([{"op": "set", "id": A, "value": 1}], key="k"),
}
GARBAGE = {
    "nothing": b"",
    "no object": b"[]",
    "null": b"null",
    "html": HTML,
    "deep": b"[" * 100_000,
    "deep object": b'{"version":' * 5_000 + b"1" + b"}" * 5_000,
    "deep value": b'{"version":1,"states":[{"id":"urn:a","version":1,"hash":null,"exists":true,'
    b'"value":%b%b}],"next":null}' % (b"[" * 5_000, b"]" * 5_000),
}  # fmt: skip


@pytest.mark.parametrize("body", GARBAGE.values(), ids=GARBAGE)
@pytest.mark.parametrize("name", READS)
def test_an_answer_that_cannot_be_read_is_the_servers_fault(
    line: Between, space: Space, name: str, body: bytes
) -> None:
    break_next(line, space, answers(200, body))
    with pytest.raises(Unavailable):
        READS[name](space)


@pytest.mark.parametrize("body", [*GARBAGE.values(), b"{}"], ids=[*GARBAGE, "empty object"])
@pytest.mark.parametrize("name", WRITES)
def test_after_an_answer_that_cannot_be_read_nobody_knows_what_a_write_became(
    line: Between, space: Space, name: str, body: bytes
) -> None:
    break_next(line, space, answers(200, body))
    with pytest.raises(Unavailable) as caught:
        WRITES[name](space)
    details = caught.value.details
    assert details["outcome"] == "unknown"
    assert details["attempt"] in line.requests[0].decode("latin-1")


@pytest.mark.parametrize("status", [302, 500, 504])
@pytest.mark.parametrize("name", WRITES)
def test_a_failure_in_between_may_hide_a_write(
    server: Served, line: Between, name: str, status: int
) -> None:
    """The server may have done what a proxy fails to answer."""
    with rote.open(line.url, token=server.server.token, timeout=0.5) as store:
        space = store.space(server.space.name)
        break_next(line, space, *[says(whole(HTML, status))] * 20)
        with pytest.raises(Unavailable) as caught:
            WRITES[name](space)
        line.plans.clear()
        assert caught.value.details["outcome"] == "unknown"
        assert space.settle(caught.value.details["attempt"]) is None


def test_a_refusal_in_between_hides_nothing(line: Between, space: Space) -> None:
    break_next(line, space, says(whole(HTML, 413)))
    with pytest.raises(Unavailable) as caught:
        space.set(A, 1)
    assert "outcome" not in caught.value.details


def page(*states: bytes, rest: bytes = b"null") -> bytes:
    return b'{"version":1,"states":[%b],"next":%b}' % (b",".join(states), rest)


@pytest.mark.parametrize(
    "body",
    [
        page(rest=b"0"),
        page(b'{"id":"urn:b","version":1,"hash":"ab","exists":true,"value":5}'),
        page(b'{"id":"urn:a","version":1,"hash":"ab","unchanged":true}'),
        page(*[b'{"id":"urn:a","version":1,"hash":"ab","exists":true,"value":5}'] * 2),
    ],
    ids=["no state", "another entity", "left out", "too many"],
)
def test_a_page_of_other_states_than_asked_for_is_none(
    line: Between, space: Space, body: bytes
) -> None:
    break_next(line, space, answers(200, body))
    with pytest.raises(Unavailable):
        space.get(A)


GOOD = whole(page(b'{"id":"urn:a","version":1,"hash":"ab","exists":true,"value":5}'))
EARLY = b"HTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\n"


@pytest.mark.parametrize(
    "pieces", [(EARLY, GOOD), (EARLY + GOOD,), (EARLY, EARLY, GOOD[:30], GOOD[30:])]
)
def test_an_announcement_is_no_answer(
    line: Between, space: Space, pieces: tuple[bytes, ...]
) -> None:
    break_next(line, space, says(*pieces))
    assert space.get(A) == 5


def endless_head(client: socket.socket, between: Between) -> None:
    between.take(client)
    client.sendall(b"HTTP/1.1 200 OK\r\nx: ")
    while True:
        client.sendall(b"x" * 65_536)


def endless_headers(client: socket.socket, between: Between) -> None:
    between.take(client)
    client.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        client.sendall(b"x: y\r\n" * 10_000)


@pytest.mark.parametrize(
    "plan",
    [
        says(b"HTTP/1.1 101 Of a test\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"),
        says(b"\x16\x03\x01" + bytes(range(200))),
        says(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        says(b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n{}"),
        says(b"HTTP/1.1 200 OK\r\n\r\n{}"),
        endless_head,
        endless_headers,
    ],
    ids=["upgrade", "tls", "http/2", "length", "no length", "endless header", "endless headers"],
)
def test_what_is_no_answer_of_http_is_asked_for_again(
    server: Served, line: Between, space: Space, plan: Plan
) -> None:
    server.space.set(A, 7)
    break_next(line, space, plan)
    assert space.get(A) == 7


def test_bytes_behind_an_answer_belong_to_none(server: Served, line: Between, space: Space) -> None:
    server.space.set(A, 7)
    break_next(line, space, says(GOOD + GOOD.replace(b'"value":5', b'"value":6')))
    assert space.get(A) in (5, 7)
    assert space.get(A) == 7


@pytest.mark.parametrize("key", ["a\r\nx-request-id: b", " a", "a ", "a\tb", "a\x7f", "a\x00"])
def test_a_key_that_a_header_cannot_carry_is_refused(
    server: Served, line: Between, space: Space, key: str
) -> None:
    """A line break in the key of a blob made headers, and two keys that differ by a space were one."""
    with pytest.raises(InvalidInput):
        space.put_blob(b"bytes", key=key)
    assert server.space.version == 0
    space.put_blob(b"bytes", key="ä b")
    assert server.space.version == 1
    assert space.put_blob(b"bytes", key="ä b") == server.space.put_blob(b"bytes", key="ä b")
    assert server.space.version == 1

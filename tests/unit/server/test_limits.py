"""Each limit of a server: met, it refuses; just below, it lets through."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

import rote
from rote.access.principals import Principal
from rote.access.tokens import TokenRight
from rote.contract import PortLayer
from rote.contract.commands import ListBranches
from rote.errors import InvalidInput, Unavailable
from rote.opening.sources import SystemClock, SystemIds
from rote.server.accounts import Accounts, Buffered
from rote.server.messages import Head
from rote.server.serving import Serving
from rote.server.settings import Limits, limits_of
from rote.testing.serving import serving
from rote.values import micros_of
from tests.wires import Wire

READ = "/v1/spaces/notes/read"
BRANCHES = "/v1/spaces/notes/branches"
BODY = b'{"ids":["urn:a"]}'


@contextmanager
def served(**options: Any) -> Iterator[Serving]:
    with rote.open(":memory:") as store, serving(store, **options) as server:
        store.space("notes").set("urn:a", {"n": 1})
        yield server


def refused(wire: Wire, status: int, code: str) -> None:
    """Assert that the next answer is a refusal, after which the connection is closed."""
    reply = wire.reply()
    assert (reply.status, reply.code) == (status, code)
    assert reply.headers["connection"] == "close"
    assert wire.is_closed


# -- heads -----------------------------------------------------------------------------------------


def padded(wire: Wire, size: int) -> bytes:
    """Return a request whose head has so many bytes of headers, as the server counts them."""
    bare = wire.request("POST", "/v1/now")
    counted = len(bare) - len(b"POST /v1/now HTTP/1.1\r\n") - len(b"\r\n")
    return wire.request("POST", "/v1/now", x="y" * (size - counted - len("x: \r\n")))


def test_the_bytes_of_a_head() -> None:
    with served(head_bytes=1_000) as server:
        with Wire(server.url, server.token) as wire:
            wire.send(padded(wire, 1_000))
            assert wire.reply().status == 200
            wire.send(padded(wire, 1_001))
            refused(wire, 431, "headers")
        with Wire(server.url, server.token) as wire:
            wire.send(b"POST /v1/now HTTP/1.1\r\nx: " + b"y" * 2_000)  # a header without an end
            refused(wire, 431, "headers")


def test_the_number_of_headers() -> None:
    with served(headers=10) as server, Wire(server.url, server.token) as wire:
        more = {f"x{number}": "y" for number in range(8)}  # host and authorization besides
        assert wire.ask("POST", "/v1/now", **more).status == 200
        wire.send(wire.request("POST", "/v1/now", **more, last="z"))
        refused(wire, 431, "headers")


def test_the_bytes_of_an_address() -> None:
    with served(uri_bytes=100) as server, Wire(server.url, server.token) as wire:
        assert wire.ask("POST", "/" + "a" * 99).status == 404
        wire.send(wire.request("POST", "/" + "a" * 100))
        refused(wire, 414, "uri")


# -- time ------------------------------------------------------------------------------------------


def test_a_head_that_comes_too_slowly_is_cut_off() -> None:
    with served(head_seconds=0.2) as server:
        with Wire(server.url, server.token) as wire:
            assert wire.ask("POST", "/v1/now").status == 200
            wire.send(b"POST /v1/now HTTP/1.1\r\n")
            refused(wire, 408, "timeout")
        with Wire(server.url) as silent:
            assert silent.is_closed  # and no answer: no byte of a request has come


def test_an_idle_connection_is_closed_and_one_in_use_is_not() -> None:
    with (
        served(idle_seconds=0.3) as server,
        Wire(server.url, server.token) as wire,
        Wire(server.url, server.token) as busy,
    ):
        assert wire.ask("POST", "/v1/now").status == 200
        await_count(server, busy, 1)
        assert wire.is_closed
        assert busy.ask("POST", "/v1/now").status == 200


def test_a_body_that_comes_too_slowly_is_cut_off_and_stores_nothing() -> None:
    with served(body_seconds=0.2) as server:
        with Wire(server.url, server.token) as wire:
            commit = b'{"operations":[{"op":"set","id":"urn:b","value":1}]}'
            whole = wire.request("POST", "/v1/spaces/notes/commit", commit)
            wire.send(whole[:-1])
            refused(wire, 408, "timeout")
        with Wire(server.url, server.token) as wire:
            wire.send(whole[:-5])
            wire.send(whole[-5:])
            assert wire.reply().json["version"] == 2


def test_a_client_that_takes_no_byte_is_cut_off_and_others_are_served() -> None:
    with served(write_seconds=0.2, connections=20) as server:
        space = server.service.store.space("notes")
        space.set("urn:large", "x" * 3_000_000)
        with ExitStack() as stack, Wire(server.url, server.token) as other:
            readers = [stack.enter_context(Wire(server.url, server.token)) for _ in range(8)]
            for reader in readers:
                reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                asked = reader.request("POST", READ, b'{"ids":["urn:large"]}')
                reader.send(asked * 4)
            assert other.ask("POST", READ, BODY).status == 200
            # Nothing is read until the server has cut the lines.
            await_count(server, other, 1)


def await_count(server: Serving, wire: Wire, count: int) -> None:
    """Ask until the server has so many connections."""
    for _ in range(100_000):
        if len(server.server_state.connections) <= count:
            return
        assert wire.ask("POST", "/v1/now").status == 200
    raise AssertionError("the connections are still open")


# -- bodies ----------------------------------------------------------------------------------------


def body_of(size: int) -> bytes:
    return b'{"ids":[]' + b" " * (size - 10) + b"}"


@pytest.mark.parametrize("is_chunked", [False, True])
def test_the_bytes_of_a_body(is_chunked: bool) -> None:
    with served(body_bytes=200_000) as server:
        for size in (200_000, 200_001):
            with Wire(server.url, server.token) as wire:
                body = body_of(size)
                whole = wire.request("POST", READ, body)
                if is_chunked:
                    head = wire.request("POST", READ, b"", content_length=None,
                                        transfer_encoding="chunked")  # fmt: skip
                    whole = head + b"%x\r\n%b\r\n0\r\n\r\n" % (size, body)
                if size == 200_000:
                    wire.send(whole)
                    assert wire.reply().status == 200
                elif is_chunked:
                    wire.send(whole)
                    assert (wire.reply().status) == 413
                else:
                    wire.send(whole[: -size // 2])  # refused by its length alone
                    refused(wire, 413, "limit_exceeded")


def test_commands_that_hold_values_have_a_limit_of_their_own() -> None:
    with served(body_bytes=100, commit_bytes=300) as server:
        with Wire(server.url, server.token) as wire:
            operations = [{"op": "set", "id": "urn:b", "value": "x" * 180}]
            assert wire.command("commit", {"operations": operations}).status == 200
            operations[0]["value"] = "x" * 300
            reply = wire.command("commit", {"operations": operations})
            assert (reply.status, reply.code) == (413, "limit_exceeded")
        with Wire(server.url, server.token) as wire:
            assert wire.command("read", {"ids": ["urn:" + "x" * 100]}).status == 413


def test_the_bytes_of_a_blob() -> None:
    with served(blob_bytes=100_000) as server:
        for size in (100_000, 100_001):
            with Wire(server.url, server.token) as wire:
                wire.send(wire.request("POST", "/v1/spaces/notes/blobs", b"x" * size))
                reply = wire.reply()
                assert reply.status == (200 if size == 100_000 else 413)


def test_bodies_of_all_requests_together() -> None:
    with served(buffered_bytes=100_000) as server:
        with Wire(server.url, server.token) as slow, Wire(server.url, server.token) as wire:
            body = body_of(80_000)
            slow.send(slow.request("POST", READ, body)[:-40_000])
            # The head of the slow request was read when its connection answers nothing yet, and the
            # server holds what it has announced.
            await_held(server, wire, 80_000)
            reply = wire.ask("POST", READ, body_of(30_000))
            assert (reply.status, reply.code) == (503, "overloaded")
            assert reply.headers["retry-after"] == "1"
            slow.send(body[-40_000:])
            assert slow.reply().status == 200
        with Wire(server.url, server.token) as wire:
            assert wire.ask("POST", READ, body_of(100_000)).status == 200


def test_answers_count_until_their_clients_have_taken_them() -> None:
    with served(buffered_bytes=3_000_000, write_seconds=0.5) as server:
        server.service.store.space("notes").set("urn:large", "x" * 2_900_000)
        with Wire(server.url, server.token) as slow, Wire(server.url, server.token) as wire:
            slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            asked = slow.request("POST", READ, b'{"ids":["urn:large"]}')
            slow.send(asked * 3)  # more than the system's buffers take
            await_held(server, wire, 2_900_000)
            body = body_of(200_000)
            reply = wire.ask("POST", READ, body)
            assert (reply.status, reply.code) == (503, "overloaded")
            await_count(server, wire, 1)  # the reader is cut off
            assert wire.ask("POST", READ, body).status == 200


def await_held(server: Serving, wire: Wire, size: int) -> None:
    for _ in range(100_000):
        if server.app.buffered.size_bytes >= size:
            return
        assert wire.ask("POST", "/v1/now").status == 200
    raise AssertionError("the server never held it")


# -- how many --------------------------------------------------------------------------------------


def test_the_number_of_connections() -> None:
    with served(connections=5) as server, ExitStack() as stack:
        wires = [stack.enter_context(Wire(server.url, server.token)) for _ in range(5)]
        for wire in wires:
            assert wire.ask("POST", "/v1/now").status == 200
        with Wire(server.url, server.token) as over:
            refused(over, 503, "overloaded")
        wires[0].socket.close()
        await_count(server, wires[1], 4)
        with Wire(server.url, server.token) as again:
            assert again.ask("POST", "/v1/now").status == 200


class Gate(PortLayer):
    """A port whose answers wait until they are let through."""

    def __init__(self, port: Any) -> None:
        super().__init__(port)
        self.is_open = threading.Event()
        self.waiting = threading.Semaphore(0)

    def answer(self, space: str, command: Any, /) -> Any:
        if isinstance(command, ListBranches):
            self.waiting.release()
            self.is_open.wait(30)
        return super().answer(space, command)


def test_requests_that_wait_for_a_thread() -> None:
    with rote.open(":memory:") as store, ExitStack() as stack:
        store.space("notes")
        gate = store._port = Gate(store._port)
        server = stack.enter_context(serving(store, threads=2, queue=3))
        wires = [stack.enter_context(Wire(server.url, server.token)) for _ in range(6)]
        for wire in wires[:2]:
            wire.send(wire.request("POST", BRANCHES))
            assert gate.waiting.acquire(timeout=30)
        for wire in wires[2:5]:
            wire.send(wire.request("POST", BRANCHES))
        for _ in range(10_000_000):
            if server.app._pool.waiting == 3:
                break
        over = wires[5].ask("POST", BRANCHES)
        assert (over.status, over.code, over.headers["retry-after"]) == (503, "overloaded", "1")
        gate.is_open.set()
        assert [wire.reply().status for wire in wires[:5]] == [200] * 5
        assert wires[5].ask("POST", BRANCHES).status == 200


# -- principals ------------------------------------------------------------------------------------

SOMEBODY = Principal("token:somebody", None)
OPERATOR = Principal("operator", None, is_operator=True)


def test_requests_of_one_principal_that_are_under_way() -> None:
    accounts = Accounts(Limits(principal_in_flight=3), now=lambda: 0.0)
    for _ in range(3):
        accounts.begin(SOMEBODY)
    with pytest.raises(Unavailable) as caught:
        accounts.begin(SOMEBODY)
    assert caught.value.code == "too_many_requests"
    accounts.begin(Principal("token:another", None))
    accounts.end(SOMEBODY)
    accounts.begin(SOMEBODY)


def test_requests_of_one_principal_in_a_second() -> None:
    now = 0.0
    accounts = Accounts(Limits(principal_rate=10), now=lambda: now)

    def begin(count: int) -> None:
        for _ in range(count):
            accounts.begin(SOMEBODY)
            accounts.end(SOMEBODY)

    begin(20)
    with pytest.raises(Unavailable):
        begin(1)
    now = 0.5
    begin(5)
    with pytest.raises(Unavailable):
        begin(1)
    now = 100.0
    begin(20)
    with pytest.raises(Unavailable):
        begin(1)


def test_a_token_that_asks_too_often_is_told_to_wait() -> None:
    with served(principal_rate=2, principal_in_flight=3) as server:
        token = named_token(server, "often")
        with Wire(server.url, token) as wire, Wire(server.url, server.token) as operator:
            assert [wire.ask("POST", "/v1/now").status for _ in range(4)] == [200] * 4
            replies = (wire.ask("POST", "/v1/now") for _ in range(10_000))
            reply = next(reply for reply in replies if reply.status == 429)
            assert (reply.code, reply.headers["retry-after"]) == ("too_many_requests", "1")
            assert {operator.ask("POST", "/v1/now").status for _ in range(20)} == {200}


def test_a_token_has_so_many_requests_under_way() -> None:
    with served(principal_in_flight=2) as server, ExitStack() as stack:
        token = named_token(server, "busy")
        wires = [stack.enter_context(Wire(server.url, token)) for _ in range(3)]
        for wire in wires[:2]:
            request = wire.request("POST", READ, BODY, expect="100-continue")
            wire.send(request.removesuffix(BODY))
            assert wire.reply().status == 100
        over = wires[2].ask("POST", "/v1/now")
        assert (over.status, over.code) == (429, "too_many_requests")
        wires[0].send(BODY)
        assert wires[0].reply().status == 200
        for _ in range(1_000):  # until the server has noticed that it has sent the answer
            if wires[2].ask("POST", "/v1/now").status == 200:
                break
        else:
            raise AssertionError("the place was never free again")


def named_token(server: Serving, name: str) -> str:
    """Return a token that may read everything."""
    text, _ = server.service.home.create_token(
        name,
        TokenRight("read"),
        now=micros_of(SystemClock().now()),
        expires=None,
        ids=SystemIds(),
    )
    return text


def test_operators_have_no_limits() -> None:
    accounts = Accounts(Limits(principal_rate=1, principal_in_flight=1), now=lambda: 0.0)
    for _ in range(100):
        accounts.begin(OPERATOR)


def test_a_credential_that_was_good_is_counted_while_it_waits() -> None:
    accounts = Accounts(Limits(), now=lambda: 0.0)
    head = Head("POST", b"/", b"", ((b"authorization", b"Bearer x"),))
    assert accounts.known(head) is None
    accounts.remember(head, SOMEBODY)
    assert accounts.known(head) == SOMEBODY
    assert accounts.known(Head("POST", b"/", b"", ((b"authorization", b"Bearer y"),))) is None


def test_bytes_are_held_up_to_their_limit() -> None:
    buffered = Buffered(100)
    buffered.hold(100)
    with pytest.raises(Unavailable):
        buffered.hold(1)
    buffered.keep(50)  # an answer is made already
    buffered.release(150)
    buffered.hold(100)


# -- options ---------------------------------------------------------------------------------------


def test_every_limit_can_be_set_by_its_name() -> None:
    for name in Limits.__struct_fields__:
        assert getattr(limits_of([f"{name}=7"]), name) == 7
    assert limits_of(["head_seconds=0.5"]).head_seconds == 0.5


@pytest.mark.parametrize("text", ["none=1", "queue", "queue=", "queue=x", "queue=0", "queue=-1",
                                  "queue=1.5", "head_seconds=nan", "head_seconds=inf", "=1"])  # fmt: skip
def test_a_limit_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        limits_of([text])

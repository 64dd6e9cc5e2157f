"""Watches as server-sent events and as lines, compared with embedded frames."""

import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from rote.server import watching as watching_module
from rote.values import canonical, decode
from tests.served import Served, served
from tests.wires import Closed, Wire

LINES = "application/x-ndjson"
QUERY: Any = {"select": {"urn:n:*": {}}}


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(principal_watches=3) as found:
        yield found


@pytest.fixture(autouse=True)
def space(server: Served) -> None:
    server.new_space()


class Stream:
    """The answer of a watch, piece by piece."""

    def __init__(self, wire: Wire, request: bytes) -> None:
        wire.send(request)
        self.wire = wire
        self.status, self.headers = wire.head()
        self._chunks = wire.chunks() if "transfer-encoding" in self.headers else iter(())
        self._left = b""

    def until(self, end: bytes) -> bytes:
        while end not in self._left:
            self._left += next(self._chunks)
        found, self._left = self._left.split(end, 1)
        return found

    def line(self) -> Any:
        return decode(self.until(b"\n"))

    def event(self) -> dict[str, str]:
        lines = self.until(b"\n\n").decode().split("\n")
        return dict(line.split(": ", 1) for line in lines)

    def frame(self) -> Any:
        return decode(self.event()["data"].encode())


def target(server: Served, query: Any = QUERY, **more: Any) -> str:
    text = f"query={quote(canonical(query))}" + "".join(f"&{k}={v}" for k, v in more.items())
    return f"/v1/spaces/{server.space.name}/watch?{text}"


def test_events_are_the_frames_of_the_embedded_watch(server: Served) -> None:
    server.space.set("urn:n:1", {"text": "a\nb"})
    embedded = server.space.watch(QUERY, timeout=10)
    with server.another() as wire:
        stream = Stream(wire, wire.request("GET", target(server)))
        assert stream.status == 200
        assert stream.headers["content-type"] == "text/event-stream"
        assert stream.headers["cache-control"] == "private, no-cache"
        assert stream.headers["rote-version"] == "1"
        for number in range(4):
            event = stream.event()
            frame = decode(event["data"].encode())
            assert event["event"] == "frame" and event["id"] == str(frame["to"])
            assert frame == next(embedded)
            server.space.set(f"urn:n:{number}", number)
        assert stream.frame() == next(embedded)
        server.space.delete("urn:n:1")
        assert stream.frame()["removes"] == ["urn:n:1"]


def test_lines_are_frames_too(server: Served) -> None:
    with server.another() as wire:
        stream = Stream(wire, wire.request("GET", target(server), accept=LINES))
        assert stream.headers["content-type"] == LINES
        assert stream.line() == {"from": None, "to": 0, "upserts": [], "removes": []}
        server.space.set("urn:other", 1)
        server.space.set("urn:n:1", 1)
        frame = stream.line()
        assert (frame["from"], frame["to"]) == (0, 2)


def test_a_watch_goes_on_where_it_ended(server: Served) -> None:
    for number in range(3):
        server.space.set(f"urn:n:{number}", number)
    for query, headers in (
        ({"since": 2}, {}),
        ({"since": 1}, {"last_event_id": "2"}),
        ({}, {"last_event_id": "2"}),
    ):
        with server.another() as wire:
            stream = Stream(wire, wire.request("GET", target(server, **query), **headers))
            frame = stream.frame()
            assert (frame["from"], frame["to"]) == (2, 3)
            assert [each["id"] for each in frame["upserts"]] == ["urn:n:2"]


def test_a_long_query_is_posted(server: Served) -> None:
    server.space.create_branch("draft")
    body = canonical({"query": QUERY, "branch": "draft", "since": None})
    with server.another() as wire:
        place = f"/v1/spaces/{server.space.name}/watch"
        stream = Stream(wire, wire.request("POST", place, body))
        assert stream.frame()["from"] is None
        server.space.set("urn:n:1", 1)  # on main
        server.space.on("draft").set("urn:n:2", 2)
        assert [each["id"] for each in stream.frame()["upserts"]] == ["urn:n:2"]


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ("query=%7B", 400), ("query=%7B%7D", 400), ("", 400), ("query=1", 400),
        ("query=%7B%22select%22:%7B%22*%22:%7B%7D%7D%7D&branch=none", 404),
        ("query=%7B%22select%22:%7B%22*%22:%7B%7D%7D%7D&since=99", 404),
        ("query=%7B%22select%22:%7B%22*%22:%7B%7D%7D%7D&since=x", 400),
        ("query=%7B%22select%22:%7B%22*%22:%7B%7D%7D%7D&limit=1", 400),
    ],
)  # fmt: skip
def test_a_bad_watch_is_refused_before_it_begins(server: Served, more: str, status: int) -> None:
    reply = server.wire.ask("GET", f"/v1/spaces/{server.space.name}/watch?{more}")
    assert reply.status == status, reply
    body = canonical({"query": QUERY, "x": 1})
    assert server.ask("POST", "watch", body).status == 400
    assert server.ask("GET", "watch", query={"query": "{}"}, last_event_id="x").status == 400
    assert server.server.service.watches.count == 0


def test_a_watch_that_is_gone_is_forgotten_and_too_many_are_refused(server: Served) -> None:
    watches = server.server.service.watches
    wires = [server.another() for _ in range(3)]
    streams = [Stream(wire, wire.request("GET", target(server))) for wire in wires]
    for stream in streams:
        stream.frame()
    refused = server.wire.ask("GET", target(server))
    assert (refused.status, refused.code) == (429, "too_many_requests")
    assert refused.headers["retry-after"]
    assert watches.count == 3
    for wire in wires:
        wire.socket.close()
    while watches.count:  # the server hears of it; the time limit of the test run is the bound
        server.space.set("urn:n:0", watches.count)
    with server.another() as wire:
        assert Stream(wire, wire.request("GET", target(server))).status == 200


def test_a_server_holds_so_many_watches() -> None:
    with served(watches=2) as server:
        wires = [server.another() for _ in range(2)]
        for wire in wires:
            Stream(wire, wire.request("GET", target(server))).frame()
        refused = server.wire.ask("GET", target(server))
        assert (refused.status, refused.code) == (503, "overloaded")
        for wire in wires:
            wire.socket.close()


def test_a_reader_that_never_reads_holds_up_nobody(server: Served) -> None:
    waiters = server.server.service.watches._lookout._waiters
    with server.another() as stuck, server.another() as wire:
        stuck.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        stuck.send(stuck.request("GET", target(server)))
        stuck.head()
        others = set(waiters[server.space.did])
        stream = Stream(wire, wire.request("GET", target(server)))
        stream.frame()
        (waiter,) = waiters[server.space.did] - others
        for number in range(8):  # more than sockets take
            while not waiter.is_listening:  # it has rested, and has to be woken
                server.wire.ask("GET", "/health")
            server.space.set("urn:n:1", "x" * 1_500_000 + str(number))
            assert stream.frame()["upserts"][0]["value"].endswith(str(number))


@pytest.mark.parametrize(("accept", "word"), [("*/*", b": \n\n"), (LINES, b"{}\n")])
def test_a_watch_without_news_says_that_it_lives(
    monkeypatch: pytest.MonkeyPatch, accept: str, word: bytes
) -> None:
    begin = watching_module.Watches.begin
    monkeypatch.setattr(
        watching_module.Watches,
        "begin",
        lambda self, principal, space, stream: begin(self, principal, space, stream, 0.05),
    )
    with served() as server, server.another() as wire:
        stream = Stream(wire, wire.request("GET", target(server), accept=accept))
        stream.until(b"}\n\n" if accept == "*/*" else b"}\n")
        end = word[-2:] if accept == "*/*" else b"\n"
        for _ in range(2):
            assert stream.until(end) + end == word


@pytest.mark.parametrize("accept", ["*/*", LINES])
def test_a_stopping_server_says_closing(accept: str) -> None:
    with served() as server:
        wire = server.another()
        stream = Stream(wire, wire.request("GET", target(server), accept=accept))
        if accept == LINES:
            stream.line()
            server.server.stop()
            assert stream.line() == {"closing": {}}
        else:
            stream.frame()
            server.server.stop()
            assert stream.event() == {"event": "closing", "data": "{}"}
        with pytest.raises((StopIteration, Closed)):
            stream.until(b"\n")
        wire.socket.close()


def test_a_watch_of_a_space_that_is_erased_ends_with_the_error(server: Served) -> None:
    with server.another() as wire:
        stream = Stream(wire, wire.request("GET", target(server)))
        stream.frame()
        name = server.space.name
        server.store.erase_space(name, reason="test", confirm=name)
        event = stream.event()
        assert event["event"] == "error"
        assert decode(event["data"].encode())["error"]["code"] == "not_found"


def test_nobody_looks_for_watches_that_are_gone(server: Served) -> None:
    watches = server.server.service.watches
    with server.another() as wire:
        stream = Stream(wire, wire.request("GET", target(server)))
        stream.frame()
        assert watches._lookout._waiters
    while watches.count or watches._lookout._waiters:  # they leave with the next look
        server.space.set("urn:n:0", 1)
    assert not watches._lookout._woken

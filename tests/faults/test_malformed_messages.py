"""Malformed messages and frames: none closes more than its own connection, none leaves anything."""

import threading
from random import Random
from typing import Any

from websockets.exceptions import ConnectionClosed

from rote.values import canonical
from tests.lanes import examples
from tests.served import Served, served
from tests.syncs import SyncLine
from tests.wires import Reply, Wire

COUNT = examples(1_500, 200_000)
FRAMES_SHARE = 10
NOTES: Any = {"select": {"urn:n:*": {}}}
_ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, 2**63 - 1, "", "x" * 200, [], {}, [[]], {"a": 1}, "\x00", "é", NOTES,
)  # fmt: skip


def messages(server: Served) -> list[dict[str, Any]]:
    """Return a good message of every type, but those that end or write."""
    return [
        {"type": "hello", "protocol": "rote/1"},
        {"type": "session.open", "space": server.space.name, "ephemeral": True,
         "auth": {"token": server.server.token}, "watches": {"a": NOTES}},
        {"type": "transact", "local": 1, "basis": 0, "operations": [], "reads": [], "key": None},
        {"type": "abandon", "local": 1},
        {"type": "ack", "verdicts": 0, "basis": 0, "to": 0},
        {"type": "watch.set", "watches": {"b": NOTES}, "since": {"version": 0, "hash": None}},
        {"type": "watch.add", "watches": {"c": NOTES}},
        {"type": "watch.remove", "names": ["b"]},
        {"type": "call", "command": "read", "args": {"ids": ["urn:n:1"]}},
        {"type": "call", "command": "query", "args": {"query": NOTES}},
    ]  # fmt: skip


def spoilt(random: Random, message: dict[str, Any]) -> bytes:
    """Return a message with something wrong: in a member, or in its bytes."""
    message = dict(message)
    for _ in range(random.randint(1, 2)):
        name = random.choice([*message, "more"])
        if random.random() < 0.3 and name in message:
            del message[name]
        else:
            message[name] = random.choice(_ODD)
    data = bytearray(canonical(message))
    for _ in range(random.choice([0, 0, 0, 1, 3])):
        place = random.randrange(len(data) + 1)
        data[place : place + random.randint(0, 2)] = random.randbytes(random.randint(0, 2))
    return bytes(data)


def spoilt_frame(random: Random) -> bytes:
    """Return the bytes of a frame that is none, or a part of one."""
    size = random.choice([0, 5, 125, 126, 127])
    head = bytes([random.randrange(256), random.choice([0, 128]) | size])
    return head + random.randbytes(random.randint(0, 40))


def test_malformed_messages_and_frames_leave_the_server_as_it_was() -> None:
    random = Random(23)
    with served() as server:
        server.space.set("urn:n:1", 1)
        with SyncLine(server.server.url) as witness:
            witness.open(server.space.name, server.server.token, watches={"a": NOTES})
            witness.take()
            send_messages(server, random, COUNT // 10)
            threads = threading.active_count()
            send_messages(server, random, COUNT - COUNT // 10)
            send_frames(server, random, COUNT // FRAMES_SHARE)
            app = server.server.app
            server.space.set("urn:n:1", 2)
            assert witness.take()["states"][0]["value"] == 2
            while app.sessions.count > 1 or server.server.service.watches.count > 1:
                ask(server, "/health")
            while len(server.server.server_state.connections) > 1 + len(
                server.server.app.sessions._connections
            ):
                ask(server, "/health")
            while app.buffered.size_bytes:
                ask(server, "/health")
        assert server.space.version == 2
        assert threading.active_count() <= threads
        told = ask(server, "/metrics").body.decode()
        assert 'reason="internal_error"' not in told


def ask(server: Served, target: str) -> Reply:
    """Ask on a connection of its own: one that was idle may have been closed."""
    with server.another() as wire:
        return wire.ask("GET", target)


def send_messages(server: Served, random: Random, count: int) -> None:
    good = messages(server)
    line: SyncLine | None = None
    held: dict[str, Any] = {}  # one session that lasts, which is opened again and again
    for number in range(count):
        if line is None:
            line = SyncLine(server.server.url).__enter__()
            how = random.random()
            if how < 0.4:
                line.open(server.space.name, server.server.token)
            elif how < 0.8:
                found = line.sit(server.space.name, server.server.token, **held)
                held = {name: found[name] for name in ("session", "token")}
        message = {"id": 10_000 + number, **random.choice(good)}
        data = spoilt(random, message)
        line.socket.send(data, text=True)
        if is_closed(line):
            line.__exit__()
            line = None
    if line is not None:
        line.__exit__()


def is_closed(line: SyncLine) -> bool:
    """Whether the server closes instead of answering the last message."""
    try:
        line.answer(line.tell("ack"))
    except ConnectionClosed as closed:
        assert closed.rcvd is not None and closed.rcvd.code in (
            1003, 1007, 1009, 4400, 4401, 4406,
        ), closed  # fmt: skip
        return True
    line.kept.clear()
    line.answers.clear()
    return False


def send_frames(server: Served, random: Random, count: int) -> None:
    for _ in range(count):
        with Wire(server.server.url) as wire:
            wire.send(
                wire.request(
                    "GET", "/v1/sync", upgrade="websocket", connection="upgrade",
                    sec_websocket_version="13", sec_websocket_key="AAAAAAAAAAAAAAAAAAAAAA==",
                )
            )  # fmt: skip
            assert wire.head()[0] == 101
            wire.send(spoilt_frame(random))

"""Every command over a real socket has the embedded answer, byte for byte.

Two stores with the same clock and the same ids live through one story: the first is asked through its
port, the second through a server.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any

import pytest

import rote
from rote.contract import Caller, Port
from rote.contract.commands import FindSpace, Work
from rote.contract.vectors import vectors_name
from rote.contract.wire import Message, decode_command, encode_answer
from rote.errors import RoteError
from rote.kernel.kernel import TABLE as KERNEL
from rote.records.index import RECORDS
from rote.server.server_space import SERVER_SPACE
from rote.server.statuses import status_of
from rote.server.table import TABLE
from rote.space.sources import port_of_store
from rote.testing import FixedClock, SeededIds
from rote.testing.serving import serving
from rote.values import canonical
from tests.wires import Wire

A, B = "urn:entity:a", "urn:entity:b"
ATTEMPT = "ab" * 16
HASH = "0" * 64
VECTORS = vectors_name("words", "1", 2)
ROW = bytes(32) + bytes([127, 0]) + (1).to_bytes(4, "big")
QUERY: dict[str, Any] = {"select": {"urn:entity:*": {}}}


def sets(**values: Any) -> dict[str, Any]:
    names = {"a": A, "b": B}
    return {
        "operations": [
            {"op": "set", "id": names[name], "value": value} for name, value in values.items()
        ]
    }


# Name of the command, its arguments, and the space that is asked; later ones rely on earlier ones.
STORY: list[tuple[str, dict[str, Any], str | None]] = [
    ("now", {}, None),
    ("space_create", {"name": "notes", "create": True}, None),
    ("space_create", {"name": "other", "create": True}, None),
    ("spaces", {"limit": 1}, None),
    ("spaces", {"after": "notes"}, None),
    ("space", {}, "notes"),
    ("head", {}, "notes"),
    ("versions", {}, "notes"),
    ("commit", sets(a={"n": 1, "text": "häß"}, b=[1.5, None]) | {"key": "k1"}, "notes"),
    ("commit", sets(a={"n": 1, "text": "häß"}, b=[1.5, None]) | {"key": "k1"}, "notes"),
    ("commit", sets(a={"n": 2}) | {"attempt": ATTEMPT, "meta": {"why": "more"}}, "notes"),
    ("commit", sets(a={"n": 2}) | {"attempt": ATTEMPT, "meta": {"why": "more"}}, "notes"),
    ("commit", sets(a=1) | {"key": "k1"}, "notes"),
    ("commit", sets(a=1) | {"reads": [{"id": A, "version": 1}]}, "notes"),
    ("commit", {"operations": [{"op": "patch", "id": A, "ops": [{"op": "remove", "path": "/x"}]}]},
     "notes"),
    ("commit", {"operations": [{"op": "delete", "id": "urn:entity:none"}]}, "notes"),
    ("commit", {"operations": [{"op": "fly", "id": A}]}, "notes"),
    ("commit", {"operations": "none"}, "notes"),
    ("commit", sets(a={"n": 3}) | {"bodies": False}, "notes"),
    ("commit", sets(a={"n": 4}) | {"unchanged_since": 1}, "notes"),
    ("commit", sets(a={"n": 4}) | {"unchanged_since": 3}, "notes"),
    ("settle", {"attempt": ATTEMPT}, "notes"),
    ("settle", {"attempt": "cd" * 16}, "notes"),
    ("made", {"key": "k1", "call": {}, "ids": [A, B]}, "notes"),
    ("read", {"ids": [A, B, "urn:entity:none"]}, "notes"),
    ("read", {"ids": [A, B], "known": [HASH, None]}, "notes"),
    ("read", {"ids": [A], "known": []}, "notes"),
    ("read", {"ids": [A], "version": 1}, "notes"),
    ("read", {"ids": [A], "version": 99}, "notes"),
    ("read", {"ids": [], "branch": "none"}, "notes"),
    ("glance", {"id": A, "values": ["/n"], "sizes": [""]}, "notes"),
    ("snapshot", {}, "notes"),
    ("scan", {"start": "urn:", "end": "urn;", "limit": 1}, "notes"),
    ("skip", {"count": 1}, "notes"),
    ("history", {"id": A, "limit": 1}, "notes"),
    ("history", {"id": A, "before": [2, 0]}, "notes"),
    ("log", {"since": 1}, "notes"),
    ("log", {"newest": True, "limit": 1}, "notes"),
    ("find", {"index": "none"}, "notes"),
    ("find", {"index": RECORDS.name}, "notes"),
    ("postings", {"index": "words/1", "terms": ["more"]}, "notes"),
    ("query", {"query": QUERY}, "notes"),
    ("query", {"query": {"select": 1}}, "notes"),
    ("values", {"query": QUERY}, "notes"),
    ("rehearse", {**sets(a=3), "own": {}, "now": 0}, "notes"),
    ("create_branch", {"name": "draft", "key": "k2"}, "notes"),
    ("commit", sets(b="draft") | {"branch": "draft"}, "notes"),
    ("branches", {}, "notes"),
    ("diff", {"before": {}, "after": {"branch": "draft"}}, "notes"),
    ("changes", {"before": {}, "after": {"branch": "draft"}, "limit": 1}, "notes"),
    ("merge", {"source": "draft", "dry_run": True}, "notes"),
    ("merge", {"source": "draft", "resolutions": {B: {"value": 7}}}, "notes"),
    ("merge", {"source": "draft", "resolutions": {B: 7}}, "notes"),
    ("merge", {"source": "draft", "key": "k3"}, "notes"),
    ("merge", {"source": "draft", "key": "k3"}, "notes"),
    ("delete_branch", {"name": "draft"}, "notes"),
    ("put_side", {"kind": "note", "key": "x", "body": {"n": 1}, "fence": 0}, "notes"),
    ("put_side", {"kind": "note", "key": "x", "body": {"n": 2}, "fence": 7}, "notes"),
    ("side", {"kind": "note", "key": "x"}, "notes"),
    ("side", {"kind": "note", "key": "y"}, "notes"),
    ("sides", {"kind": "note"}, "notes"),
    ("drop_side", {"kind": "note", "key": "x", "fence": 1}, "notes"),
    ("blob_info", {"hash": HASH}, "notes"),
    ("blob_list", {}, "notes"),
    ("put_vectors", {"name": VECTORS, "data": b64encode(ROW).decode(), "unerased_since": 1},
     "notes"),
    ("vectors", {"name": VECTORS, "data": b64encode(bytes(32)).decode()}, "notes"),
    ("vector_names", {}, "notes"),
    ("vectors_out", {"name": VECTORS}, "notes"),
    ("verify", {}, "notes"),
    ("checkpoint", {}, "notes"),
    ("find_written", {"prefix": "urn:"}, "notes"),
    ("erase", {"id": B, "reason": "asked"}, "notes"),
    ("erase", {"reason": "asked"}, "notes"),
    ("read", {"ids": [B]}, "notes"),
    ("reindex", {}, "notes"),
    ("gc", {}, "notes"),
    ("copy_out", {"since": 0, "until": 3}, "notes"),
    ("foundation_out", {}, "notes"),
    ("sides_out", {}, "notes"),
    ("compact", {"before": 3}, "notes"),
    ("foundation_out", {}, "notes"),
    ("log", {"since": 0}, "notes"),
    ("sides_in", {"page": {"after": ["", ""], "until": None, "rows": []}}, "notes"),
    ("copy_in", {"page": {"commits": [], "keys": []}}, "notes"),
    ("adopt", {"did": "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp", "name": "new"},
     None),
    ("space_erase", {"space": "other", "reason": "asked", "confirm": "other"}, None),
]  # fmt: skip


class Stores:
    """Two stores of one story."""

    def __init__(self, port: Port, wire: Wire) -> None:
        self.port = port
        self.wire = wire

    def embedded(
        self, name: str, arguments: dict[str, Any], space: str | None
    ) -> tuple[int, bytes]:
        """Return the status and the body that the embedded answer should have."""
        row = KERNEL.names[name]
        data = arguments.get("data")
        plain = {each: value for each, value in arguments.items() if each != "data"}
        body = None if data is None else b64decode(data)
        try:
            did = "" if space is None else self.port.answer("", FindSpace(space)).did
            command = decode_command(row.command, Message(canonical(plain), body))
            if isinstance(command, Work):
                answer = self.port.begin(did, command).result()
            else:
                answer = self.port.answer(did, command)
        except RoteError as error:
            return status_of(error), canonical({"error": error.to_dict()})
        message = encode_answer(row, answer)
        if message.body is not None:
            return 200, b'{"data":"%b"}' % b64encode(message.body)
        return 200, message.head


@pytest.fixture
def stores() -> Iterator[Stores]:
    with (
        rote.open(":memory:", clock=FixedClock(), ids=SeededIds()) as first,
        rote.open(":memory:", clock=FixedClock(), ids=SeededIds()) as second,
        serving(second) as server,
        Wire(server.url, server.token) as wire,
    ):
        port = port_of_store(first)
        library = port.for_caller(Caller(is_library=True))
        library.answer("", FindSpace(SERVER_SPACE, create=True))
        yield Stores(port, wire)


def test_every_command_has_its_embedded_answer(stores: Stores) -> None:
    for name, arguments, space in STORY:
        status, body = stores.embedded(name, arguments, space)
        reply = stores.wire.command(name, arguments, space=space)
        assert (reply.status, reply.headers["content-type"]) == (status, "application/json"), name
        if status == 200:
            assert reply.body == body, name
        else:
            assert canonical(reply.json) == body, name


def test_the_story_has_every_command() -> None:
    told = {name for name, _, _ in STORY}
    assert told == {row.name for row in TABLE.values() if row.kernel and row.way == "command"}


def test_a_command_that_travels_as_bytes_has_no_route_of_its_own(stores: Stores) -> None:
    for name in ("blob_piece", "blob_drop", "await", "blob_get", "blob_put"):
        assert stores.wire.command(name, {}).status == 404

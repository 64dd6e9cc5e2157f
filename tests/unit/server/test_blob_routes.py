"""Blobs by PUT, POST, GET and HEAD, compared with the embedded ones."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest

from rote.contract.commands import ReadPiece
from rote.values import canonical
from rote.values.limits import BLOB_PIECE_BYTES
from tests.served import Served, served
from tests.wires import Closed, Reply

DATA = bytes(range(256)) * 40
HASH = sha256(DATA).hexdigest()
ATTEMPT = "0123456789abcdef" * 2


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as found:
        yield found


@pytest.fixture(autouse=True)
def space(server: Served) -> None:
    server.new_space()


def uploads(server: Served) -> int:
    """Return how many unfinished uploads the space has."""
    kernel: Any = server.server.service.port
    space = kernel.spaces.open(server.space.did)
    return len(space.engine.reader().uploads(space.number, after=b"", limit=10))


def put(server: Served, data: Any = DATA, hash: Any = HASH, **headers: Any) -> Reply:
    return server.ask("PUT", f"blobs/{hash}", data, **{"content_type": "image/png", **headers})


def test_bytes_that_are_put_are_got(server: Served) -> None:
    labels = canonical(["b", "ä"]).decode("latin-1")
    reply = put(server, rote_labels=labels)
    assert reply.status == 200
    assert reply.json == {"hash": HASH, "size": len(DATA)}
    assert reply.headers["rote-version"] == "1"
    assert server.space.blob(HASH) == DATA
    info = server.space.blob_info(HASH)
    assert (info.content_type, info.labels) == ("image/png", ("b", "ä"))
    found = server.ask("GET", f"blobs/{HASH}")
    assert (found.status, found.body) == (200, DATA)
    assert found.headers["content-type"] == "image/png"
    assert found.headers["etag"] == f'"{HASH}"'
    assert found.headers["content-disposition"] == "attachment"
    assert found.headers["content-length"] == str(len(DATA))
    head = server.ask("HEAD", f"blobs/{HASH}")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(DATA))
    assert server.ask("GET", f"blobs/{HASH}", if_none_match=f'"{HASH}"').status == 304


def test_the_hash_need_not_be_known(server: Served) -> None:
    reply = server.ask("POST", "blobs", DATA, content_type="text/plain")
    assert reply.json == {"hash": HASH, "size": len(DATA)}
    assert server.space.blob_info(HASH).content_type == "text/plain"
    empty = server.ask("POST", "blobs", b"", content_type="text/plain")
    assert empty.json == {"hash": sha256(b"").hexdigest(), "size": 0}
    assert server.ask("GET", f"blobs/{empty.json['hash']}").body == b""


def test_a_body_without_a_type_has_the_default_one(server: Served) -> None:
    with server.another() as wire:
        place = f"/v1/spaces/{server.space.name}/blobs"
        reply = wire.ask("POST", place, DATA, content_type=None)
    assert reply.status == 200
    assert server.space.blob_info(HASH).content_type == "application/octet-stream"


def test_a_chunked_body_larger_than_a_piece_is_the_same_blob(server: Served) -> None:
    data = DATA * (BLOB_PIECE_BYTES // len(DATA) + 3)
    hash = sha256(data).hexdigest()
    with server.another() as wire:
        place = f"/v1/spaces/{server.space.name}/blobs/{hash}"
        wire.send(
            wire.request(
                "PUT", place, b"", content_length=None, content_type="a/b",
                transfer_encoding="chunked",
            )
        )  # fmt: skip
        for start in range(0, len(data), 1 << 20):
            piece = data[start : start + (1 << 20)]
            wire.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        wire.send(b"0\r\n\r\n")
        assert wire.reply().json == {"hash": hash, "size": len(data)}
    assert server.ask("GET", f"blobs/{hash}").body == data
    middle = BLOB_PIECE_BYTES - 10
    part = server.ask("GET", f"blobs/{hash}", range=f"bytes={middle}-{middle + 19}")
    assert part.body == data[middle : middle + 20]


def test_other_bytes_than_were_said_are_refused_and_not_stored(server: Served) -> None:
    reply = put(server, DATA + b"x")
    assert (reply.status, reply.code) == (400, "invalid_input")
    assert server.space.version == 0
    assert server.ask("GET", f"blobs/{HASH}").status == 404
    assert uploads(server) == 0


def test_a_body_that_is_cut_leaves_nothing(server: Served) -> None:
    with server.another() as wire:
        place = f"/v1/spaces/{server.space.name}/blobs/{HASH}"
        request = wire.request("PUT", place, DATA)
        wire.send(request[:-1])
    reply = put(server)
    assert reply.status == 200 and server.space.version == 1
    assert uploads(server) == 0


@pytest.mark.parametrize(
    ("header", "start", "end"),
    [("bytes=0-9", 0, 10), ("bytes=100-", 100, len(DATA)), ("bytes=-7", len(DATA) - 7, len(DATA))],
)
def test_a_range_is_206(server: Served, header: str, start: int, end: int) -> None:
    put(server)
    reply = server.ask("GET", f"blobs/{HASH}", range=header)
    assert (reply.status, reply.body) == (206, DATA[start:end])
    assert reply.headers["content-range"] == f"bytes {start}-{end - 1}/{len(DATA)}"
    assert reply.headers["content-length"] == str(end - start)


def test_no_byte_of_a_range_is_416_and_a_bad_range_is_the_whole(server: Served) -> None:
    put(server)
    reply = server.ask("GET", f"blobs/{HASH}", range=f"bytes={len(DATA)}-")
    assert (reply.status, reply.code) == (416, "range")
    assert reply.headers["content-range"] == f"bytes */{len(DATA)}"
    for header in ("bytes=0-1,4-5", "bytes=5-1", "pages=1-2"):
        reply = server.ask("GET", f"blobs/{HASH}", range=header)
        assert (reply.status, len(reply.body)) == (200, len(DATA))


@pytest.mark.parametrize("header", [{"idempotency_key": "k"}, {"rote_attempt": ATTEMPT}])
def test_a_repeated_put_is_made_once(server: Served, header: dict[str, str]) -> None:
    assert put(server, **header).status == 200
    assert put(server, **header).status == 200
    assert server.space.version == 1
    other = b"other"
    reply = put(server, other, sha256(other).hexdigest(), **header)
    assert (reply.status, reply.code) == (422, "payload_mismatch")


def test_a_blob_on_a_branch_is_described_there(server: Served) -> None:
    server.space.create_branch("draft")
    reply = server.ask("PUT", f"blobs/{HASH}", DATA, query={"branch": "draft"}, content_type="a/b")
    assert reply.status == 200
    draft = server.ask("GET", f"blobs/{HASH}", query={"branch": "draft"})
    assert draft.headers["content-type"] == "a/b"
    assert server.space.on("draft").blob_info(HASH).content_type == "a/b"


def test_a_part_is_adopted_without_a_commit(server: Served) -> None:
    place = f"blob_parts/{HASH}"
    assert server.ask("PUT", place, DATA, content_type="a/b").json == {"adopted": True}
    assert server.ask("PUT", place, DATA, content_type="a/b").json == {"adopted": False}
    assert server.space.version == 0
    bad = server.ask("PUT", f"blob_parts/{'0' * 64}", DATA, content_type="a/b")
    assert (bad.status, bad.code) == (400, "invalid_input")


@pytest.mark.parametrize(
    ("hash", "headers"),
    [("0" * 63, {}), ("G" * 64, {}), (HASH, {"rote_labels": "x"}), (HASH, {"rote_labels": '{"a":1}'}),
     (HASH, {"rote_labels": "[1]"}), (HASH, {"content_type": "x\ty\u00e4"})],
)  # fmt: skip
def test_bad_input_is_400_and_stores_nothing(
    server: Served, hash: str, headers: dict[str, str]
) -> None:
    assert put(server, DATA, hash, **headers).status == 400
    assert server.space.version == 0


def test_a_damaged_blob_is_cut_short_of_its_length(server: Served) -> None:
    put(server)
    port = server.server.service.port
    real = type(port).answer

    def damaged(self, space, command):  # type: ignore[no-untyped-def]
        found = real(self, space, command)
        return b"X" + found[1:] if isinstance(command, ReadPiece) else found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(port), "answer", damaged)
        with server.another() as wire, pytest.raises(Closed):
            wire.ask("GET", f"/v1/spaces/{server.space.name}/blobs/{HASH}")


def test_bytes_that_are_there_already_leave_no_upload(server: Served) -> None:
    for _ in range(2):
        assert put(server).status == 200
        assert server.ask("POST", "blobs", DATA, content_type="text/plain").status == 200
    assert uploads(server) == 0

"""Two servers on one store are one service: what one has answered, the other shows.

On PostgreSQL, and on one SQLite file.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha256
from typing import Any

import pytest

import rote
from rote.testing.postgres import database_url
from rote.testing.serving import serving
from rote.values import canonical, decode
from tests.wires import Wire

LINES = "application/x-ndjson"
QUERY = "watch?query=%7B%22select%22%3A%7B%22urn%3An%3A%2A%22%3A%7B%7D%7D%7D"


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def wires(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Wire, Wire]]:
    folder = tmp_path_factory.mktemp("store")
    options: dict[str, Any] = {}
    url = str(folder / "store.db")
    if request.param == "postgres":
        url, options = database_url(folder), {"keys": folder / "keys"}
    with ExitStack() as stack:
        opened = []
        for _ in range(2):
            store = stack.enter_context(rote.open(url, durability="os", **options))
            server = stack.enter_context(serving(store))
            opened.append(stack.enter_context(Wire(server.url, server.token)))
        assert opened[0].ask("PUT", "/v1/spaces/notes", b"").status == 200
        yield opened[0], opened[1]


def test_a_write_by_one_is_read_by_the_other(wires: tuple[Wire, Wire]) -> None:
    one, other = wires
    place = "/v1/spaces/notes/entity?id=urn:n:1"
    for number in range(5):
        wire, looking = (one, other) if number % 2 else (other, one)
        etag = wire.ask("PUT", place, canonical({"n": number})).headers["etag"]
        found = looking.ask("GET", place)
        assert (found.json, found.headers["etag"]) == ({"n": number}, etag)
        assert wire.ask("PUT", place, b"1", if_none_match="*").status == 412


def test_a_key_counts_at_both(wires: tuple[Wire, Wire]) -> None:
    one, other = wires
    body = {"arguments": ["long_term", "k", "1", {"n": 1}], "attempt": "cd" * 16}
    first = one.command("memory_put", body)
    assert first.status == 200
    assert other.command("memory_put", body).json == first.json
    found = other.command("memory_get", {"arguments": ["long_term", "k", "1"]})
    assert found.json["record"]["payload"] == {"n": 1}


def test_a_watch_at_one_sees_what_the_other_writes(wires: tuple[Wire, Wire]) -> None:
    one, other = wires
    with Wire(f"http://{one.host}", one.token) as watching:
        watching.send(watching.request("GET", f"/v1/spaces/notes/{QUERY}", accept=LINES))
        assert watching.head()[0] == 200
        chunks = watching.chunks()
        next(chunks)
        other.ask("PUT", "/v1/spaces/notes/entity?id=urn:n:9", b'"news"')
        frame = decode(next(chunks))
        assert [each["value"] for each in frame["upserts"]] == ["news"]


def test_a_blob_put_at_one_is_got_at_the_other(wires: tuple[Wire, Wire]) -> None:
    one, other = wires
    data = b"0123456789" * 100_000
    place = f"/v1/spaces/notes/blobs/{sha256(data).hexdigest()}"
    assert one.ask("PUT", place, data, content_type="a/b").status == 200
    assert other.ask("GET", place).body == data
    part = other.ask("GET", place, range="bytes=999990-")
    assert (part.status, part.body) == (206, data[999_990:])


def test_lines_of_both_are_the_same(wires: tuple[Wire, Wire]) -> None:
    one, other = wires
    for route in ("entities", "log", "export?format=jsonl"):
        target = f"/v1/spaces/notes/{route}"
        assert (
            one.ask("GET", target, accept=LINES).body == other.ask("GET", target, accept=LINES).body
        )

"""A space that enters a store through a server: its foundation, its commits, its side rows."""

from collections.abc import Iterator
from typing import Any

import pytest

import rote
from rote.contract.commands import FoundationOut
from rote.contract.wire import encode_page
from rote.server.serving import Serving
from rote.space import Space, Store
from rote.space.sources import port_of
from rote.testing.serving import serving
from rote.values import decode
from tests.wires import Reply, Wire

PLACE = "/v1/spaces/notes/foundation_in"


@pytest.fixture
def origin() -> Iterator[Store]:
    with rote.open(":memory:") as store:
        yield store


@pytest.fixture
def source(origin: Store) -> Space:
    """Return a space whose beginning was compacted away."""
    space = origin.space("notes")
    for number in range(20):
        space.set(f"urn:{number % 7}", {"n": number})
    space.compact(before=15)
    space.set("urn:late", 1)
    return space


@pytest.fixture
def target() -> Iterator[Store]:
    with rote.open(":memory:") as store:
        yield store


@pytest.fixture
def server(target: Store) -> Iterator[Serving]:
    with serving(target) as running:
        yield running


@pytest.fixture
def wire(server: Serving, source: Space) -> Iterator[Wire]:
    with Wire(server.url, server.token) as made:
        adopted = made.command("adopt", {"did": source.did, "name": "notes"}, space=None)
        assert adopted.json == {"did": source.did, "name": "notes"}
        yield made


def foundation_of(space: Space) -> bytes:
    lines, after = [], None
    while True:
        page = port_of(space).answer(space.did, FoundationOut(after))
        assert page is not None
        lines.append(encode_page(page))
        if page.next is None:
            return b"".join(lines)
        after = page.next


def send(wire: Wire, pages: bytes) -> Reply:
    return wire.ask("POST", PLACE, pages, content_type="application/x-ndjson")


def test_a_compacted_space_enters_page_by_page(
    wire: Wire, origin: Store, source: Space, target: Store
) -> None:
    head: Any = send(wire, foundation_of(source)).json
    assert head["version"] == 15
    with serving(origin) as first, Wire(first.url, first.token) as other:
        while head["version"] < source.version:
            page = other.command("copy_out", {"since": head["version"], "until": source.version})
            head = wire.command("copy_in", {"page": decode(page.body)}).json
        sides = other.command("sides_out").json
        assert wire.command("sides_in", {"page": sides}).status == 200
    arrived = target.space("notes")
    assert (arrived.version, arrived.head) == (source.version, source.head)
    assert arrived.verify().ok
    assert [state.value for state in arrived.scan()] == [state.value for state in source.scan()]


def test_damage_that_a_client_sends_is_no_error_of_the_server(
    wire: Wire, source: Space, target: Store
) -> None:
    pages = foundation_of(source)
    for damaged in (b"", b"{}\n", b"nonsense\n", pages.replace(b'"n":14', b'"n":41'), pages[:-50]):
        reply = send(wire, damaged)
        assert reply.status == 400, damaged[:50]
    assert target.space("notes").version == 0
    assert send(wire, pages).status == 200
    again = send(wire, pages)
    assert (again.status, again.code) == (400, "invalid_input")


def test_another_type_of_body_is_refused(wire: Wire, source: Space) -> None:
    assert wire.ask("POST", PLACE, foundation_of(source)).code == "media_type"

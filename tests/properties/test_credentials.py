"""No credential but the right one is taken: changed and made-up heads are refused, and nothing else."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rote
from rote.access.signed_requests import RequestLine, read_signed, sign_request
from rote.errors import Denied, InvalidInput
from rote.opening.sources import SystemClock
from rote.server.authentication import Authentication
from rote.server.messages import Head
from rote.server.server_space import open_server_space
from rote.server.settings import Settings
from rote.server.start_token import new_token
from rote.space.sources import port_of_store
from rote.testing import SeededIds
from rote.testing.keys import did_of, seed_of
from tests.lanes import examples

SERVER, NOW = did_of("server"), 1_800_000_000
LINE = RequestLine("POST", "/v1/spaces/a/read", "x=1")
HEADERS = sign_request(
    seed_of("ada"), LINE, b"{}", audience=SERVER, created=NOW, expires=NOW + 60, nonce="n" * 20,
    headers={"content-type": "application/json"},
)  # fmt: skip
GOOD = {"content-type": "application/json", **HEADERS}
TOKEN = new_token(SeededIds(3))


@settings(max_examples=examples(500, 100_000))
@given(st.data())
def test_a_signed_head_with_one_change_is_refused(data: st.DataObject) -> None:
    line, headers = LINE, dict(GOOD)
    name = data.draw(st.sampled_from([*headers, "method", "path", "query"]))
    parts = {"method": line.method, "path": line.path, "query": line.query, **headers}
    text = parts[name]
    place = data.draw(st.integers(0, len(text) - 1))
    put = data.draw(st.sampled_from([*'"=:;()+/-_AZaz09 ', "", "\xff", "\n", text[place] * 2]))
    changed = text[:place] + put + text[place + 1 :]
    if changed.strip(" \t") == text:
        return
    parts[name] = changed
    line = RequestLine(parts.pop("method"), parts.pop("path"), parts.pop("query"))
    with pytest.raises(Denied) as refused:
        read_signed(line, list(parts.items())).check(now=NOW, audience=SERVER)
    assert refused.value.code == "unauthenticated"


@pytest.fixture(scope="module")
def authentication() -> Iterator[Authentication]:
    with rote.open(":memory:") as store:
        yield Authentication(
            Settings(auth=("token", "did")),
            start_token=TOKEN,
            home=open_server_space(port_of_store(store)),
            clock=SystemClock(),
        )


names = st.sampled_from(
    [
        b"authorization",
        b"signature",
        b"signature-input",
        b"content-digest",
        b"rote-audience",
        b"rote-proofs",
    ]
)
good_bytes = st.sampled_from(
    [value.encode() for value in GOOD.values()] + [f"Bearer {TOKEN}x".encode()]
)
values = (
    st.binary(max_size=60) | good_bytes | st.binary(max_size=12).map(lambda data: b"Bearer " + data)
)


@settings(max_examples=examples(500, 100_000))
@given(
    st.lists(st.tuples(names, values), max_size=6), st.binary(max_size=40), st.binary(max_size=40)
)
def test_a_made_up_head_is_refused_as_one(
    authentication: Authentication, headers: list[tuple[bytes, bytes]], path: bytes, query: bytes
) -> None:
    head = Head("POST", b"/" + path, query, tuple(headers), None)
    for ask in (
        authentication.principal,
        lambda head: authentication.check_body(head, lambda: bytes(32)),
    ):
        try:
            ask(head)
        except Denied as refused:
            assert refused.code == "unauthenticated"
        except InvalidInput:
            pass  # something like a token in the URL
        else:
            assert ask is not authentication.principal

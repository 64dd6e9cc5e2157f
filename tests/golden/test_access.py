"""Delegations, records of tokens and signed requests are those of the golden file, byte for byte."""

import json
from typing import Any

from rote.access.delegations import make_delegation, parse_delegation
from rote.access.signed_requests import RequestLine, read_signed, sign_request
from rote.access.tokens import TokenRight, make_token, parse_record
from rote.testing import SeededIds
from rote.testing.keys import NOW, did_of, seed_of
from rote.values import canonical
from tests.golden.stories import FOLDER

GOLDEN: dict[str, Any] = json.loads((FOLDER / "access-1.json").read_text("utf-8"))
LINE = RequestLine("POST", "/v1/spaces/a%20b/commit", "x=%2F")
BODY = b'{"operations":[]}'


def tell() -> dict[str, Any]:
    delegation = make_delegation(
        seed_of("ada"), to=did_of("ben"), space=did_of("space"), right="write",
        path="urn:note:é:", seconds=60, not_before=NOW, nonce=bytes(range(16)),
    )  # fmt: skip
    bound = TokenRight("read", did_of("space"), "urn:note:")
    token, record = make_token(
        "reader", bound, now=NOW, expires=NOW + 1, random_bytes=SeededIds(1).random_bytes
    )
    headers = sign_request(
        seed_of("ben"), LINE, BODY, audience=did_of("server"), created=1_800_000_000,
        expires=1_800_000_060, nonce="n" * 16, headers={"content-type": "application/json"},
        proofs=[delegation],
    )  # fmt: skip
    return {
        "delegation": delegation,
        "delegation_id": parse_delegation(delegation).id,
        "token": token,
        "record": record.to_dict(),
        "headers": headers,
    }


def test_what_is_made_today_is_what_was_made_then() -> None:
    assert canonical(tell()) == canonical(GOLDEN)


def test_what_was_made_then_is_good_today() -> None:
    delegation = parse_delegation(GOLDEN["delegation"])
    assert delegation.is_signed()
    assert delegation.id == GOLDEN["delegation_id"]
    record = parse_record("urn:token:reader", GOLDEN["record"])
    assert record.allows(GOLDEN["token"][-43:], now=NOW)
    sent = [("content-type", "application/json"), *GOLDEN["headers"].items()]
    read_signed(LINE, sent).check(now=1_800_000_000, audience=did_of("server"))

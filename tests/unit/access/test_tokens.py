"""Tokens: their form, what is stored of them, and when they are good."""

from typing import Any

import pytest

from rote.access.tokens import (
    PREFIX,
    TokenRight,
    check_grant_seconds,
    find_secret,
    grant_text,
    kind_of,
    make_token,
    parse_record,
    split_token,
    token_text,
)
from rote.errors import InvalidInput
from rote.testing import SeededIds
from rote.testing.keys import NOW, did_of
from rote.values import sha256_hex

RANDOM = SeededIds(7).random_bytes
TOKEN, RECORD = make_token(
    "reader",
    TokenRight("read", did_of("space"), "urn:a:"),
    now=NOW,
    expires=NOW + 60,
    random_bytes=RANDOM,
)
STORED: dict[str, Any] = RECORD.to_dict()


def test_a_token_has_an_id_and_a_secret_of_which_only_the_hash_is_stored() -> None:
    id, secret = split_token(TOKEN)
    assert (f"rote_{id}_{secret}") == TOKEN
    assert (len(id), len(secret)) == (12, 43)
    expected = {
        "kind": "token/1",
        "id": id,
        "hash": sha256_hex(secret.encode()),
        "right": "read",
        "space": did_of("space"),
        "path": "urn:a:",
        "created": "2026-01-01T12:00:00.000000Z",
        "expires": "2026-01-01T12:00:00.000060Z",
        "revoked": False,
    }
    assert expected == STORED
    assert parse_record("urn:token:reader", STORED) == RECORD
    assert secret not in repr(RECORD)


def test_a_token_is_good_until_it_expires_or_is_revoked() -> None:
    _, secret = split_token(TOKEN)
    assert RECORD.allows(secret, now=NOW)
    assert RECORD.allows(secret, now=NOW + 59)
    assert not RECORD.allows(secret, now=NOW + 60)
    assert not RECORD.allows("A" * 43, now=NOW)
    revoked = parse_record(PREFIX + "reader", {**STORED, "revoked": True})
    assert not revoked.allows(secret, now=NOW)
    endless = parse_record(PREFIX + "reader", {**STORED, "expires": None})
    assert endless.allows(secret, now=2**62)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "token/2"},
        {"id": "x"},
        {"id": None},
        {"id": ["0" * 12]},
        {"hash": "0" * 63},
        {"hash": 1},
        {"right": "root"},
        {"right": None},
        {"right": "operator"},  # bound to a space
        {"space": "notes"},
        {"space": 1},
        {"path": "a"},
        {"created": None},
        {"created": "yesterday"},
        {"expires": 1},
        {"expires": "never"},
        {"revoked": None},
        {"revoked": 0},
        {"revoked": "true"},
        {"more": 1},
    ],
)
def test_a_record_that_is_not_exactly_one_denies(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        parse_record(PREFIX + "reader", {**STORED, **change})


def test_a_record_needs_all_its_members_and_the_name_of_a_token() -> None:
    for member in STORED:
        with pytest.raises(InvalidInput):
            parse_record(
                PREFIX + "reader", {name: STORED[name] for name in STORED if name != member}
            )
    values: tuple[Any, ...] = (None, [], "x")
    for value in values:
        with pytest.raises(InvalidInput):
            parse_record(PREFIX + "reader", value)
    with pytest.raises(InvalidInput):
        parse_record(PREFIX + "start", STORED)


@pytest.mark.parametrize("name", ["", "start", "A", "a b", "ü", "x" * 65, None, 1])
def test_a_bad_name_makes_no_token(name: Any) -> None:
    with pytest.raises(InvalidInput):
        make_token(name, TokenRight("read"), now=NOW, expires=None, random_bytes=RANDOM)


def test_a_bearer_is_known_by_its_form() -> None:
    assert kind_of(token_text(RANDOM)) == "token"
    assert kind_of(grant_text(RANDOM)) == "grant"
    for text in ("", "rote_", TOKEN + "A", TOKEN[:-1], TOKEN.upper(), "x" + TOKEN, TOKEN + "\n"):
        assert kind_of(text) is None
        with pytest.raises(InvalidInput) as refused:
            split_token(text)
        assert len(text) < 6 or text not in str(refused.value)


def test_a_secret_is_found_in_a_text_and_a_name_is_not() -> None:
    for text in (f"/v1/spaces?t={TOKEN}", f"a{grant_text(RANDOM)}", TOKEN[:30]):
        assert find_secret(text)
    assert not find_secret("/v1/spaces/notes/entity?id=urn:rote_configuration_of_everything_here")


@pytest.mark.parametrize("seconds", [0, -1, 3_601, True, 1.0, "60", None])
def test_a_grant_holds_for_at_most_an_hour(seconds: Any) -> None:
    with pytest.raises(InvalidInput):
        check_grant_seconds(seconds)
    check_grant_seconds(3_600)

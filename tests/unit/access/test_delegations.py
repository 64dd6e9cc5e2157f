"""Delegations: what is signed, what has the form of one, and what one is for."""

from base64 import urlsafe_b64decode
from typing import Any

import pytest

from rote.access.delegations import SECOND, make_delegation, parse_delegation
from rote.errors import InvalidInput
from rote.testing.keys import NOW, did_of, lend, seed_of
from rote.values import canonical, digest, verify_signature
from rote.values.server_limits import DELEGATION_SECONDS_MAX

SPACE = did_of("space")
GOOD = lend("ada", "ben", space=SPACE, path="urn:a:")


def test_a_delegation_is_signed_by_its_issuer_over_all_but_its_signature() -> None:
    unsigned = {name: member for name, member in GOOD.items() if name != "sig"}
    signature = urlsafe_b64decode(GOOD["sig"] + "==")
    assert verify_signature(did_of("ada"), b"rote delegation/1\0" + canonical(unsigned), signature)
    parsed = parse_delegation(GOOD)
    assert parsed.is_signed()
    assert parsed.id == digest(unsigned)
    assert parsed.value == GOOD
    assert GOOD["nbf"] == "2026-01-01T12:00:00Z"
    assert GOOD["exp"] == "2026-01-01T13:00:00Z"


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("iss", did_of("eve")),
        ("aud", did_of("eve")),
        ("sub", did_of("other")),
        ("right", "owner"),
        ("path", None),
        ("path", "urn:"),
        ("nbf", "2025-01-01T12:00:00Z"),
        ("exp", "2026-12-01T12:00:00Z"),
        ("nonce", "B" * 22),
        ("sig", "A" * 86),
    ],
)
def test_a_changed_member_breaks_the_signature(member: str, value: Any) -> None:
    assert not parse_delegation({**GOOD, member: value}).is_signed()


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {name: member for name, member in GOOD.items() if name != "path"},
        {**GOOD, "more": 1},
        {**GOOD, "kind": "delegation/2"},
        {**GOOD, "kind": {}},
        {**GOOD, "iss": "ada"},
        {**GOOD, "aud": None},
        {**GOOD, "sub": "*"},
        {**GOOD, "right": "operator"},
        {**GOOD, "right": ["read"]},
        {**GOOD, "path": ""},
        {**GOOD, "path": "a"},
        {**GOOD, "path": 1},
        {**GOOD, "nbf": "2026-01-01T12:00:00.000000Z"},
        {**GOOD, "nbf": "2026-01-01T12:00:00+00:00"},
        {**GOOD, "nbf": "2026-02-30T12:00:00Z"},
        {**GOOD, "exp": 1},
        {**GOOD, "nonce": "A" * 15},
        {**GOOD, "nonce": "A" * 65},
        {**GOOD, "nonce": "A" * 15 + "="},
        {**GOOD, "nonce": 1},
        {**GOOD, "sig": None},
        {**GOOD, "sig": ""},
        {**GOOD, "sig": GOOD["sig"] + "=="},
        {**GOOD, "sig": GOOD["sig"][:-1] + "B"},  # the last character has bits that mean nothing
        {**GOOD, "sig": GOOD["sig"][:-2]},
        {**GOOD, "sig": GOOD["sig"].replace(GOOD["sig"][0], "+", 1)},
    ],
)
def test_what_is_not_exactly_a_delegation_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput):
        parse_delegation(value)


def test_a_delegation_holds_from_its_first_second_to_before_its_last() -> None:
    parsed = parse_delegation(GOOD)
    assert not parsed.holds_at(NOW - 1)
    assert parsed.holds_at(NOW)
    assert parsed.holds_at(NOW + 3_600 * SECOND - 1)
    assert not parsed.holds_at(NOW + 3_600 * SECOND)


@pytest.mark.parametrize("seconds", [0, -1, DELEGATION_SECONDS_MAX + 1, 1.5, True, "1", None])
def test_a_delegation_holds_for_at_most_366_days(seconds: Any) -> None:
    with pytest.raises(InvalidInput):
        lend("ada", "ben", space=SPACE, seconds=seconds)


@pytest.mark.parametrize(
    "change",
    [
        {"to": "ben"},
        {"space": "notes"},
        {"right": "operator"},
        {"path": "a"},
        {"nonce": b""},
        {"seed": b"short"},
    ],
)
def test_bad_arguments_make_no_delegation(change: dict[str, Any]) -> None:
    good: dict[str, Any] = {
        "to": did_of("ben"), "space": SPACE, "right": "read", "path": None, "seconds": 1,
        "not_before": NOW, "nonce": bytes(16), "seed": seed_of("ada"),
    }  # fmt: skip
    given = {**good, **change}
    with pytest.raises(InvalidInput):
        make_delegation(given.pop("seed"), **given)

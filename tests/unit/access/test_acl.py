"""The ACL: its form, whom it lets in, and how it changes."""

from typing import Any

import pytest

from rote.access.acl import (
    UNWRITTEN,
    Acl,
    acl_in,
    check_usable,
    granted,
    parse_acl,
    revoked,
    rotated,
    withdrawn,
)
from rote.contract import State
from rote.errors import InvalidInput, LimitExceeded
from rote.testing.keys import NOW, did_of
from rote.values.server_limits import ACL_GRANTS_MAX

SPACE, ADA, BEN = did_of("space"), did_of("ada"), did_of("ben")
GOOD: dict[str, Any] = {"kind": "acl/1", "grants": {ADA: "owner", "*": "read"}}
ID = "0" * 64


def state(value: Any, *, exists: bool = True, version: int = 1, erased: bool = False) -> State:
    return State(SPACE, value, exists, version, "h", erased)


def test_members_that_are_left_out_have_their_defaults() -> None:
    assert parse_acl(GOOD) == Acl({ADA: "owner", "*": "read"}, True, {})
    assert parse_acl(parse_acl(GOOD).to_dict()) == parse_acl(GOOD)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "acl/1",
        {},
        {"kind": "acl/1"},
        {"grants": {}},
        {**GOOD, "kind": "acl/2"},
        {**GOOD, "kind": ["acl/1"]},
        {**GOOD, "more": 1},
        {**GOOD, "root": None},
        {**GOOD, "root": "read"},
        {**GOOD, "root": []},
        {**GOOD, "grants": None},
        {**GOOD, "grants": [ADA]},
        {**GOOD, "grants": {"ada": "read"}},
        {**GOOD, "grants": {ADA + "1": "read"}},
        {**GOOD, "grants": {ADA.upper(): "read"}},
        {**GOOD, "grants": {ADA: "operator"}},
        {**GOOD, "grants": {ADA: "Read"}},
        {**GOOD, "grants": {ADA: None}},
        {**GOOD, "grants": {ADA: ["read"]}},
        {**GOOD, "grants": {"token:x": "read"}},
        {**GOOD, "revoked": []},
        {**GOOD, "revoked": {"x": "2026-01-01T00:00:00Z"}},
        {**GOOD, "revoked": {ID: None}},
        {**GOOD, "revoked": {ID: "tomorrow"}},
        {**GOOD, "revoked": {ID.upper().replace("0", "A"): "2026-01-01T00:00:00Z"}},
    ],
)
def test_what_is_not_exactly_an_acl_lets_nobody_in(value: Any) -> None:
    with pytest.raises(InvalidInput):
        parse_acl(value)
    assert acl_in(state(value)) is None


def test_an_acl_holds_so_many_grants_and_no_more() -> None:
    grants = {did_of(str(number)): "read" for number in range(3)}
    assert parse_acl({**GOOD, "grants": grants}).grants == grants
    many = {f"did:{number}": "read" for number in range(ACL_GRANTS_MAX + 1)}
    with pytest.raises(LimitExceeded):
        parse_acl({**GOOD, "grants": many})
    assert acl_in(state({**GOOD, "grants": many})) is None
    times = {f"{number:064x}": "2026-01-01T00:00:00Z" for number in range(ACL_GRANTS_MAX + 1)}
    with pytest.raises(LimitExceeded):
        parse_acl({**GOOD, "revoked": times})
    times.popitem()
    assert len(parse_acl({**GOOD, "revoked": times}).revoked) == ACL_GRANTS_MAX


def test_the_right_of_a_did_is_the_higher_of_its_own_and_that_of_anyone() -> None:
    acl = parse_acl({**GOOD, "grants": {ADA: "read", BEN: "owner", "*": "write"}})
    assert acl.right_of(ADA, SPACE) == "write"
    assert acl.right_of(BEN, SPACE) == "owner"
    assert acl.right_of(did_of("eve"), SPACE) == "write"
    assert parse_acl({**GOOD, "grants": {ADA: "read"}}).right_of(BEN, SPACE) is None


def test_the_key_of_the_space_is_an_owner_unless_root_is_none() -> None:
    assert parse_acl(GOOD).right_of(SPACE, SPACE) == "owner"
    closed = parse_acl({**GOOD, "root": "none"})
    assert closed.right_of(SPACE, SPACE) == "read"  # as anyone
    assert closed.right_of(ADA, SPACE) == "owner"


def test_an_acl_that_was_never_written_lets_only_the_key_of_the_space_in() -> None:
    found = acl_in(state(None, exists=False, version=0))
    assert found == UNWRITTEN
    assert found.right_of(SPACE, SPACE) == "owner"
    assert found.right_of(ADA, SPACE) is None


def test_an_acl_that_was_deleted_or_erased_lets_nobody_in() -> None:
    assert acl_in(state(None, exists=False, version=3)) is None
    assert acl_in(state(None, exists=False, version=3, erased=True)) is None
    assert acl_in(state(None, exists=False, version=0, erased=True)) is None
    assert acl_in(state(GOOD, erased=True)) is None


def test_an_acl_that_nobody_could_change_is_refused() -> None:
    check_usable(parse_acl({**GOOD, "root": "none"}))
    check_usable(UNWRITTEN)
    for grants in ({}, {"*": "owner"}, {ADA: "write"}):
        with pytest.raises(InvalidInput):
            check_usable(parse_acl({"kind": "acl/1", "grants": grants, "root": "none"}))


def test_grants_are_made_changed_and_withdrawn() -> None:
    acl = granted(granted(UNWRITTEN, ADA, "owner"), BEN, "read")
    acl = granted(acl, BEN, "write")
    assert acl.grants == {ADA: "owner", BEN: "write"}
    assert withdrawn(acl, BEN).grants == {ADA: "owner"}
    assert withdrawn(granted(UNWRITTEN, BEN, "read"), BEN).grants == {}


def test_the_last_named_owner_stays() -> None:
    acl = granted(UNWRITTEN, ADA, "owner")
    with pytest.raises(InvalidInput):
        withdrawn(acl, ADA)
    with pytest.raises(InvalidInput):
        granted(acl, ADA, "write")
    assert withdrawn(granted(acl, BEN, "owner"), ADA).grants == {BEN: "owner"}


@pytest.mark.parametrize(
    ("did", "right"), [("ada", "read"), (ADA, "operator"), (ADA, None), (1, "read")]
)
def test_bad_grants_are_refused(did: Any, right: Any) -> None:
    with pytest.raises(InvalidInput):
        granted(UNWRITTEN, did, right)


def test_who_has_no_grant_has_none_to_withdraw_or_rotate() -> None:
    with pytest.raises(InvalidInput):
        withdrawn(UNWRITTEN, ADA)
    for acl, old, new in (
        (UNWRITTEN, ADA, BEN),
        (granted(UNWRITTEN, "*", "read"), "*", BEN),
        (granted(UNWRITTEN, ADA, "owner"), ADA, ADA),
    ):
        with pytest.raises(InvalidInput):
            rotated(acl, old, new)


def test_a_rotated_right_moves_and_none_is_lowered() -> None:
    acl = granted(granted(UNWRITTEN, ADA, "owner"), BEN, "read")
    assert rotated(acl, ADA, BEN).grants == {BEN: "owner"}
    assert rotated(granted(acl, did_of("eve"), "owner"), BEN, ADA).grants[ADA] == "owner"


def test_a_revocation_drops_those_whose_delegations_have_ended() -> None:
    ended, going = "1" * 64, "2" * 64
    acl = Acl(revoked={ended: "2026-01-01T11:59:59Z", going: "2026-01-01T12:00:01Z"})
    assert revoked(acl, ID, "2027-01-01T00:00:00Z", now=NOW).revoked.keys() == {going, ID}

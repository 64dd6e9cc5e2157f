"""Chains: each fault has its name, and the right at the end is the lowest of all."""

from itertools import pairwise
from typing import Any

import pytest

from rote.access.acl import Acl, granted, revoked
from rote.access.chains import held_by_chain, read_chain
from rote.access.delegations import SECOND, parse_delegation
from rote.access.rights import Held
from rote.testing.keys import NOW, did_of, lend

SPACE, ADA = did_of("space"), did_of("ada")
ACL = granted(Acl(), ADA, "owner")


def link(issuer: str, to: str, **changes: Any) -> dict[str, Any]:
    return lend(issuer, to, **{"space": SPACE, **changes})


def judge(
    proofs: Any, principal: str, acl: Acl | None = ACL, space: str = SPACE, now: int = NOW
) -> Any:
    return held_by_chain(read_chain(proofs, did_of(principal)), space, acl, now=now)


def test_a_chain_allows_the_lowest_right_and_the_last_path() -> None:
    steps = [
        link("ada", "ben", right="owner"),
        link("ben", "cyd", right="write", path="urn:a:"),
        link("cyd", "dan", right="read", path="urn:a:b"),
    ]
    assert judge(steps[:1], "ben") == Held("owner")
    assert judge(steps[:2], "cyd") == Held("write", "urn:a:")
    assert judge(steps, "dan") == Held("read", "urn:a:b")
    assert judge(steps[:1], "ben", granted(Acl(), ADA, "read")) == Held("read")
    assert judge(steps[:1], "ben", granted(Acl(), "*", "write")) == Held("write")
    assert judge([link("space", "ben")], "ben", Acl()) == Held("write")


def test_a_chain_has_one_to_eight_steps() -> None:
    names = ["ada", *"bcdefghij"]
    steps = [link(issuer, to) for issuer, to in pairwise(names)]
    assert judge(steps[:8], names[8]) == Held("write")
    assert judge(steps, names[9]) == "depth"
    assert judge([], "ben") == "depth"


@pytest.mark.parametrize("proofs", [None, {}, "x", [None], [{}], [link("ada", "ben"), 1]])
def test_what_cannot_be_read_has_the_fault_shape(proofs: Any) -> None:
    assert judge(proofs, "ben") == "shape"


def test_a_signature_of_another_key_voids_the_chain() -> None:
    assert judge([{**link("ada", "ben"), "right": "owner"}], "ben") == "signature"
    assert judge([link("eve", "ben") | {"iss": ADA}], "ben") == "signature"
    forged = link("eve", "cyd") | {"iss": did_of("ben")}
    assert judge([link("ada", "ben"), forged], "cyd") == "signature"


@pytest.mark.parametrize(
    ("steps", "principal"),
    [
        ([link("ada", "ben")], "eve"),
        ([link("ada", "ben"), link("eve", "cyd")], "cyd"),
        ([link("ben", "cyd"), link("ada", "ben")], "cyd"),
        ([link("ada", "ben"), link("ben", "ada"), link("ada", "eve")], "eve"),
        ([link("ada", "ada"), link("ada", "ben")], "ben"),
    ],
)
def test_steps_that_do_not_lead_to_the_principal_void_the_chain(
    steps: list[dict[str, Any]], principal: str
) -> None:
    assert judge(steps, principal) == "links"


@pytest.mark.parametrize(
    "change",
    [
        {"right": "owner"},
        {"path": None},
        {"path": "urn:"},
        {"path": "urn:ab:"},
        {"begins": -1, "seconds": 60},
        {"seconds": 3_601},
    ],
)
def test_a_step_that_widens_anything_voids_the_chain(change: dict[str, Any]) -> None:
    first = link("ada", "ben", path="urn:a:")
    narrow = {"path": "urn:a:", "seconds": 60}
    assert judge([first, link("ben", "cyd", **narrow)], "cyd") == Held("write", "urn:a:")
    assert judge([first, link("ben", "cyd", **{**narrow, **change})], "cyd") == "wider"


def test_every_step_must_hold_now() -> None:
    steps = [link("ada", "ben"), link("ben", "cyd", begins=10, seconds=10)]
    for seconds, expected in ((9, "time"), (10, Held("write")), (19, Held("write")), (20, "time")):
        assert judge(steps, "cyd", now=NOW + seconds * SECOND) == expected
    assert judge([link("ada", "ben", begins=-1)], "ben", now=NOW - 2 * SECOND) == "time"


def test_a_chain_is_for_its_space_alone() -> None:
    assert judge([link("ada", "ben")], "ben", space=did_of("other")) == "space"
    mixed = [link("ada", "ben"), link("ben", "cyd", space=did_of("other"))]
    assert judge(mixed, "cyd") == "space"
    assert judge(mixed, "cyd", space=did_of("other")) == "space"


def test_a_revoked_step_voids_the_chain() -> None:
    steps = [link("ada", "ben"), link("ben", "cyd")]
    for step in steps:
        acl = revoked(ACL, parse_delegation(step).id, step["exp"], now=NOW)
        assert judge(steps, "cyd", acl) == "space"
    other = parse_delegation(link("ada", "ben", right="read")).id
    assert judge(steps, "cyd", revoked(ACL, other, steps[0]["exp"], now=NOW)) == Held("write")


def test_a_chain_falls_with_the_right_of_its_first_issuer() -> None:
    steps = [link("ada", "ben")]
    assert judge(steps, "ben", Acl()) == "space"
    assert judge(steps, "ben", None) == "space"
    assert judge([link("space", "ben")], "ben", Acl(has_root=False)) == "space"

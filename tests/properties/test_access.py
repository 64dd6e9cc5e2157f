"""Laws of access: a chain and an ACL against the plainest statement of what they mean."""

from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rote.access.acl import Acl, acl_in, granted, parse_acl, withdrawn
from rote.access.chains import held_by_chain, read_chain
from rote.access.delegations import SECOND, parse_delegation
from rote.access.paths import within
from rote.access.rights import SPACE_RIGHTS, Held, covers
from rote.contract import State
from rote.errors import InvalidInput
from rote.testing.keys import NOW, did_of, lend
from rote.testing.strategies import json_values
from tests.lanes import examples

NAMES = ("ada", "ben", "cyd", "dan")
SPACES = (did_of("space"), did_of("other"))
PATHS = (None, "urn:", "urn:a:", "urn:a:b:", "urn:a:b:c", "urn:a")
IDS = ("urn:a", "urn:a:b", "urn:a:b:c", "urn:a:b:d", "urn:ab", "urn:b:c")
RANKS: dict[str, int] = {right: rank for rank, right in enumerate(SPACE_RIGHTS)}


@st.composite
def chains(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw delegations that follow each other, all but perhaps one step of them."""
    names = draw(st.permutations(NAMES))
    count = draw(st.integers(1, 3))
    odd = draw(st.integers(0, 2 * count))  # the step that is drawn freely; often there is none
    right, path, begins, ends = "owner", None, 0, 64
    steps: list[dict[str, Any]] = []
    for number in range(count):
        right = draw(
            st.sampled_from([each for each in SPACE_RIGHTS if RANKS[each] <= RANKS[right]])
        )
        path = draw(
            st.sampled_from([path, *(each for each in PATHS if each and within(each, path))])
        )
        begins, ends = begins + draw(st.integers(0, 4)), ends - draw(st.integers(0, 4))
        good = {
            "issuer": names[number], "to": names[number + 1], "space": SPACES[0], "right": right,
            "path": path, "begins": begins, "seconds": ends - begins,
        }  # fmt: skip
        drawn = draw(oddities()) if number == odd else {}
        forged = drawn.pop("forged", {})
        steps.append({**lend(**{**good, **drawn}), **forged})
    return steps


@st.composite
def oddities(draw: st.DrawFn) -> dict[str, Any]:
    """Draw one member of a delegation that may not fit the others."""
    forgeries = ({"right": "owner"}, {"path": None}, {"sig": "A" * 86}, {"aud": did_of("ada")})
    free: dict[str, tuple[Any, ...]] = {
        "issuer": NAMES, "to": NAMES, "space": SPACES, "right": SPACE_RIGHTS, "path": PATHS,
        "begins": (-1, 0, 9), "seconds": (1, 30, 90), "forged": forgeries,
    }  # fmt: skip
    member = draw(st.sampled_from(sorted(free)))
    return {member: draw(st.sampled_from(free[member]))}


@st.composite
def acls(draw: st.DrawFn) -> Acl:
    rights = st.sampled_from(SPACE_RIGHTS)
    names = st.sampled_from([*map(did_of, NAMES), "*"])
    grants = draw(st.dictionaries(names, rights, max_size=4))
    return parse_acl(
        {"kind": "acl/1", "grants": grants, "root": draw(st.sampled_from(["owner", "none"]))}
    )


def is_allowed(
    steps: list[dict[str, Any]],
    principal: str,
    acl: Acl,
    *,
    right: str,
    id: str,
    space: str,
    now: int,
) -> bool:
    """Whether a chain allows something, said as plainly as the contract says it."""
    parsed = [parse_delegation(step) for step in steps]
    issuers = [step.issuer for step in parsed]
    if not parsed or len(set(issuers)) < len(issuers):
        return False
    if [step.audience for step in parsed] != [*issuers[1:], principal]:
        return False
    for before, step in pairwise(parsed):
        if RANKS[step.right] > RANKS[before.right]:
            return False
        if before.path is not None and (step.path is None or not within(step.path, before.path)):
            return False
        if step.not_before < before.not_before or step.expires > before.expires:
            return False
    first = acl.right_of(issuers[0], space)
    return (
        first is not None
        and covers(first, right)  # type: ignore[arg-type]
        and all(
            step.is_signed()
            and step.space == space
            and step.id not in acl.revoked
            and step.not_before <= now < step.expires
            and RANKS[step.right] >= RANKS[right]
            for step in parsed
        )
        and all(step.path is None or within(id, step.path) for step in parsed)
    )


@settings(max_examples=examples(350, 20_000))
@given(st.data())
def test_a_chain_allows_exactly_what_all_of_its_steps_and_the_acl_allow(
    data: st.DataObject,
) -> None:
    steps, acl = data.draw(chains()), data.draw(acls())
    draw = data.draw(st.sampled_from(["acl", "revoked", "principal", "space", "", "", ""]))
    if draw != "acl":
        acl = Acl({**acl.grants, steps[0]["iss"]: "owner"}, acl.has_root)
    if draw == "revoked":
        id = parse_delegation(data.draw(st.sampled_from(steps))).id
        acl = Acl(acl.grants, acl.has_root, {id: "2027-01-01T00:00:00Z"})
    names = [did_of(name) for name in NAMES]
    principal = data.draw(st.sampled_from(names)) if draw == "principal" else steps[-1]["aud"]
    space = SPACES[1] if draw == "space" else SPACES[0]
    now = NOW + data.draw(st.integers(-2, 70) | st.just(20)) * SECOND
    held = held_by_chain(read_chain(steps, principal), space, acl, now=now)
    for right in SPACE_RIGHTS:
        for id in IDS:
            allows = isinstance(held, Held) and covers(held.right, right) and within(id, held.path)
            assert allows == is_allowed(
                steps, principal, acl, right=right, id=id, space=space, now=now
            )


@settings(max_examples=examples(200, 20_000))
@given(acls(), st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(SPACE_RIGHTS))
def test_a_change_of_one_grant_changes_the_right_of_no_other_did(
    acl: Acl, changed: str, other: str, right: str
) -> None:
    did, space = did_of(changed), SPACES[0]
    for is_granted in (True, False):
        try:
            after = granted(acl, did, right) if is_granted else withdrawn(acl, did)
        except InvalidInput:
            continue
        if changed != other:
            assert after.right_of(did_of(other), space) == acl.right_of(did_of(other), space)
        assert after.has_root == acl.has_root
        assert not acl.named_owners or after.named_owners
    try:
        assert covers(granted(acl, did, right).right_of(did, space) or "open", right)  # type: ignore[arg-type]
    except InvalidInput:
        assert acl.named_owners == [did]


@settings(max_examples=examples(300, 30_000))
@given(json_values(leaves_max=12), st.booleans())
def test_no_value_at_all_makes_a_reader_of_acls_or_chains_fail(value: Any, is_deep: bool) -> None:
    found = {"kind": "acl/1", "grants": value} if is_deep else value
    acl = acl_in(State(SPACES[0], found, True, 1, "h"))
    assert acl is None or acl.grants == found["grants"]
    chain = read_chain([value] if is_deep else value, did_of("ada"))
    assert chain.fault is not None
    assert held_by_chain(chain, SPACES[0], Acl(), now=NOW) == chain.fault

"""Chains of delegations: from a did that the ACL names to the principal that asks.

    ACL ──> d1.issuer ──d1──> d2.issuer ──d2──> … ──dn──> principal

Each step lends at most what the step before it lent. One fault makes the whole chain void, and a
chain is judged anew for every call: the ACL, its revocations and the clock decide then.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

from msgspec import Struct

from rote.access.acl import Acl
from rote.access.delegations import SECOND, Delegation, parse_delegation
from rote.access.paths import is_narrower
from rote.access.rights import Held, covers, lower_of
from rote.errors import InvalidInput
from rote.values.server_limits import DELEGATION_SECONDS_MAX, DELEGATIONS_MAX

# Why a chain is void, in the order in which it is judged.
Fault = Literal["depth", "shape", "signature", "links", "wider", "time", "space"]


class Chain(Struct, frozen=True):
    """Delegations that a principal has shown."""

    steps: tuple[Delegation, ...] = ()  # none when they cannot be read
    fault: Fault | None = None  # found without the space and the time

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(step.id for step in self.steps)


def read_chain(proofs: Any, principal: str) -> Chain:
    """Return the chain in a JSON array of delegations, and its first fault."""
    if type(proofs) is not list:
        return Chain(fault="shape")
    if not 0 < len(proofs) <= DELEGATIONS_MAX:
        return Chain(fault="depth")
    try:
        steps = tuple(parse_delegation(proof) for proof in proofs)
    except InvalidInput:
        return Chain(fault="shape")
    return Chain(steps, _fault_of(steps, principal))


def held_by_chain(chain: Chain, space: str, acl: Acl | None, *, now: int) -> Held | Fault:
    """Return what a chain allows in a space now, or why it allows nothing."""
    if chain.fault is not None:
        return chain.fault
    if not all(step.holds_at(now) for step in chain.steps):
        return "time"
    if acl is None or any(step.space != space or step.id in acl.revoked for step in chain.steps):
        return "space"
    first, last = chain.steps[0], chain.steps[-1]
    right = acl.right_of(first.issuer, space)
    return "space" if right is None else Held(lower_of(right, last.right), last.path)


def _fault_of(steps: Sequence[Delegation], principal: str) -> Fault | None:
    if not all(step.is_signed() for step in steps):
        return "signature"
    issuers = [step.issuer for step in steps]
    audiences = [step.audience for step in steps]
    if audiences != [*issuers[1:], principal] or len(set(issuers)) < len(issuers):
        return "links"
    if any(_is_wider(step, before) for before, step in pairwise(steps)):
        return "wider"
    long = DELEGATION_SECONDS_MAX * SECOND
    if any(not 0 < step.expires - step.not_before <= long for step in steps):
        return "time"
    return None


def _is_wider(step: Delegation, before: Delegation) -> bool:
    """Whether a step lends anything that the step before it has not lent."""
    return (
        not covers(before.right, step.right)
        or not is_narrower(step.path, before.path)
        or step.not_before < before.not_before
        or step.expires > before.expires
    )

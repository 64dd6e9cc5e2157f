"""Principals: who asks, and what they hold in a space."""

from msgspec import Struct

from rote.access.acl import Acl
from rote.access.chains import Chain, Fault, held_by_chain
from rote.access.rights import Held
from rote.access.tokens import TokenRight


class Principal(Struct, frozen=True):
    """Somebody who has shown who they are."""

    name: str  # "did:key:z…", "token:<name>" or "operator"
    author: str | None  # of its commits; None: the store's own
    is_operator: bool = False
    bound: TokenRight | None = None  # of a named token
    chain: Chain | None = None  # delegations that a did has sent
    is_signed: bool = False  # whether this very request was signed
    grant: str | None = None  # the hash of the grant that it has shown

    @property
    def proof_ids(self) -> tuple[str, ...]:
        """The ids of its delegations, for logs."""
        return () if self.chain is None else self.chain.ids


class Standing(Struct, frozen=True):
    """The rights of a principal in one space now: each is enough by itself."""

    held: tuple[Held, ...] = ()
    fault: Fault | None = None  # why its chain gives nothing


def standing_in(principal: Principal, space: str, acl: Acl | None, *, now: int) -> Standing:
    """Return what a principal holds; `acl` None: the space has none that can be read."""
    if principal.is_operator:
        return Standing((Held("operator"),))
    if principal.bound is not None:
        bound = principal.bound
        is_here = bound.space is None or bound.space == space
        return Standing((Held(bound.right, bound.path),) if is_here else ())
    if not principal.name.startswith("did:"):
        return Standing()
    own = None if acl is None else acl.right_of(principal.name, space)
    held = () if own is None else (Held(own),)
    if principal.chain is None:
        return Standing(held)
    lent = held_by_chain(principal.chain, space, acl, now=now)
    if not isinstance(lent, Held):
        return Standing(held, lent)
    return Standing((*held, Held(lent.right, lent.path, is_lent=True)))

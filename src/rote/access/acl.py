"""The ACL of a space: the entity on main whose id is the space's did.

    {"kind": "acl/1", "grants": {"<did>" | "*": right}, "root": "owner" | "none",
     "revoked": {"<delegation id>": "<time>"}}

Frozen: docs/formats/access.md. Every member that is not exactly so makes the whole ACL unreadable.
"""

from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct

from rote.access.rights import SpaceRight, check_right, higher_of
from rote.contract import State
from rote.contract.table import Right
from rote.errors import InvalidInput, LimitExceeded
from rote.values import Json, check_did, parse_time
from rote.values.names import is_sha256
from rote.values.server_limits import ACL_GRANTS_MAX, ACL_REVOKED_MAX

KIND = "acl/1"
ANYONE = "*"  # any authenticated did
_MEMBERS = frozenset({"kind", "grants", "root", "revoked"})


class Acl(Struct, frozen=True):
    """A well-formed ACL."""

    grants: Mapping[str, SpaceRight] = {}
    has_root: bool = True  # whether the space's own key is an owner
    revoked: Mapping[str, str] = {}  # ids of delegations, with the times when they end anyway

    def right_of(self, did: str, space: str) -> Right | None:
        """Return the right of an authenticated did in the space; None without one."""
        if self.has_root and did == space:
            return "owner"
        own, anyone = self.grants.get(did), self.grants.get(ANYONE)
        return own or anyone if own is None or anyone is None else higher_of(own, anyone)

    @property
    def named_owners(self) -> list[str]:
        return [did for did, right in self.grants.items() if right == "owner" and did != ANYONE]

    def to_dict(self) -> dict[str, Json]:
        root = "owner" if self.has_root else "none"
        return {
            "kind": KIND,
            "grants": dict(self.grants),
            "root": root,
            "revoked": dict(self.revoked),
        }


UNWRITTEN = Acl()


def acl_in(state: State) -> Acl | None:
    """Return the ACL that a state of its entity holds; None when only operators have rights.

    That is so when it was deleted or erased, or has not the form of one. One that was never written
    lets only the space's own key in.
    """
    if state.erased:
        return None
    if not state.exists:
        return UNWRITTEN if state.version == 0 else None
    try:
        return parse_acl(state.value)
    except (InvalidInput, LimitExceeded):
        return None


def parse_acl(value: Json) -> Acl:
    """Return a value as an ACL; InvalidInput says what is wrong with it."""
    if type(value) is not dict or not {"kind", "grants"} <= value.keys() <= _MEMBERS:
        raise InvalidInput(
            "an ACL is an object with kind and grants, and perhaps root and revoked; nothing else"
        )
    if value["kind"] != KIND:
        raise InvalidInput(f"an ACL has the kind {KIND!r}")
    root = value.get("root", "owner")
    if root not in ("owner", "none"):
        raise InvalidInput("the root of an ACL is owner or none")
    grants = _members(value["grants"], "grants", ACL_GRANTS_MAX)
    for did, right in grants.items():
        if did != ANYONE:
            check_did(did)
        check_right(right)
    revoked = _members(value.get("revoked", {}), "revoked", ACL_REVOKED_MAX)
    for id, time in revoked.items():
        if not is_sha256(id):
            raise InvalidInput("what an ACL has revoked is named by the id of a delegation")
        parse_time(time)
    return Acl(cast(dict[str, SpaceRight], grants), root == "owner", revoked)


def check_usable(acl: Acl) -> None:
    """Check that somebody is left who can change the ACL: an owner that is not `*`."""
    if not acl.has_root and not acl.named_owners:
        raise InvalidInput("an ACL needs an owner that is not *; grant owner to a did first")


def granted(acl: Acl, did: str, right: str) -> Acl:
    """Return the ACL in which a did, or `*`, has a right."""
    if did != ANYONE:
        check_did(did)
    check_right(right)
    return _changed(acl, grants={**acl.grants, did: right})


def withdrawn(acl: Acl, did: str) -> Acl:
    """Return the ACL in which a did, or `*`, has no right; InvalidInput when it has none now."""
    if did not in acl.grants:
        raise InvalidInput(f"{did!r:.80} is not granted anything; acl() lists who is")
    return _changed(acl, grants={each: right for each, right in acl.grants.items() if each != did})


def rotated(acl: Acl, old: str, new: str) -> Acl:
    """Return the ACL in which a did has the right of another one, which has none any more."""
    check_did(new)
    if old not in acl.grants or old == ANYONE:
        raise InvalidInput(f"{old!r:.80} is not granted anything; acl() lists who is")
    if old == new:
        raise InvalidInput("a right moves from one did to another; name two")
    moved = {each: right for each, right in acl.grants.items() if each != old}
    held, own = acl.grants[old], moved.get(new)
    return _changed(acl, grants={**moved, new: held if own is None else higher_of(held, own)})


def revoked(acl: Acl, delegation: str, expires: str, *, now: int) -> Acl:
    """Return the ACL in which a delegation is void; entries that ended before `now` go."""
    kept = {id: time for id, time in acl.revoked.items() if parse_time(time) > now}
    return _changed(acl, revoked={**kept, delegation: expires})


def _changed(acl: Acl, **changes: Any) -> Acl:
    changed = Acl(
        **{"grants": acl.grants, "has_root": acl.has_root, "revoked": acl.revoked, **changes}
    )
    if acl.named_owners and not changed.named_owners:
        raise InvalidInput("this would leave no named owner; grant owner to another did first")
    return parse_acl(changed.to_dict())


def _members(value: Json, name: str, count_max: int) -> dict[str, Any]:
    if type(value) is not dict:
        raise InvalidInput(f"{name} of an ACL is an object")
    if len(value) > count_max:
        raise LimitExceeded(f"the number of {name} in an ACL", size=len(value), limit=count_max)
    return value

"""Refusals: the errors of access, each with the same words for everybody.

None of them says a value, a token, a signature, or whether something exists.
"""

from typing import Literal

from rote.access.chains import Fault
from rote.contract.table import PathRule, Right
from rote.errors import Denied, NotFound

Reason = Literal[
    "missing",
    "malformed",
    "way_disabled",
    "token",
    "expired",
    "not_yet",
    "too_long",
    "wrong_audience",
    "signature",
    "digest",
    "replayed",
    "challenge",
    "proofs",
]
_WORDS: dict[Reason, str] = {
    "missing": "send a token, or sign the request",
    "malformed": "what was sent to authenticate has not the form of docs/formats/access.md",
    "way_disabled": "this server does not take this way to authenticate",
    "token": "the token is unknown, or has ended; ask the operator for one",
    "expired": "the signature has expired; sign the request again",
    "not_yet": "the signature is of a later time; compare the clocks",
    "too_long": "the signature is for too long; let it expire within 300 seconds",
    "wrong_audience": "the signature is for another server; take the did that this one prints at its start",
    "signature": "the signature is not of this request and this key",
    "digest": "the body is not the one that was signed",
    "replayed": "the request was sent before; sign it again with a new nonce",
    "challenge": "the challenge is not of this connection, or was used",
    "proofs": "the delegations give no right here",
}


def unauthenticated(reason: Reason, *, why: Fault | None = None) -> Denied:
    """Return the error for a caller that has not shown who it is."""
    details = {"reason": reason} if why is None else {"reason": reason, "why": why}
    return Denied(_WORDS[reason], code="unauthenticated", **details)


def no_such_space(asked: str) -> NotFound:
    """Return the error for a space that does not exist, and for one that the caller has no right in.

    asked  its name or did, as it was sent
    """
    return NotFound(f"there is no space {asked!r} in this store", space=asked)


def lacks_right(command: str, needs: Right) -> Denied:
    return Denied(f"{command} needs the right {needs!r}", command=command, needs=needs)


def outside_path(command: str, rule: PathRule) -> Denied:
    words = "is not for a right that has a path" if rule == "none" else "goes beyond your path"
    return Denied(f"{command} {words}", command=command, path_rule=rule)


def acl_alone(command: str) -> Denied:
    return Denied(
        "the ACL is written alone: one set or patch of it on main, by an owner without a path",
        reason="acl_alone",
        command=command,
    )

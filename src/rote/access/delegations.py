"""Delegations: signed statements by which a did lends a right in a space to another one.

    {"kind": "delegation/1", "iss", "aud", "sub": <space did>, "right", "path": <text or null>,
     "nbf", "exp": <RFC 3339, seconds>, "nonce", "sig": <base64url, no padding>}

Frozen: docs/formats/access.md. The issuer signs the kind, NUL and the canonical bytes of all members
but `sig`; the id is the digest of the same members, so another spelling of `sig` changes nothing.
"""

import re
from typing import Any

from msgspec import Struct

from rote.access.encoding import from_base64url, to_base64url
from rote.access.paths import check_path
from rote.access.rights import SpaceRight, check_right
from rote.errors import InvalidInput
from rote.values import (
    Identity,
    Json,
    canonical,
    check_did,
    digest,
    format_time,
    parse_time,
    verify_signature,
)
from rote.values.identity import SIGNATURE_BYTES
from rote.values.server_limits import DELEGATION_SECONDS_MAX

KIND = "delegation/1"
NONCE_BYTES = 16
SECOND = 1_000_000  # microseconds
_SIGNED = b"rote delegation/1\0"
_MEMBERS = frozenset({"kind", "iss", "aud", "sub", "right", "path", "nbf", "exp", "nonce", "sig"})
_is_time = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z").fullmatch
is_nonce = re.compile(r"[A-Za-z0-9_-]{16,64}").fullmatch


class Delegation(Struct, frozen=True):
    """A delegation of the right form; `is_signed` tells whether its issuer made it."""

    id: str
    issuer: str
    audience: str
    space: str
    right: SpaceRight
    path: str | None
    not_before: int  # microseconds since the epoch
    expires: int
    value: dict[str, Any]  # with its signature

    def is_signed(self) -> bool:
        data = _SIGNED + canonical(_unsigned(self.value))
        return verify_signature(self.issuer, data, from_base64url(self.value["sig"]))

    def holds_at(self, now: int) -> bool:
        return self.not_before <= now < self.expires


def make_delegation(
    seed: bytes,
    *,
    to: str,
    space: str,
    right: str,
    path: str | None,
    seconds: int,
    not_before: int,
    nonce: bytes,
) -> dict[str, Any]:
    """Return a signed delegation that begins with the second of an instant."""
    identity = Identity.from_seed(seed)
    if type(seconds) is not int or not 0 < seconds <= DELEGATION_SECONDS_MAX:
        raise InvalidInput(
            f"a delegation holds for 1 to {DELEGATION_SECONDS_MAX:,} seconds, 366 days"
        )
    begins = not_before - not_before % SECOND
    members: dict[str, Any] = {
        "kind": KIND,
        "iss": identity.did,
        "aud": to,
        "sub": space,
        "right": right,
        "path": path,
        "nbf": second_text(begins),
        "exp": second_text(begins + seconds * SECOND),
        "nonce": to_base64url(nonce),
    }
    signature = identity.sign(_SIGNED + canonical(members))
    return parse_delegation({**members, "sig": to_base64url(signature)}).value


def parse_delegation(value: Any) -> Delegation:
    """Return a value as a delegation; InvalidInput says what is wrong with its form."""
    if type(value) is not dict or value.keys() != _MEMBERS:
        raise InvalidInput(f"a delegation is an object with {', '.join(sorted(_MEMBERS))}")
    if value["kind"] != KIND:
        raise InvalidInput(f"a delegation has the kind {KIND!r}")
    for member in ("iss", "aud", "sub"):
        check_did(value[member])
    check_right(value["right"])
    if value["path"] is not None:
        check_path(value["path"])
    if type(value["nonce"]) is not str or not is_nonce(value["nonce"]):
        raise InvalidInput("the nonce of a delegation has 16 to 64 characters of A-Z a-z 0-9 _ -")
    if len(from_base64url(value["sig"])) != SIGNATURE_BYTES:
        raise InvalidInput("the sig of a delegation is a signature of 64 bytes, as base64url")
    return Delegation(
        id=digest(_unsigned(value)),
        issuer=value["iss"],
        audience=value["aud"],
        space=value["sub"],
        right=value["right"],
        path=value["path"],
        not_before=_second(value["nbf"]),
        expires=_second(value["exp"]),
        value=value,
    )


def second_text(micros: int) -> str:
    """Return an instant as RFC 3339 without a fraction."""
    return format_time(micros).partition(".")[0] + "Z"


def _second(text: Any) -> int:
    if type(text) is not str or not _is_time(text):
        raise InvalidInput("a delegation has times in seconds, like 2026-01-31T12:00:00Z")
    return parse_time(text)


def _unsigned(value: dict[str, Any]) -> dict[str, Json]:
    return {name: member for name, member in value.items() if name != "sig"}

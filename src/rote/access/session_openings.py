"""Signed openings of sessions: a did shows itself on `/v1/sync` with one signature.

    {"signed": {"kind": "session/1", "iss", "aud": <server did>, "sub": <space did>, "challenge",
                "created", "expires": <seconds since the epoch>, "proofs": [delegations, if any]},
     "sig": <base64url, no padding>}

Frozen: docs/formats/access.md. Signed are `rote session/1`, NUL and the canonical bytes of `signed`.
"""

from collections.abc import Sequence
from typing import Any

from rote.access.encoding import from_base64url, to_base64url
from rote.access.refusals import unauthenticated
from rote.access.signed import Signed
from rote.errors import InvalidInput
from rote.values import Identity, canonical, check_did
from rote.values.identity import SIGNATURE_BYTES
from rote.values.server_limits import SIGNED_SECONDS_MAX

KIND = "session/1"
_SIGNED = b"rote session/1\0"
_MEMBERS = frozenset({"kind", "iss", "aud", "sub", "challenge", "created", "expires"})


class SessionOpening(Signed, frozen=True, kw_only=True):
    """The opening of a session."""

    space: str
    challenge: str
    proofs: Any  # None without any


def read_opening(auth: dict[str, Any]) -> SessionOpening:
    """Return the opening in an `auth`; Denied, `malformed`, unless it has exactly the form."""
    signed = auth.get("signed")
    if auth.keys() != {"signed", "sig"} or type(signed) is not dict:
        raise unauthenticated("malformed")
    texts: list[Any] = [signed.get(name) for name in ("iss", "aud", "sub", "challenge")]
    times: list[Any] = [signed.get(name) for name in ("created", "expires")]
    is_formed = (
        signed.keys() - {"proofs"} == _MEMBERS
        and signed["kind"] == KIND
        and all(type(text) is str for text in texts)
        and all(type(time) is int and time >= 0 for time in times)
        and signed["created"] < signed["expires"]
    )
    if not is_formed:
        raise unauthenticated("malformed")
    try:
        check_did(signed["iss"])
        signature = from_base64url(auth["sig"])
        data = _SIGNED + canonical(signed)
    except InvalidInput:
        raise unauthenticated("malformed") from None
    if len(signature) != SIGNATURE_BYTES:
        raise unauthenticated("malformed")
    return SessionOpening(
        did=texts[0],
        audience=texts[1],
        space=texts[2],
        challenge=texts[3],
        created=times[0],
        expires=times[1],
        proofs=signed.get("proofs"),
        signed=data,
        signature=signature,
    )


def sign_opening(
    identity: Identity,
    *,
    server: str,
    space: str,
    challenge: str,
    now: int,
    proofs: Sequence[Any] = (),
) -> dict[str, Any]:
    """Return the `auth` of a session that begins at a second."""
    signed: dict[str, Any] = {
        "kind": KIND,
        "iss": identity.did,
        "aud": server,
        "sub": space,
        "challenge": challenge,
        "created": now,
        "expires": now + SIGNED_SECONDS_MAX,
    }
    if proofs:
        signed["proofs"] = list(proofs)
    signature = identity.sign(_SIGNED + canonical(signed))
    return {"signed": signed, "sig": to_base64url(signature)}

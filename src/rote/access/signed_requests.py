"""Signed requests: a profile of HTTP Message Signatures (RFC 9421) and Content-Digest (RFC 9530).

A request has one signature, labelled `rote`, over a fixed list of components and with fixed
parameters. So there is exactly one text to sign for a request, and any library for these standards
can make it. Frozen: docs/formats/access.md.
"""

import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct

from rote.access.delegations import is_nonce
from rote.access.encoding import from_base64url, to_base64url
from rote.access.refusals import unauthenticated
from rote.access.signed import Signed
from rote.errors import InvalidInput, RoteError
from rote.values import Identity, canonical, check_did, decode
from rote.values.identity import SIGNATURE_BYTES

# Headers that make a request a signed one.
HEADERS = ("signature", "signature-input", "rote-audience", "content-digest", "rote-proofs")
_DERIVED = ("@method", "@path", "@query")
_ALWAYS = ("content-digest", "rote-audience")
# Signed if and only if they are sent, in this order.
_IF_SENT = (
    "idempotency-key",
    "rote-attempt",
    "rote-proofs",
    "if-match",
    "if-none-match",
    "content-type",
)
_parameters = re.compile(
    r"rote=(\([a-z@\-\" ]+\);created=(0|[1-9][0-9]{0,11});expires=(0|[1-9][0-9]{0,11});"
    r'nonce="([A-Za-z0-9_\-]{16,64})";keyid="(did:key:z[1-9A-Za-z]{1,128})";'
    r'alg="ed25519";tag="rote/1")'
).fullmatch
_signature = re.compile(r"rote=:([A-Za-z0-9+/]{86}==):").fullmatch
_digest = re.compile(r"sha-256=:([A-Za-z0-9+/]{43}=):").fullmatch


class RequestLine(Struct, frozen=True):
    """The first line of a request, as it stands there."""

    method: str
    path: str  # percent signs and all
    query: str  # without its `?`


class SignedRequest(Signed, frozen=True, kw_only=True):
    """A signed request."""

    nonce: str
    digest: bytes  # SHA-256 that the body must have
    proofs: str | None

    def proofs_sent(self) -> Any:
        """Return the JSON of the delegations that were sent; None when it cannot be read."""
        try:
            return decode(from_base64url(self.proofs))
        except RoteError:
            return None


def read_signed(line: RequestLine, headers: Sequence[tuple[str, str]]) -> SignedRequest:
    """Return the signed request in a head; Denied, `malformed`, unless it has exactly the form.

    The names of headers are in lower case.
    """
    sent = _sent_once(headers)
    match = _parameters(sent.get("signature-input", ""))
    signature = _signature(sent.get("signature", ""))
    digest = _digest(sent.get("content-digest", ""))
    if match is None or signature is None or digest is None or "rote-audience" not in sent:
        raise unauthenticated("malformed")
    components = [*_DERIVED, *_ALWAYS, *(name for name in _IF_SENT if name in sent)]
    listed = " ".join(f'"{name}"' for name in components)
    created, expires = int(match[2]), int(match[3])
    if not match[1].startswith(f"({listed});") or expires <= created:
        raise unauthenticated("malformed")
    try:
        check_did(match[5])
        return SignedRequest(
            did=match[5],
            audience=sent["rote-audience"],
            created=created,
            expires=expires,
            nonce=match[4],
            signed=_base(line, components, sent, match[1]),
            signature=_bytes(signature[1], SIGNATURE_BYTES),
            digest=_bytes(digest[1], sha256().digest_size),
            proofs=sent.get("rote-proofs"),
        )
    except (InvalidInput, UnicodeEncodeError):
        raise unauthenticated("malformed") from None


def sign_request(
    seed: bytes,
    line: RequestLine,
    body: bytes,
    *,
    audience: str,
    created: int,
    expires: int,
    nonce: str,
    headers: Mapping[str, str] | None = None,
    proofs: Sequence[Mapping[str, Any]] = (),
) -> dict[str, str]:
    """Return the headers that sign a request; `headers` are others of it, in lower case."""
    identity = Identity.from_seed(seed)
    if not is_nonce(nonce):
        raise InvalidInput("a nonce has 16 to 64 characters of A-Z a-z 0-9 _ -")
    added = {
        "rote-audience": audience,
        "content-digest": f"sha-256=:{b64encode(sha256(body).digest()).decode()}:",
    }
    if proofs:
        added["rote-proofs"] = to_base64url(canonical([dict(proof) for proof in proofs]))
    sent = {**(headers or {}), **added}
    components = [*_DERIVED, *_ALWAYS, *(name for name in _IF_SENT if name in sent)]
    listed = " ".join(f'"{name}"' for name in components)
    parameters = (
        f'({listed});created={created};expires={expires};nonce="{nonce}";'
        f'keyid="{identity.did}";alg="ed25519";tag="rote/1"'
    )
    base = _base(line, components, sent, parameters)
    signature = b64encode(identity.sign(base)).decode()
    return {
        **added,
        "signature-input": f"rote={parameters}",
        "signature": f"rote=:{signature}:",
    }


def _base(
    line: RequestLine, components: Sequence[str], sent: Mapping[str, str], parameters: str
) -> bytes:
    """Return the signature base of RFC 9421 section 2.5."""
    values = {"@method": line.method, "@path": line.path, "@query": f"?{line.query}", **sent}
    lines = [f'"{name}": {values[name]}' for name in components]
    return "\n".join([*lines, f'"@signature-params": {parameters}']).encode("ascii")


def _sent_once(headers: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the headers that matter here; each may be sent once."""
    found: dict[str, str] = {}
    for name, value in headers:
        if name in HEADERS or name in _IF_SENT:
            if name in found:
                raise unauthenticated("malformed")
            found[name] = value.strip(" \t")
    return found


def _bytes(text: str, size: int) -> bytes:
    """Return the bytes of base64 in its one spelling."""
    try:
        data = b64decode(text, validate=True)
    except NotBase64:
        raise unauthenticated("malformed") from None
    if len(data) != size or b64encode(data).decode() != text:
        raise unauthenticated("malformed")
    return data

"""Tokens for people and services, and the grants that a signed request is exchanged for.

    rote_<id: 12 hex digits>_<secret: 43 characters>     a named token, or the start token of a server
    rotg_<43 characters>                                 a grant

Frozen: docs/formats/access.md. Only hashes are stored. Secrets are no part of a message, a
representation or an error.
"""

import re
from collections.abc import Callable
from hmac import compare_digest
from typing import Any, Literal

from msgspec import Struct

from rote.access.encoding import to_base64url
from rote.access.paths import check_path
from rote.access.rights import check_right
from rote.contract.table import Right
from rote.errors import InvalidInput
from rote.values import Json, check_did, format_time, parse_time, sha256_hex
from rote.values.server_limits import GRANT_SECONDS_MAX

KIND = "token/1"
PREFIX = "urn:token:"  # of the entities of tokens in the server's space
ID_BYTES, SECRET_BYTES = 6, 32
_MEMBERS = frozenset(
    {"kind", "id", "hash", "right", "space", "path", "created", "expires", "revoked"}
)
_START = "start"  # the name of the token that a server makes when it starts
_is_name = re.compile(r"[a-z0-9._-]{1,64}").fullmatch
_is_id = re.compile(r"[0-9a-f]{12}").fullmatch
_is_hash = re.compile(r"[0-9a-f]{64}").fullmatch
_token = re.compile(r"rote_([0-9a-f]{12})_([A-Za-z0-9_-]{43})").fullmatch
_grant = re.compile(r"rotg_[A-Za-z0-9_-]{43}").fullmatch
# A token or a grant anywhere in a text, also one that was cut short.
find_secret = re.compile(r"rote_[0-9a-f]{12}_[A-Za-z0-9_-]{8}|rotg_[A-Za-z0-9_-]{20}").search


class TokenRight(Struct, frozen=True):
    """The right of a named token; the ACL is not asked."""

    right: Right
    space: str | None = None  # its did; None: every space, also later ones
    path: str | None = None


class TokenRecord(Struct, frozen=True):
    """The stored part of a token."""

    name: str
    id: str
    hash: str  # SHA-256 of the secret, hex
    bound: TokenRight
    created: str
    expires: str | None
    revoked: bool

    def allows(self, secret: str, *, now: int) -> bool:
        """Whether this is its secret, and it is still good."""
        is_same = compare_digest(sha256_hex(secret.encode()), self.hash)
        is_over = self.revoked or (self.expires is not None and parse_time(self.expires) <= now)
        return is_same and not is_over

    def to_dict(self) -> dict[str, Json]:
        return {
            "kind": KIND,
            "id": self.id,
            "hash": self.hash,
            "right": self.bound.right,
            "space": self.bound.space,
            "path": self.bound.path,
            "created": self.created,
            "expires": self.expires,
            "revoked": self.revoked,
        }


def make_token(
    name: str,
    bound: TokenRight,
    *,
    now: int,
    expires: int | None,
    random_bytes: Callable[[int], bytes],
) -> tuple[str, TokenRecord]:
    """Return a new token, and what is stored of it."""
    check_token_name(name)
    text = token_text(random_bytes)
    id, secret = split_token(text)
    record = TokenRecord(
        name=name,
        id=id,
        hash=sha256_hex(secret.encode()),
        bound=bound,
        created=format_time(now),
        expires=None if expires is None else format_time(expires),
        revoked=False,
    )
    return text, parse_record(PREFIX + name, record.to_dict())


def token_text(random_bytes: Callable[[int], bytes]) -> str:
    return f"rote_{random_bytes(ID_BYTES).hex()}_{to_base64url(random_bytes(SECRET_BYTES))}"


def grant_text(random_bytes: Callable[[int], bytes]) -> str:
    return f"rotg_{to_base64url(random_bytes(SECRET_BYTES))}"


def split_token(text: str) -> tuple[str, str]:
    """Return the id and the secret of a token; InvalidInput when it is none."""
    match = _token(text)
    if match is None:
        raise InvalidInput("this is no token; it looks like rote_<12 hex digits>_<43 characters>")
    return match[1], match[2]


def kind_of(text: str) -> Literal["token", "grant"] | None:
    """Return what a text that was sent as a bearer is, by its form."""
    if _token(text):
        return "token"
    return "grant" if _grant(text) else None


def check_token_name(text: Any) -> None:
    if type(text) is not str or not _is_name(text):
        raise InvalidInput("a token is named by 1 to 64 characters of a-z 0-9 . _ -")
    if text == _START:
        raise InvalidInput(
            f"{_START} is the token that a server makes when it starts; take another"
        )


def parse_record(id: str, value: Json) -> TokenRecord:
    """Return the record that an entity holds; InvalidInput unless it is exactly one."""
    if type(value) is not dict or value.keys() != _MEMBERS or value["kind"] != KIND:
        raise InvalidInput("not the record of a token")
    name = id.removeprefix(PREFIX)
    check_token_name(name)
    found: Any = value
    if found["right"] != "operator":
        check_right(found["right"])
    elif found["space"] is not None or found["path"] is not None:
        raise InvalidInput("the token of an operator is for every space")
    if found["space"] is not None:
        check_did(found["space"])
    if found["path"] is not None:
        check_path(found["path"])
    for time in (found["created"], found["expires"]):
        if time is not None:
            parse_time(time)
    is_exact = (
        _is_text(found["id"], _is_id)
        and _is_text(found["hash"], _is_hash)
        and type(found["created"]) is str
        and type(found["revoked"]) is bool
    )
    if not is_exact:
        raise InvalidInput("not the record of a token")
    return TokenRecord(
        name=name,
        id=found["id"],
        hash=found["hash"],
        bound=TokenRight(found["right"], found["space"], found["path"]),
        created=found["created"],
        expires=found["expires"],
        revoked=found["revoked"],
    )


def check_grant_seconds(seconds: Any) -> None:
    if type(seconds) is not int or not 0 < seconds <= GRANT_SECONDS_MAX:
        raise InvalidInput(f"a grant holds for 1 to {GRANT_SECONDS_MAX:,} seconds")


def _is_text(value: Any, matches: Callable[[str], Any]) -> bool:
    return type(value) is str and matches(value) is not None

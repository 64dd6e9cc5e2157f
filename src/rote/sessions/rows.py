"""The side rows of sessions: one of the session, and one for each verdict that its client may ask for.

Frozen: the kinds, the form of the keys, and the bodies.
"""

import hmac
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, structs

from rote.contract import SideRow
from rote.contract.sync import Transact
from rote.errors import Corrupt
from rote.values import Json, canonical
from rote.values.limits import DEPTH_MAX

SESSION = "session"
VERDICT = "verdict"
_LOCAL_DIGITS = 10


class SessionBody(Struct, frozen=True):
    """The row of a session: small, because every accepted commit writes it anew."""

    principal: str | None
    tokens: tuple[
        str, ...
    ]  # hashes of those that open it: the last that was used, and all given since
    secret: str  # hex; the key of the digests of payloads
    opens: int  # how often it was opened; the newest opening owns it
    decided: int = 0  # the last local that has a verdict
    acknowledged: int = 0  # the last local whose verdict the client keeps
    basis: int = 0  # none of the client's later commits has a lower one
    touched: int = 0  # microseconds since the epoch

    def body(self) -> dict[str, Json]:
        return {**structs.asdict(self), "tokens": list(self.tokens)}


class VerdictBody(Struct, frozen=True):
    """The verdict of one commit of a session."""

    version: int  # of the commit; of a rejected one the head when it was decided
    payload: str | None  # digest of what was sent; None when it is not known any more
    error: Mapping[str, Any] | None = None  # None: accepted
    # The head when a key was found to have been used before; None: the commit was made for this one.
    head: int | None = None

    def body(self) -> dict[str, Json]:
        head: dict[str, Json] = {} if self.head is None else {"head": self.head}
        return {"version": self.version, "payload": self.payload, "error": self.error, **head}

    @property
    def is_accepted(self) -> bool:
        return self.error is None

    def can_be_named(self, basis: int) -> bool:
        """Whether a commit with a basis may name this one, of which its client knows, as a layer.

        A client may have seen the version at which a key was found before it knew of that; so a commit
        that has seen both may have just that basis.
        """
        return self.version > basis if self.head is None else self.head >= basis


def session_in(row: SideRow) -> SessionBody:
    try:
        body: dict[str, Any] = dict(row.body)
        return SessionBody(**{**body, "tokens": tuple(body["tokens"])})
    except (KeyError, TypeError, ValueError):
        raise Corrupt(f"the row of session {row.key!r} was changed; run `rote verify`") from None


def verdict_in(row: SideRow) -> VerdictBody:
    body = row.body
    if type(body) is not dict or not {"version", "payload"} <= body.keys():
        raise Corrupt(f"the row of verdict {row.key!r} was changed; run `rote verify`")
    return VerdictBody(body["version"], body["payload"], body.get("error"), body.get("head"))


def verdict_key(session: str, local: int) -> str:
    return f"{session}:{local:0{_LOCAL_DIGITS}d}"


def local_of(key: str) -> int:
    return int(key.rpartition(":")[2])


def payload_digest(secret: str, sent: Transact) -> str:
    """Return the digest of what makes a commit the same one when it is sent again.

    Nobody can compare it without the secret.
    """
    parts = [sent.branch, sent.basis, sent.operations, sent.reads, sent.key, sent.meta]
    data = canonical(parts, depth_max=3 * DEPTH_MAX)
    return hmac.new(bytes.fromhex(secret), data, "sha256").hexdigest()

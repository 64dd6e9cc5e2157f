"""Authentication: finds the principal of a request, by its Authorization or its signature.

    Authorization: Bearer rote_…      the start token, or a named one    way `token`
    Authorization: Bearer rotg_…      a grant                            way `did`
    Signature, Signature-Input        a signed request                   way `did`

Whatever is not exactly one of these is refused. Nothing is taken from what was good before: tokens,
grants and nonces are looked up for every request. A look that nobody has committed since is the same
as another one, and is not made twice.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from hmac import compare_digest
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from rote.access.chains import Chain, read_chain
from rote.access.delegations import SECOND
from rote.access.principals import Principal
from rote.access.refusals import unauthenticated
from rote.access.session_openings import read_opening
from rote.access.signed_requests import RequestLine, SignedRequest, read_signed
from rote.access.tokens import find_secret, kind_of, split_token
from rote.contract import Clock
from rote.errors import Corrupt, Denied, InternalError, InvalidInput, Unavailable
from rote.server.failures import Failures
from rote.server.messages import Head
from rote.server.server_space import ServerSpace
from rote.server.settings import Settings
from rote.values import micros_of, parse_time, sha256_hex
from rote.values.server_limits import SERVER_PRINCIPALS_KEPT

R = TypeVar("R")
_SIGNING = (b"signature", b"signature-input")


class Shown(Struct, frozen=True):
    """A grant that was good, as of a mark of the store."""

    mark: bytes | None
    principal: Principal
    expires: int


class Opener(Struct, frozen=True):
    """The principal that opens a session, and its credential."""

    principal: Principal
    bearer: str | None = None  # the token or grant
    space: str | None = None  # the did of the only space that was signed for


class Authentication:
    """Finds the principal of a request. Its calls run on the pool."""

    def __init__(
        self,
        settings: Settings,
        *,
        start_token: str | None,
        home: ServerSpace,
        clock: Clock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start_token = None if start_token is None else start_token.encode()
        self._operator = Principal("operator", settings.author, is_operator=True)
        self._operators = frozenset(settings.operators)
        self._ways = frozenset(settings.auth)
        self._home = home
        self._clock = clock
        self._failures = Failures(settings.limits.failures, now=monotonic)
        self._mutex = threading.Lock()
        # Delegations were signed once, so their signatures are judged once; the rest at every call.
        self._chains: OrderedDict[str, Chain] = OrderedDict()  # by the hash of their grant
        self._grants: OrderedDict[str, Shown] = OrderedDict()  # by their hashes

    def principal(self, head: Head) -> Principal:
        """Return who asks; Denied with the code `unauthenticated` when that is not shown."""
        self.check_no_secret(head)
        if self._ways == {"none"}:
            return self._operator
        return self._counted(head.peer, lambda: self._principal(head))

    def check_no_secret(self, head: Head) -> None:
        """Refuse a token in a URL, where logs and histories keep it."""
        target = head.path + b"?" + head.query
        if b"rot" in target or b"%" in target:
            for text in (target, unquote_to_bytes(target)):
                if find_secret(_text(text)):
                    raise InvalidInput(
                        "a token has no place in a URL; send it as Authorization: Bearer"
                    )

    def check_body(self, head: Head, digest: Callable[[], bytes]) -> None:
        """Check the body of a signed request, and note that its nonce was used.

        digest  returns the SHA-256 of the body
        """
        if self._ways == {"none"} or not _is_signed(head):
            return
        self._counted(head.peer, lambda: self._check_body(head, digest()))

    def _counted(self, peer: str | None, find: Callable[[], R]) -> R:
        """Call a function; count when it refuses, and refuse when it cannot read the rules."""
        try:
            return find()
        except Denied as error:
            if error.details.get("reason") not in (None, "missing"):
                self._failures.count(peer)
            raise
        except (Corrupt, InternalError) as error:
            raise Unavailable("the server cannot read its own rules; run `rote verify`") from error

    def _principal(self, head: Head) -> Principal:
        bearers = head.all(b"authorization")
        if _is_signed(head):
            if bearers:
                raise unauthenticated("malformed")
            return self._by_signature(self._signed(head))
        if not bearers:
            raise unauthenticated("missing")
        scheme, _, bearer = bearers[0].partition(b" ")
        if len(bearers) > 1 or scheme.lower() != b"bearer":
            raise unauthenticated("malformed")
        return self._by_bearer(bearer.decode("latin-1"))

    def _by_bearer(self, text: str) -> Principal:
        kind = kind_of(text)
        if kind is None:
            raise unauthenticated("token")
        self._check_way("token" if kind == "token" else "did")
        return self._by_token(text) if kind == "token" else self._by_grant(text)

    # -- sessions ----------------------------------------------------------------------------------

    def of_session(self, auth: Any, *, challenge: str | None, peer: str | None) -> "Opener":
        """Return who opens a session; Denied with the code `unauthenticated` when it is not shown.

        auth       the member of session.open
        challenge  of this connection; None when it was used, or has ended
        """
        if self._ways == {"none"}:
            return Opener(self._operator)
        return self._counted(peer, lambda: self._of_session(auth, challenge))

    def is_good(self, opener: "Opener") -> bool:
        """Whether the credential by which a session was opened has not ended."""
        if opener.bearer is None:
            return True
        try:
            self._by_bearer(opener.bearer)
        except Denied:
            return False
        except (Corrupt, InternalError) as error:
            raise Unavailable("the server cannot read its own rules; run `rote verify`") from error
        return True

    def _of_session(self, auth: Any, challenge: str | None) -> "Opener":
        if auth is None:
            raise unauthenticated("missing")
        if type(auth) is not dict:
            raise unauthenticated("malformed")
        bearer = auth.get("token")
        if auth.keys() == {"token"} and type(bearer) is str:
            return Opener(self._by_bearer(bearer), bearer=bearer)
        self._check_way("did")
        opening = read_opening(auth)
        opening.check(now=self._now() // SECOND, audience=self._home.did)
        if challenge is None or not compare_digest(opening.challenge.encode(), challenge.encode()):
            raise unauthenticated("challenge")
        chain = None if opening.proofs is None else read_chain(opening.proofs, opening.did)
        return Opener(self._did(opening.did, chain, is_signed=True), space=opening.space)

    def _check_way(self, way: str) -> None:
        if way not in self._ways:
            raise unauthenticated("way_disabled")

    # -- tokens ------------------------------------------------------------------------------------

    def _by_token(self, text: str) -> Principal:
        if self._start_token is not None and compare_digest(text.encode(), self._start_token):
            return self._operator
        id, secret = split_token(text)
        record = self._home.token(id)
        if record is None or not record.allows(secret, now=self._now()):
            raise unauthenticated("token")
        name = f"token:{record.name}"
        if record.bound.right == "operator":
            return Principal(name, name, is_operator=True)
        return Principal(name, name, bound=record.bound)

    def _by_grant(self, text: str) -> Principal:
        hash = sha256_hex(text.encode())
        mark, shown = self._home.mark(), self._grants.get(hash)
        if shown is None or mark is None or shown.mark != mark:
            shown = self._look_up(hash, mark)
            with self._mutex:
                self._grants[hash] = shown
                if len(self._grants) > SERVER_PRINCIPALS_KEPT:
                    self._grants.popitem(last=False)
        if shown.expires <= self._now():
            raise unauthenticated("token")
        return shown.principal

    def _look_up(self, hash: str, mark: bytes | None) -> "Shown":
        row = self._home.grant(hash)
        body: Any = None if row is None else row.body
        try:
            did, proofs, expires = body["principal"], body["proofs"], parse_time(body["expires"])
        except (TypeError, KeyError, InvalidInput):
            raise unauthenticated("token") from None
        chain = self._chain(hash, proofs, did) if proofs else None
        return Shown(mark, self._did(did, chain, grant=hash), expires)

    def _chain(self, hash: str, proofs: Any, did: str) -> Chain:
        with self._mutex:
            chain = self._chains.get(hash)
        if chain is None:
            chain = read_chain(proofs, did)
            with self._mutex:
                self._chains[hash] = chain
                if len(self._chains) > SERVER_PRINCIPALS_KEPT:
                    self._chains.popitem(last=False)
        return chain

    def _did(self, did: str, chain: Chain | None, **how: Any) -> Principal:
        return Principal(did, did, is_operator=did in self._operators, chain=chain, **how)

    # -- signatures --------------------------------------------------------------------------------

    def _signed(self, head: Head) -> SignedRequest:
        self._check_way("did")
        line = RequestLine(head.method, _text(head.path), _text(head.query))
        return read_signed(line, [(_text(name), _text(value)) for name, value in head.headers])

    def _by_signature(self, signed: SignedRequest) -> Principal:
        signed.check(now=self._now() // SECOND, audience=self._home.did)
        chain = None if signed.proofs is None else read_chain(signed.proofs_sent(), signed.did)
        return self._did(signed.did, chain, is_signed=True)

    def _check_body(self, head: Head, digest: bytes) -> None:
        signed = self._signed(head)
        if not compare_digest(digest, signed.digest):
            raise unauthenticated("digest")
        now = self._now() // SECOND
        if now >= signed.expires:
            raise unauthenticated("expired")  # the body took too long: its nonce may be forgotten
        noted = self._home.note_nonce(signed.did, signed.nonce, expires=signed.expires, now=now)
        if not noted:
            raise unauthenticated("replayed")

    def _now(self) -> int:
        return micros_of(self._clock.now())


def _is_signed(head: Head) -> bool:
    return any(map(head.all, _SIGNING))


def _text(data: bytes) -> str:
    return data.decode("latin-1")

"""Credentials: a token that is sent as it is, or a key that grants are got with."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from rote.access.encoding import to_base64url
from rote.access.signed_requests import RequestLine, sign_request
from rote.contract import Clock, IdSource
from rote.errors import InvalidInput
from rote.values import micros_of
from rote.values.client_limits import GRANT_RENEWED_AFTER, NONCE_BYTES, SIGNED_SECONDS
from rote.values.server_limits import GRANT_SECONDS_DEFAULT

_SECOND = 1_000_000
GRANTS = "/v1/grants"


class Credentials(Protocol):
    """Makes the header that says who calls."""

    def bearer(self) -> str | None: ...

    def renew(self, refused: str | None) -> bool:
        """Take note that a bearer was refused; whether there is another one to try."""
        ...


class Token(Struct, frozen=True):
    """A token, or nothing; implements Credentials."""

    token: str | None

    def bearer(self) -> str | None:
        return self.token

    def renew(self, refused: str | None) -> bool:
        return False


def check_token(token: Any) -> None:
    if type(token) is not str or not token:
        raise InvalidInput(
            "token is a text, and not empty: what `rote token create` or a server has printed"
        )
    if " " in token or not token.isascii() or not token.isprintable():
        raise InvalidInput(
            "token is one word, rote_…, without `Bearer`, spaces and ends of lines; what was read from"
            " a file ends with a line: .strip() it"
        )


# Sends a request and returns the members of its answer: method, path, headers, body.
Ask = Callable[[str, str, Mapping[str, str], bytes], dict[str, Any]]


class Grants:
    """The grants of a key, one after the other; implements Credentials."""

    def __init__(
        self,
        seed: bytes,
        proofs: Sequence[Mapping[str, Any]],
        *,
        ask: Ask,
        clock: Clock,
        ids: IdSource,
        now: Callable[[], float],
    ) -> None:
        self._seed = seed
        self._proofs = proofs
        self._ask = ask
        self._clock = clock
        self._ids = ids
        self._now = now
        self._lock = threading.Lock()
        self._grant: str | None = None
        self._renewal = 0.0  # when another one is asked for
        self._server: str | None = None

    def bearer(self) -> str:
        grant = self._grant
        if grant is not None and self._now() < self._renewal:
            return grant
        with self._lock:
            if self._grant is None or self._now() >= self._renewal:
                self._grant = self._new_grant()
            return self._grant

    def renew(self, refused: str | None) -> bool:
        with self._lock:
            if self._grant == refused:
                self._grant = None
        return True

    def _new_grant(self) -> str:
        """Return a grant, for a signed request; the server says for whom it is to be signed."""
        if self._server is None:
            self._server = str(self._ask("GET", "/health", {}, b"").get("server", ""))
        begun = self._now()
        created = micros_of(self._clock.now()) // _SECOND
        headers = {"content-type": "application/json"}
        signed = sign_request(
            self._seed,
            RequestLine("POST", GRANTS, ""),
            b"{}",
            audience=self._server,
            created=created,
            expires=created + SIGNED_SECONDS,
            nonce=to_base64url(self._ids.random_bytes(NONCE_BYTES)),
            headers=headers,
            proofs=self._proofs,
        )
        granted = self._ask("POST", GRANTS, {**headers, **signed}, b"{}")
        self._renewal = begun + GRANT_SECONDS_DEFAULT * GRANT_RENEWED_AFTER
        return str(granted["token"])

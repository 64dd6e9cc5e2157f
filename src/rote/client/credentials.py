"""Credentials: a token that is sent as it is, or a key that grants are got with."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from rote.access.encoding import to_base64url
from rote.access.signed_requests import RequestLine, sign_request
from rote.contract import Clock, IdSource
from rote.errors import InternalError, InvalidInput, Unavailable
from rote.values import micros_of
from rote.values.client_limits import (
    GRANT_ATTEMPTS,
    GRANT_RENEWED_AFTER,
    NONCE_BYTES,
    SIGNED_SECONDS,
)
from rote.values.server_limits import GRANT_SECONDS_DEFAULT

_SECOND = 1_000_000
GRANTS = "/v1/grants"


class Credentials(Protocol):
    """Makes the header that says who calls."""

    def bearer(self, deadline: float | None = None) -> str | None:
        """Return what is sent; Unavailable when that has to be got and is not there in time.

        deadline  None: the time of a call from now on
        """
        ...

    def renew(self, refused: str | None) -> bool:
        """Take note that a bearer was refused; whether there is another one to try."""
        ...


class Token(Struct, frozen=True):
    """A token, or nothing; implements Credentials."""

    token: str | None

    def bearer(self, deadline: float | None = None) -> str | None:
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


# Sends a request and returns the members of its answer: method, path, headers, body, deadline.
Ask = Callable[[str, str, Mapping[str, str], bytes, float], dict[str, Any]]


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
        seconds: float,
    ) -> None:
        """
        now      seconds of a clock that only goes forward
        seconds  the time of a call
        """
        self._seed = seed
        self._proofs = proofs
        self._ask = ask
        self._clock = clock
        self._ids = ids
        self._now = now
        self._seconds = seconds
        self._lock = threading.Lock()
        self._grant: str | None = None
        self._renewal = 0.0  # when another one is asked for
        self._server: str | None = None

    def bearer(self, deadline: float | None = None) -> str:
        grant = self._grant
        if grant is not None and self._now() < self._renewal:
            return grant
        until = self._now() + self._seconds if deadline is None else deadline
        # Another thread may wait for the server with the lock in its hand.
        if not self._lock.acquire(timeout=max(until - self._now(), 0)):
            raise Unavailable("the server gave no grant in time", code="timeout")
        try:
            grant = self._grant
            if grant is None or self._now() >= self._renewal:
                grant = self._grant = self._new_grant(until)
            return grant
        finally:
            self._lock.release()

    def renew(self, refused: str | None) -> bool:
        # Without the lock, nobody waits here. At worst one more grant is asked for.
        if self._grant == refused:
            self._grant = None
        return True

    def _new_grant(self, until: float) -> str:
        """Return a grant, for a signed request; the server says for whom it is to be signed."""
        if self._server is None:
            self._server = str(self._ask("GET", "/health", {}, b"", until).get("server", ""))
        for left in reversed(range(GRANT_ATTEMPTS)):
            begun = self._now()
            try:
                granted = self._ask_for_grant(self._server, until)
            except Unavailable:
                # An idle connection may have been cut; what is signed anew may be sent again.
                if left == 0 or self._now() >= until:
                    raise
            else:
                self._renewal = begun + GRANT_SECONDS_DEFAULT * GRANT_RENEWED_AFTER
                return str(granted["token"])
        raise InternalError("there is at least one attempt")

    def _ask_for_grant(self, server: str, until: float) -> dict[str, Any]:
        created = micros_of(self._clock.now()) // _SECOND
        headers = {"content-type": "application/json"}
        signed = sign_request(
            self._seed,
            RequestLine("POST", GRANTS, ""),
            b"{}",
            audience=server,
            created=created,
            expires=created + SIGNED_SECONDS,
            nonce=to_base64url(self._ids.random_bytes(NONCE_BYTES)),
            headers=headers,
            proofs=self._proofs,
        )
        return self._ask("POST", GRANTS, {**headers, **signed}, b"{}", until)

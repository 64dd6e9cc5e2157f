"""The desk: begins the sessions of a space and opens them again, whatever line their clients come by."""

from base64 import urlsafe_b64encode
from collections.abc import Callable

from msgspec import structs

from rote.contract import (
    IdSource,
    Port,
    SideRow,
    all_sides,
)
from rote.contract.commands import (
    GetSide,
    PutSide,
)
from rote.contract.sync import Mark
from rote.errors import (
    Busy,
    Denied,
    InvalidInput,
    LimitExceeded,
    SessionExpired,
    SessionRevoked,
)
from rote.sessions.marks import known_since
from rote.sessions.rows import (
    SESSION,
    SessionBody,
    session_in,
)
from rote.sessions.side_rules import is_expired
from rote.sessions.sittings import GuardingPort, Sitting, now_of
from rote.values import sha256_hex
from rote.values.session_limits import (
    SESSION_ATTEMPTS_MAX,
    SESSION_ID_BYTES,
    SESSION_SECRET_BYTES,
    SESSION_TOKEN_BYTES,
    SESSION_TOKENS_MAX,
    SESSIONS_PER_PRINCIPAL_MAX,
)


class Desk:
    """The sessions of one space, on one port."""

    def __init__(
        self,
        port: Port,
        space: str,
        *,
        randomness: IdSource,
        principal: str | None = None,
        admit: Callable[[Port], Port] | None = None,
    ) -> None:
        """randomness  the system's: ids and tokens are guessed by nobody
        principal      whose sessions these are; commits have the author of the port
        admit          wraps the port that commits are made on, to judge rights; it sees each of them
                       without its guards
        """
        self._port = port
        self._space = space
        self._randomness = randomness
        self._principal = principal
        self._admit = admit

    def open(
        self, *, session: str | None = None, token: str | None = None, seen: Mark | None = None
    ) -> "Sitting":
        """Begin a session, or go on with one by its token; whoever held it before is out.

        Diverged, and nothing is opened, when the log does not have what the client has seen.
        """
        if (session is None) != (token is None):
            raise InvalidInput("a session is opened again by its id and its token, both")
        known_since(self._port, self._space, seen)
        given = self._random_text(SESSION_TOKEN_BYTES)
        if session is None or token is None:
            return self._begin(given)
        for _ in range(SESSION_ATTEMPTS_MAX):
            row = self._port.answer(self._space, GetSide(SESSION, session)) if session else None
            body = self._resumed(row, token, given)
            try:
                row = self._port.answer(
                    self._space,
                    PutSide(SESSION, session, body.body(), 0 if row is None else row.fence),
                )
            except Denied as error:
                if "actual_fence" not in error.details:
                    raise
                continue  # somebody opened it, or decided for it, in between
            return self._sit(row, given, is_resumed=True)
        raise Busy("others open this session at the same time; try again")

    def _begin(self, token: str) -> "Sitting":
        now = now_of(self._port)
        held = sum(
            session_in(row).principal == self._principal and not is_expired(row, now)
            for row in all_sides(self._port, self._space, SESSION)
        )
        if held >= SESSIONS_PER_PRINCIPAL_MAX:
            raise LimitExceeded(
                "the number of sessions",
                size=held + 1,
                limit=SESSIONS_PER_PRINCIPAL_MAX,
                advice="close some",
            )
        body = SessionBody(
            self._principal,
            (sha256_hex(token.encode()),),
            self._randomness.random_bytes(SESSION_SECRET_BYTES).hex(),
            opens=1,
            touched=now,
        )
        session = self._randomness.random_bytes(SESSION_ID_BYTES).hex()
        row = self._port.answer(self._space, PutSide(SESSION, session, body.body(), 0))
        return self._sit(row, token, is_resumed=False)

    def _sit(self, row: SideRow, token: str, *, is_resumed: bool) -> "Sitting":
        guarding = GuardingPort(self._port)
        commits = guarding if self._admit is None else self._admit(guarding)
        return Sitting(guarding, self._space, row, token, commits=commits, is_resumed=is_resumed)

    def _resumed(self, row: SideRow | None, token: str, given: str) -> SessionBody:
        """Return the row of a session that is opened again; its good tokens are the one that was used
        and all given since."""
        now = now_of(self._port)
        body = None if row is None or is_expired(row, now) else session_in(row)
        if body is None or body.principal != self._principal:
            raise SessionExpired("this session is not known, or not any more; open another one")
        used = sha256_hex(token.encode("utf-8", "surrogatepass"))
        if used not in body.tokens:
            raise SessionRevoked("this session was taken over; its token is not good any more")
        first, *since = body.tokens[body.tokens.index(used) :]
        tokens = (first, *since[-(SESSION_TOKENS_MAX - 2) :], sha256_hex(given.encode()))
        return structs.replace(body, tokens=tokens, opens=body.opens + 1, touched=now)

    def _random_text(self, size: int) -> str:
        return _base64url(self._randomness.random_bytes(size))


def _base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()

"""The server's space, `rote.server`: named tokens as entities, nonces and grants as side rows.

All processes on one store share it, so a token that ends and a nonce that was used count everywhere
at once. Its did is the audience of everything that is signed.

    urn:token:<name>            access/tokens.py
    nonce  <did>:<nonce>        {"expires": <seconds>}
    grant  <SHA-256 of it>      {"principal", "proofs", "expires": <time>}
"""

import threading
from typing import Any

from rote.access.delegations import second_text
from rote.access.tokens import (
    PREFIX,
    TokenRecord,
    TokenRight,
    grant_text,
    make_token,
    parse_record,
)
from rote.contract import Caller, IdSource, Port, SideRow, SpaceInfo
from rote.contract.commands import (
    DropSide,
    DropSides,
    FindSpace,
    GetHead,
    GetSide,
    ListSides,
    PutSide,
)
from rote.errors import Conflict, Denied, InvalidInput, LimitExceeded, NotFound
from rote.space import Space
from rote.values import sha256_hex
from rote.values.limits import PAGE_MAX
from rote.values.server_limits import NONCES_BETWEEN_SWEEPS, SIGNED_AHEAD_SECONDS, TOKENS_MAX

SERVER_SPACE = "rote.server"
_NONCE, _GRANT = "nonce", "grant"
_SECOND = 1_000_000


def open_server_space(port: Port, *, create: bool = True) -> "ServerSpace":
    """Return the server's space of a store; it is made when there is none, or NotFound."""
    library = port.for_caller(Caller(is_library=True))
    return ServerSpace(library, library.answer("", FindSpace(SERVER_SPACE, create)))


class ServerSpace:
    """The server's space. Any thread may ask."""

    def __init__(self, library: Port, info: SpaceInfo) -> None:
        self.did = info.did
        self._port = library
        self._space = Space(library, info, turns=threading.RLock())
        # Tokens by their ids as of a version, with the mark of the store before that was read.
        self._known: tuple[bytes | None, int, dict[str, TokenRecord]] | None = None
        self._noted = 0
        self._swept = {_NONCE: "", _GRANT: ""}  # where the last sweep ended

    def mark(self) -> bytes | None:
        """Return the mark of the store: what was read after it is current while it is the same."""
        return self._port.open_store.mark()

    # -- named tokens ------------------------------------------------------------------------------

    def token(self, id: str) -> TokenRecord | None:
        """Return the record of a token by its id, as it is now."""
        mark, known = self.mark(), self._known
        if known is None or mark is None or known[0] != mark:
            version = self._port.answer(self.did, GetHead()).version
            if known is None or known[1] != version:
                records = {record.id: record for record in self.tokens(version)}
            else:
                records = known[2]
            known = self._known = (mark, version, records)
        return known[2].get(id)

    def tokens(self, version: int | None = None) -> list[TokenRecord]:
        """Return all tokens, by name; one whose record is not exactly one is no token."""
        view = self._space if version is None else self._space.at(version)
        found = []
        for state in view.scan(PREFIX) if version != 0 else ():
            try:
                found.append(parse_record(state.id, state.value))
            except InvalidInput:
                continue
        return found

    def create_token(
        self, name: str, bound: TokenRight, *, now: int, expires: int | None, ids: IdSource
    ) -> tuple[str, TokenRecord]:
        """Return a new token, which nobody can be told again, and its record."""
        text, record = make_token(
            name, bound, now=now, expires=expires, random_bytes=ids.random_bytes
        )
        count = sum(1 for _ in self._space.scan(PREFIX))
        if count >= TOKENS_MAX:
            raise LimitExceeded("the number of tokens", size=count + 1, limit=TOKENS_MAX)
        id = PREFIX + name
        try:
            self._space.transact(
                [{"op": "set", "id": id, "value": record.to_dict()}],
                reads=[{"id": id, "version": 0}],
            )
        except Conflict:
            raise InvalidInput(f"the name {name} was used before; take another") from None
        return text, record

    def revoke_token(self, name: str) -> None:
        """End a token; NotFound when there is none of that name that is still good."""
        id = PREFIX + name

        def revoke() -> None:
            state = self._space.read(id)
            try:
                record = parse_record(id, state.value)
            except InvalidInput:
                record = None
            if record is None or record.revoked:
                raise NotFound(f"there is no token {name!r:.80}")
            value = {**record.to_dict(), "revoked": True}
            self._space.transact(
                [{"op": "set", "id": id, "value": value}],
                reads=[{"id": id, "version": state.version}],
            )

        self._space.retry(revoke)

    # -- nonces ------------------------------------------------------------------------------------

    def note_nonce(self, did: str, nonce: str, *, expires: int, now: int) -> bool:
        """Note that a nonce was used; False when it was before. Times are in seconds."""
        self._noted += 1
        if self._noted % NONCES_BETWEEN_SWEEPS == 0:
            self._sweep(_NONCE, now)
        try:
            self._port.answer(self.did, PutSide(_NONCE, f"{did}:{nonce}", {"expires": expires}, 0))
        except Denied as error:
            if "actual_fence" not in error.details:
                raise  # the store cannot be written
            return False
        return True

    # -- grants ------------------------------------------------------------------------------------

    def create_grant(
        self, did: str, proofs: list[Any], *, now: int, seconds: int, ids: IdSource
    ) -> tuple[str, str]:
        """Return a new grant and when it ends; `now` is in seconds."""
        self._sweep(_GRANT, now)
        text = grant_text(ids.random_bytes)
        expires = second_text((now + seconds) * _SECOND)
        body = {"principal": did, "proofs": proofs, "expires": expires}
        self._port.answer(self.did, PutSide(_GRANT, sha256_hex(text.encode()), body, 0))
        return text, expires

    def grant(self, hash: str) -> SideRow | None:
        return self._port.answer(self.did, GetSide(_GRANT, hash))

    def end_grant(self, hash: str) -> None:
        row = self.grant(hash)
        if row is not None:
            self._port.answer(self.did, DropSide(_GRANT, hash, row.fence))

    def _sweep(self, kind: str, now: int) -> None:
        """Drop rows that have ended, among the next so many."""
        page = self._port.answer(self.did, ListSides(kind, self._swept[kind], PAGE_MAX))
        over = tuple((row.key, row.fence) for row in page.rows if _is_over(row, now))
        if over:
            self._port.answer(self.did, DropSides(kind, over))
        self._swept[kind] = page.next or ""


def _is_over(row: SideRow, now: int) -> bool:
    expires = row.body.get("expires") if type(row.body) is dict else None
    if type(expires) is int:
        return expires + SIGNED_AHEAD_SECONDS < now
    return type(expires) is str and expires < second_text(now * _SECOND)

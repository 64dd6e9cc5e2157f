"""Rules for the rows of sessions when an entity is erased or they grow old; declared at wiring."""

from collections.abc import Callable

from msgspec import structs

from rote.contract import Erased, SideRow
from rote.errors import Busy
from rote.sessions.rows import SESSION, VERDICT, session_in, verdict_in
from rote.values import Json
from rote.values.session_limits import SESSION_SECONDS

Side = Callable[[str, str], SideRow | None]
_MICROS = 1_000_000


class _Rule:
    """The rules of both kinds: they live with one store and pin nothing."""

    travels = False
    is_final = False

    def erased(self, row: SideRow, erased: Erased) -> Json | None:
        return None

    def pinning(self, row: SideRow, *, before: int, now: int, side: Side) -> Busy | None:
        return None


class SessionRule(_Rule):
    """Implements contract.SideRule for sessions."""

    kind = SESSION

    def is_over(self, row: SideRow, *, now: int, side: Side) -> bool:
        return is_expired(row, now)


class VerdictRule(_Rule):
    """Implements contract.SideRule for verdicts."""

    kind = VERDICT

    def erased(self, row: SideRow, erased: Erased) -> Json | None:
        """Drop the digest of a commit that wrote an erased entity, or would have: nobody knows which
        entities a rejected one named."""
        verdict = verdict_in(row)
        if verdict.payload is None:
            return None
        if verdict.is_accepted and not erased.has_written(verdict.version):
            return None
        return structs.replace(verdict, payload=None).body()

    def is_over(self, row: SideRow, *, now: int, side: Side) -> bool:
        session = side(SESSION, row.key.partition(":")[0])
        return session is None or is_expired(session, now)


def is_expired(row: SideRow, now: int) -> bool:
    """Whether nobody has touched a session for so long that it is over."""
    return session_in(row).touched + SESSION_SECONDS * _MICROS < now


SIDE_RULES = (SessionRule(), VerdictRule())

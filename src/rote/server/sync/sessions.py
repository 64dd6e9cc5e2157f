"""All sessions of a server process: how many there are, and whether each may still be open."""

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from rote.access.refusals import unauthenticated
from rote.errors import Denied, NotFound, RoteError, SessionRevoked, Unavailable
from rote.server.sync.decisions import check_may_read
from rote.server.sync.session import Session
from rote.values.session_limits import SESSION_LOOK_SECONDS
from rote.values.sync_limits import SYNC_RIGHTS_SECONDS, SYNC_SESSIONS_MAX

if TYPE_CHECKING:
    from rote.server.application import Application
    from rote.server.sync.connection import Connection


class Sessions:
    """The open sessions. They live on the event loop."""

    def __init__(self, app: "Application") -> None:
        self._app = app
        self._connections: dict[Session, Connection] = {}
        self._counts: Counter[tuple[str, str]] = Counter()  # by principal and space
        self._holders: dict[tuple[str, str], Session] = {}  # by space and id: who decides here

    @property
    def count(self) -> int:
        return len(self._connections)

    def add(self, session: Session, connection: "Connection") -> None:
        """Count a session; Unavailable when its principal has too many on the space."""
        place = session.opener.principal.name, session.space
        if self._counts[place] >= SYNC_SESSIONS_MAX:
            raise Unavailable(
                "you have as many sessions on the space as one may have; close one",
                code="too_many_requests",
            )
        self._counts[place] += 1
        self._connections[session] = connection

    def hold(self, session: Session) -> None:
        """Note that a session was opened; whoever had it here before is out at once."""
        decisions = session.decisions
        if decisions is None:
            return
        place = session.space, decisions.sitting.session
        before = self._holders.get(place)
        last = before is not None and before.decisions is not None and before.decisions.sitting
        loser = session if last and last.opens > decisions.sitting.opens else before
        if loser is not session:
            self._holders[place] = session
        connection = None if loser is None else self._connections.get(loser)
        if connection is not None:
            connection.revoke(SessionRevoked("this session was taken over"))

    def remove(self, session: Session) -> None:
        if self._connections.pop(session, None) is not None:
            self._counts[session.opener.principal.name, session.space] -= 1
            self._counts += Counter()  # drops those without a session
        if session.decisions is not None:
            place = session.space, session.decisions.sitting.session
            if self._holders.get(place) is session:
                del self._holders[place]

    async def watch_over(self) -> None:
        """End sessions whose credential has ended, whose principal may not read any more, or that were
        opened again at another server."""
        rounds = 0
        while True:
            await asyncio.sleep(SYNC_RIGHTS_SECONDS)
            rounds += 1
            open_now = list(self._connections)
            if not open_now:
                continue
            looks = rounds % round(SESSION_LOOK_SECONDS / SYNC_RIGHTS_SECONDS) == 0
            ended = await self._app.long_pool.run(self.ended, open_now, looks, is_begun=True)
            for session, error in ended:
                connection = self._connections.get(session)
                if connection is not None:
                    connection.revoke(error)

    def ended(
        self, sessions: list[Session], looks_at_rows: bool
    ) -> list[tuple[Session, Exception]]:
        """Return the sessions that may not be open, each with why; runs on a thread."""
        found: list[tuple[Session, Exception]] = []
        for session in sessions:
            try:
                self._check(session)
                if looks_at_rows and session.decisions is not None:
                    session.decisions.sitting.is_told()
            except (NotFound, Denied) as error:
                found.append((session, error))
            except RoteError:
                continue  # its rules cannot be read now; every call and step finds that, too
            except Exception as error:
                found.append((session, error))  # a bug; nobody knows whether it may go on
        return found

    def _check(self, session: Session) -> None:
        if not self._app.authentication.is_good(session.opener):
            raise unauthenticated("token")
        check_may_read(session.port)

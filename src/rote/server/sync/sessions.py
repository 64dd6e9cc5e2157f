"""All sessions of a server process: how many there are, and whether each may still be open."""

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from rote.errors import Denied, NotFound, RoteError, Unavailable
from rote.server.sync.session import Session
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

    def remove(self, session: Session) -> None:
        if self._connections.pop(session, None) is not None:
            self._counts[session.opener.principal.name, session.space] -= 1
            self._counts += Counter()  # drops those without a session

    async def watch_over(self) -> None:
        """End sessions whose credential has ended, or whose principal may not read any more."""
        while True:
            await asyncio.sleep(SYNC_RIGHTS_SECONDS)
            open_now = list(self._connections)
            if not open_now:
                continue
            try:
                ended = await self._app.long_pool.run(self.ended, open_now, is_begun=True)
            except RoteError:
                continue  # the rules cannot be read now; every call and step finds that, too
            for session, is_known in ended:
                connection = self._connections.get(session)
                if connection is not None:
                    connection.revoke(is_known=is_known)

    def ended(self, sessions: list[Session]) -> list[tuple[Session, bool]]:
        """Return the sessions that may not be open, each with whether its credential is still good.

        Runs on a thread.
        """
        found = []
        for session in sessions:
            is_known = self._app.authentication.is_good(session.opener)
            if not is_known or not may_read(session):
                found.append((session, is_known))
        return found


def may_read(session: Session) -> bool:
    """Whether the principal of a session holds any right to read its space."""
    try:
        session.port.look(session.space).held_for("watch", "read")
    except (NotFound, Denied):
        return False
    return True

"""The sessions of one store: they are begun here, and end with it."""

from collections.abc import Mapping
from os import PathLike
from typing import Any
from weakref import WeakSet

from rote.contract import IdSource
from rote.contract.links import Linker
from rote.errors import InvalidInput, Unavailable
from rote.sessions.again import Again
from rote.sessions.exchange import Exchange
from rote.sessions.replica import Replica
from rote.sessions.session import Session
from rote.space import Space
from rote.space.arguments import check_timeout
from rote.space.sources import port_of


class StoreSessions:
    """Implements space.sessions.Sessions."""

    def __init__(self, linker: Linker, *, randomness: IdSource) -> None:
        self._linker = linker
        self._randomness = randomness
        self._open: WeakSet[Session] = WeakSet()

    def begin(
        self,
        space: Space,
        *,
        watch: Mapping[str, Any] | None,
        journal: str | PathLike[str] | None,
        timeout: float,
    ) -> Session:
        check_timeout(timeout)
        if watch is not None or journal is not None:
            raise InvalidInput("sessions have no watch and no journal yet; leave them out")
        replica = Replica(port_of(space), space.did)
        exchange = Exchange(replica, self._linker, name=space.name, randomness=self._randomness)
        again = Again(replica, name=space.name)
        session = Session(space, replica, exchange, again, timeout=timeout, branch=space.branch)
        exchange.start()
        try:
            if not replica.await_begin(timeout):
                raise replica.last_failure or Unavailable(
                    "the store has not answered in time", code="timeout"
                )
        except BaseException:
            session.close()
            raise
        self._open.add(session)
        return session

    def close(self) -> None:
        for session in list(self._open):
            session.close()

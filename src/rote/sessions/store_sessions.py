"""The sessions of one store: they are begun here, and end with it."""

from collections.abc import Mapping
from os import PathLike
from typing import Any
from weakref import WeakSet

from rote.contract import Clock, IdSource
from rote.contract.links import Linker
from rote.errors import InvalidInput, Unavailable
from rote.sessions.again import Again
from rote.sessions.exchange import Exchange
from rote.sessions.held import parse_watches
from rote.sessions.replica import Replica
from rote.sessions.session import Session
from rote.space import Space
from rote.space.arguments import check_timeout
from rote.space.sources import port_of


class StoreSessions:
    """Implements space.sessions.Sessions."""

    def __init__(self, linker: Linker, *, randomness: IdSource, clock: Clock | None = None) -> None:
        """clock  of this client, where the store is behind a server; None: it is in this process"""
        self._linker = linker
        self._randomness = randomness
        self._clock = clock
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
        if journal is not None:
            raise InvalidInput("sessions have no journal yet; leave it out")
        replica = Replica(
            port_of(space),
            space.did,
            watches=parse_watches(watch, space.branch),
            clock=self._clock,
            is_remote=self._clock is not None,
        )
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

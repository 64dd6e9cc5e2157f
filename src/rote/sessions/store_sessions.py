"""The sessions of one store: they are begun here, and end with it."""

from collections.abc import Mapping
from os import PathLike
from typing import Any

from rote.contract import Clock, IdSource
from rote.contract.links import Linker
from rote.errors import InvalidInput, Unavailable
from rote.sessions.again import Again
from rote.sessions.exchange import Credentials, Exchange
from rote.sessions.held import parse_watches
from rote.sessions.journal import Journal
from rote.sessions.making import Making
from rote.sessions.replica import Replica
from rote.sessions.session import Session
from rote.space import Space
from rote.space.arguments import check_path, check_timeout
from rote.space.sources import port_of


class StoreSessions:
    """Implements space.sessions.Sessions."""

    def __init__(
        self,
        linker: Linker,
        *,
        randomness: IdSource,
        clock: Clock | None = None,
        server: str | None = None,
        principal: str | None = None,
    ) -> None:
        """clock      of this client, where the store is behind a server; None: it is in this process
        server     the address of the store
        principal  who calls, as far as that is known
        """
        self._linker = linker
        self._randomness = randomness
        self._clock = clock
        self._owner = {"server": server, "principal": principal}
        self._open: set[Session] = set()

    def begin(
        self,
        space: Space,
        *,
        watch: Mapping[str, Any] | None,
        journal: str | PathLike[str] | None,
        timeout: float,
    ) -> Session:
        check_timeout(timeout)
        if timeout is None:
            raise InvalidInput(
                "timeout: a session waits for a number of seconds, not for ever", key="timeout"
            )
        watches = parse_watches(watch, space.branch)
        kept = None
        if journal is not None:
            kept = Journal(check_path(journal), {**self._owner, "space": space.did})
        try:
            session = self._begin(space, watches, kept, timeout)
        except BaseException:
            if kept is not None:
                kept.close()
            raise
        self._open.add(session)
        return session

    def _begin(
        self, space: Space, watches: dict[str, Any], journal: Journal | None, timeout: float
    ) -> Session:
        replica = Replica(
            port_of(space),
            space.did,
            watches=watches,
            clock=self._clock,
            is_remote=self._clock is not None,
            journal=journal,
        )
        credentials = Credentials()
        if journal is not None:
            known = journal.read(watches)
            if known.ended is not None:
                raise known.ended
            replica.restore(known)
            credentials = Credentials(known.session, known.token)
        exchange = Exchange(
            replica,
            self._linker,
            name=space.name,
            randomness=self._randomness,
            credentials=credentials,
        )
        again = Again(replica, name=space.name)
        session = Session(
            space, Making(replica), exchange, again,
            timeout=timeout, branch=space.branch, closed=self._open.discard,
        )  # fmt: skip
        exchange.start()
        try:
            if not replica.await_begin(timeout):
                raise replica.last_failure or Unavailable(
                    "the store has not answered in time", code="timeout"
                )
        except BaseException:
            session.close()
            raise
        return session

    def close(self) -> None:
        for session in list(self._open):
            session.close()

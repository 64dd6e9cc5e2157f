"""A store behind a server, for suites: the server and the store are the test's own. Needs `server`."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from rote.client.address import address_of
from rote.client.calls import Calls
from rote.client.credentials import Token
from rote.client.links import WireLinker
from rote.client.pool import Pool
from rote.client.port import NotHere, RemotePort
from rote.contract import IdSource
from rote.kernel.kernel import TABLE
from rote.opening.sources import SystemClock, SystemIds, SystemTokens
from rote.retrieval.searching import StateSearching
from rote.runs.store_runs import StoreRuns
from rote.sessions.store_sessions import StoreSessions
from rote.space import Store
from rote.space.home import Home
from rote.testing.serving import serving
from rote.testing.sources import SeededIds
from rote.testing.stores import StoreSettings

CALL_SECONDS = 20
# To start the threads of a server, each with a connection of its own, takes longer than most tests.
THREADS = 4


class LateIds:
    """An IdSource that is another one until the server has started, which makes a space of its own."""

    def __init__(self) -> None:
        self.source: IdSource = SeededIds(-1)

    def random_bytes(self, size: int, /) -> bytes:
        return self.source.random_bytes(size)


def open_behind_server(
    settings: StoreSettings,
    open_served: Callable[[IdSource], Store],
    *,
    seconds: float = CALL_SECONDS,
    **options: Any,
) -> Store:
    """Return a store behind a server of its own; closing it ends the server and closes its store.

    open_served  opens the store that is served, with the ids that it is given
    """
    ids, ending = LateIds(), ExitStack()
    served = ending.enter_context(open_served(ids))
    options = {"author": settings.author, "threads": THREADS, **options}
    server = ending.enter_context(serving(served, **options))
    ids.source = settings.ids
    pool = Pool(address_of(server.url), now=time.monotonic)
    calls = Calls(
        pool, credentials=Token(server.token), ids=SystemIds(), seconds=seconds, now=time.monotonic
    )
    port = ServedPort(calls, served, ending, read_only=settings.read_only)
    runs = StoreRuns(
        port,
        ids=settings.ids,
        tokens=SystemTokens(),
        modes=settings.modes,
        lease_seconds=settings.lease_seconds,
        folder=settings.traces,
        read_only=settings.read_only,
    )
    return Store(
        port,
        url=server.url,
        local=NotHere(),
        create=not settings.read_only,
        read_only=settings.read_only,
        runs=runs,
        searching=StateSearching(),
        home=Home(
            settings.ids,
            verbs=port.verbs,
            sessions=StoreSessions(WireLinker(calls), randomness=SystemIds(), clock=SystemClock()),
        ),
    )


class ServedPort(RemotePort):
    """A remote port whose server ends with it."""

    def __init__(self, calls: Calls, served: Store, ending: ExitStack, *, read_only: bool) -> None:
        super().__init__(
            calls, table=TABLE, ids=SystemIds(), now=time.monotonic, read_only=read_only
        )
        self._port = served._port  # for tests that look behind the port (`kernel_of`)
        self._ending = ending

    def close(self) -> None:
        super().close()
        self._ending.close()

"""rote.aio.open and rote.aio.of: the ways to an async face."""

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, overload

from rote.aio.faces import Opening, shown
from rote.aio.hosts import Host
from rote.aio.runs import Run
from rote.aio.sessions import Pending, Session
from rote.aio.stores import Memory, Space, Store, Transaction
from rote.aio.threads import Pool, Threads, pool_of, turn_of
from rote.contract import Clock, IdSource, Port
from rote.errors import InvalidInput
from rote.opening import open as open_store
from rote.opening.engines import SCHEMA_DEFAULT
from rote.records.memory import Memory as SyncMemory
from rote.runs.run import Run as SyncRun
from rote.sessions.pending import Pending as SyncPending
from rote.sessions.pending import store_of
from rote.sessions.session import Session as SyncSession
from rote.space import Space as SyncSpace
from rote.space import Store as SyncStore
from rote.space import Transaction as SyncTransaction
from rote.space.sources import port_of, port_of_store
from rote.space.transaction_port import TransactionPort
from rote.tiers.host import Host as SyncHost
from rote.tiers.host import shared_of
from rote.values.async_limits import THREADS_DEFAULT
from rote.values.client_limits import CALL_SECONDS_DEFAULT
from rote.values.limits import LEASE_SECONDS_DEFAULT


def open(
    url: str | os.PathLike[str],
    *,
    durability: str = "fsync",
    author: str | None = None,
    modes: Iterable[str] | None = None,
    lease_seconds: float = LEASE_SECONDS_DEFAULT,
    traces: str | os.PathLike[str] | None = None,
    keys: str | os.PathLike[str] | None = None,
    schema: str = SCHEMA_DEFAULT,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    create: bool = True,
    recover: bool = True,
    read_only: bool = False,
    key: bytes | None = None,
    token: str | None = None,
    proofs: Sequence[Mapping[str, Any]] = (),
    timeout: float = CALL_SECONDS_DEFAULT,
    threads: int = THREADS_DEFAULT,
) -> Opening[Store]:
    """Open a store as rote.open does, for asyncio: `store = await rote.aio.open(…)`, or
    `async with rote.aio.open(…) as store`.

    threads  on which the calls run, at most
    """
    open_sync = partial(
        open_store,
        url,
        durability=durability,
        author=author,
        modes=modes,
        lease_seconds=lease_seconds,
        traces=traces,
        keys=keys,
        schema=schema,
        clock=clock,
        ids=ids,
        create=create,
        recover=recover,
        read_only=read_only,
        key=key,
        token=token,
        proofs=proofs,
        timeout=timeout,
    )

    async def make() -> Store:
        pool = Pool(threads)
        try:
            store = await Threads(pool).write(open_sync, SyncStore.close)
        except BaseException:
            pool.end(waits=False)
            raise
        pool_of(port_of_store(store).open_store, pool)
        return of(store)

    return Opening(make)


@overload
def of(x: SyncStore) -> Store: ...
@overload
def of(x: SyncSpace) -> Space: ...
@overload
def of(x: SyncTransaction) -> Transaction: ...
@overload
def of(x: SyncSession) -> Session: ...
@overload
def of(x: SyncPending) -> Pending: ...
@overload
def of(x: SyncMemory) -> Memory: ...
@overload
def of(x: SyncRun) -> Run: ...
@overload
def of(x: SyncHost) -> Host: ...
def of(x: Any) -> Any:
    """Return the async face of a store, space, transaction, session, pending commit, memory, run or host;
    `.sync` leads back."""
    return shown(x, _threads_of(x))


def _threads_of(x: object) -> Threads:
    if isinstance(x, SyncHost):
        shared = shared_of(x)
        return Threads(pool_of(shared)) if shared.space is None else _threads_of(shared.space)
    if isinstance(x, SyncPending):
        return Threads(pool_of(store_of(x)))
    port = _port(x)
    turn = turn_of(port) if isinstance(port, TransactionPort) else None
    return Threads(pool_of(port.open_store), turn)


def _port(x: object) -> Port:
    match x:
        case SyncStore():
            return port_of_store(x)
        case SyncSpace():
            return port_of(x)
        case SyncTransaction() | SyncSession() | SyncMemory():
            return port_of(x.space)
        case SyncRun():
            return port_of(x.memory.space)
    raise InvalidInput(f"there is no async face of {type(x).__qualname__}")

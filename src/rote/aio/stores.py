"""The async faces of stores, spaces, transactions and memories."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from io import BufferedReader
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from rote.aio.faces import (
    Block,
    Face,
    Has,
    Lists,
    OpenBlock,
    Opens,
    Reads,
    Shows,
    Writes,
    face_of,
    plain,
)
from rote.aio.threads import Threads, end, turn_of
from rote.aio.watches import FramesAhead
from rote.contract import Change, Commit, CopyReport, Tell
from rote.records.memory import Memory as SyncMemory
from rote.records.memory import Point
from rote.records.writer import Result
from rote.sessions.session import Session as SyncSession
from rote.space import Space as SyncSpace
from rote.space import Store as SyncStore
from rote.space import Transaction as SyncTransaction
from rote.space.sources import port_of

if TYPE_CHECKING:
    from rote.aio.runs import Run
    from rote.aio.sessions import Session

P = ParamSpec("P")


# What a method that returns such an object is in a table; a type checker learns the face from it.


def _space(
    function: Callable[Concatenate[Any, P], SyncSpace], *, writes: bool = False
) -> "Shows[P, Space]":
    return Shows(function, writes=writes)


def _spaces(function: Callable[Concatenate[Any, P], list[SyncSpace]]) -> "Shows[P, list[Space]]":
    return Shows(function, writes=False)


def _transaction(function: Callable[Concatenate[Any, P], Any]) -> "Opens[P, Transaction]":
    return Opens(function)


def _run(function: Callable[Concatenate[Any, P], Any]) -> "Opens[P, Run]":
    return Opens(function, calls=True)


def _session(function: Callable[Concatenate[Any, P], SyncSession]) -> "Opens[P, Session]":
    return Opens(function, undo=SyncSession.close)


def _file(function: Callable[Concatenate[Any, P], BufferedReader]) -> "Shows[P, BlobFile]":
    return Shows(function, writes=False)


@face_of(SyncStore)
class Store(OpenBlock[SyncStore]):
    """The async face of rote.Store."""

    url = Has[SyncStore, str](lambda store: store.url)
    read_only = Has[SyncStore, bool](lambda store: store.read_only)

    space = _space(SyncStore.space, writes=True)
    spaces = _spaces(SyncStore.spaces)
    backup = Writes(SyncStore.backup)
    erase_space = Writes(SyncStore.erase_space)
    receipts = Reads(SyncStore.receipts)
    add_receipt = Writes(SyncStore.add_receipt)
    runs = Reads(SyncStore.runs)
    run_origin = Reads(SyncStore.run_origin)
    recover = Writes(SyncStore.recover)

    async def copy(
        self,
        name: str,
        target: "Store | SyncStore",
        *,
        with_key: bool = False,
        progress: Tell | None = None,
    ) -> CopyReport:
        copy = partial(self.sync.copy, name, plain(target), with_key=with_key, progress=progress)
        return await self._threads.write(copy)

    async def close(self) -> None:
        await end(self._threads.pool, self.sync.close)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await end(self._threads.pool, partial(self.sync.__exit__, kind, error, trace))


@face_of(SyncSpace)
class Space(Face[SyncSpace]):
    """The async face of rote.Space."""

    did = Has[SyncSpace, str](lambda space: space.did)
    name = Has[SyncSpace, str](lambda space: space.name)
    branch = Has[SyncSpace, str](lambda space: space.branch)
    is_pinned = Has[SyncSpace, bool](lambda space: space.is_pinned)
    version = Reads(SyncSpace.version)
    oldest = Reads(SyncSpace.oldest)
    head = Reads(SyncSpace.head)
    last_change = Reads(SyncSpace.last_change)
    newest_version = Reads(SyncSpace.newest_version)
    now = Reads(SyncSpace.now)

    get = Reads(SyncSpace.get)
    read = Reads(SyncSpace.read)
    read_many = Reads(SyncSpace.read_many)
    glance = Reads(SyncSpace.glance)
    find = Lists(SyncSpace.find)
    postings = Reads(SyncSpace.postings)
    scan = Lists(SyncSpace.scan)
    scan_range = Lists(SyncSpace.scan_range)
    skip = Reads(SyncSpace.skip)
    history = Reads(SyncSpace.history)
    facts = Lists(SyncSpace.facts)
    log = Lists(SyncSpace.log)
    commit = Reads(SyncSpace.commit)
    query = Reads(SyncSpace.query)
    values = Reads(SyncSpace.values)
    written = Lists(SyncSpace.written)

    set = Writes(SyncSpace.set)
    patch = Writes(SyncSpace.patch)
    delete = Writes(SyncSpace.delete)
    transact = Writes(SyncSpace.transact)
    made = Reads(SyncSpace.made)
    settle = Writes(SyncSpace.settle)
    update = Writes(SyncSpace.update, calls=True)
    retry = Writes(SyncSpace.retry, calls=True)
    transaction = _transaction(SyncSpace.transaction)
    run = _run(SyncSpace.run)
    session = _session(SyncSpace.session)

    put_blob = Writes(SyncSpace.put_blob)
    blob = Reads(SyncSpace.blob)
    open_blob = _file(SyncSpace.open_blob)
    blob_info = Reads(SyncSpace.blob_info)

    at = _space(SyncSpace.at)
    on = _space(SyncSpace.on)
    branches = Reads(SyncSpace.branches)
    create_branch = _space(SyncSpace.create_branch, writes=True)
    delete_branch = Writes(SyncSpace.delete_branch)
    merge = Writes(SyncSpace.merge)

    acl = Reads(SyncSpace.acl)
    grant = Writes(SyncSpace.grant)
    withdraw = Writes(SyncSpace.withdraw)
    rotate = Writes(SyncSpace.rotate)
    revoke = Writes(SyncSpace.revoke)
    verify = Reads(SyncSpace.verify)
    reindex = Writes(SyncSpace.reindex)
    get_vectors = Reads(SyncSpace.get_vectors)
    put_vectors = Writes(SyncSpace.put_vectors)
    checkpoint = Writes(SyncSpace.checkpoint)
    erase = Writes(SyncSpace.erase)
    compact = Writes(SyncSpace.compact)
    gc = Writes(SyncSpace.gc)

    async def diff(self, other: "str | int | Space | SyncSpace") -> list[Change]:
        return await self._threads.read(partial(self.sync.diff, plain(other)))

    def watch(
        self,
        query: Mapping[str, Any],
        *,
        since: int | None = None,
        timeout: float | None = None,
    ) -> FramesAhead:
        begin = partial(self.sync.watch, query, since=since, timeout=timeout)
        return FramesAhead(self._threads, port_of(self.sync), self.sync.did, begin)


@face_of(SyncTransaction)
class Transaction(Block[SyncTransaction]):
    """The async face of rote.Transaction. Its calls go one at a time, also from several tasks."""

    def __init__(self, sync: SyncTransaction, threads: Threads) -> None:
        super().__init__(sync, Threads(threads.pool, turn_of(port_of(sync.space))))

    space = Has[SyncTransaction, Space](lambda tx: tx.space, is_face=True)
    version = Has[SyncTransaction, int](lambda tx: tx.version)
    commit = Has[SyncTransaction, Commit | None](lambda tx: tx.commit)

    get = Reads(SyncTransaction.get)
    read = Reads(SyncTransaction.read)
    scan = Lists(SyncTransaction.scan)
    set = Writes(SyncTransaction.set)
    patch = Writes(SyncTransaction.patch)
    delete = Writes(SyncTransaction.delete)


@face_of(SyncMemory)
class Memory(Face[SyncMemory]):
    """The async face of rote.Memory."""

    space = Has[SyncMemory, Space](lambda memory: memory.space, is_face=True)
    profile = Has[SyncMemory, str](lambda memory: memory.profile)
    namespaces = Has[SyncMemory, tuple[str, ...]](lambda memory: memory.namespaces)
    entity_id = staticmethod(SyncMemory.entity_id)
    check_namespace = Reads(SyncMemory.check_namespace)
    default_ttl = Reads(SyncMemory.default_ttl)

    put = Writes(SyncMemory.put)
    put_many = Writes(SyncMemory.put_many)
    update = Writes(SyncMemory.update)
    append = Writes(SyncMemory.append)
    delete = Writes(SyncMemory.delete)
    prune = Writes(SyncMemory.prune)
    touch = Writes(SyncMemory.touch)
    erase = Writes(SyncMemory.erase)
    get = Reads(SyncMemory.get)
    list = Reads(SyncMemory.list)
    embed = Writes(SyncMemory.embed)
    history = Reads(SyncMemory.history)
    stats = Reads(SyncMemory.stats)
    retention_report = Reads(SyncMemory.retention_report)
    capabilities = Reads(SyncMemory.capabilities)
    call = Writes(SyncMemory.call)

    async def search(
        self,
        text: str,
        *,
        limit: int = 10,
        filters: Mapping[str, Any] | None = None,
        at: Point | None = None,
        include: Iterable[str] = (),
        **scoring: Any,
    ) -> Result:
        search = partial(
            self.sync.search, text, limit=limit, filters=filters, at=at, include=include, **scoring
        )
        return await self._threads.read(search)


@face_of(BufferedReader)
class BlobFile(Block[BufferedReader]):
    """The async face of the file that open_blob returns."""

    read = Reads(BufferedReader.read)
    seek = Reads(BufferedReader.seek)
    tell = Reads(BufferedReader.tell)
    close = Writes(BufferedReader.close)

"""The async faces of hosts: their adapters, scopes, recordings and replays."""

import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any

from rote.aio.faces import Block, Face, Has, Reads, face_of, plain
from rote.aio.runs import Run
from rote.aio.threads import Threads, end
from rote.tiers.exchanges import Exchanging as SyncExchanging
from rote.tiers.host import Calls as SyncCalls
from rote.tiers.host import Host as SyncHost
from rote.tiers.host import stands_alone
from rote.tiers.registry import VERB_NAMES, VERBS
from rote.tiers.runs import RunOfScope
from rote.values import Json

Verb = Callable[..., Coroutine[Any, Any, Json]]


@face_of(SyncCalls)
class Calls(Face[SyncCalls]):
    """An adapter as an attribute of its host: await host.cache.set("a", "b", 5)."""

    def __init__(self, sync: SyncCalls, threads: Threads) -> None:
        super().__init__(sync, threads)
        self._adapter = sync._adapter

    def __getattr__(self, verb: str) -> Verb:
        call = getattr(self.sync, verb)
        ask = _ask(self._threads, self._adapter, verb)
        return lambda *args, **named: ask(partial(call, *args, **named))


def _adapter(name: str) -> Has[SyncHost, Calls]:
    return Has(lambda host: getattr(host, name), is_face=True)


@face_of(SyncHost)
class Host(Block[SyncHost]):
    """The async face of rote.Host."""

    frame = _adapter("frame")
    cache = _adapter("cache")
    memory = _adapter("memory")
    store = _adapter("store")
    sqlite = _adapter("sqlite")
    fs = _adapter("fs")
    queue = _adapter("queue")
    agent = _adapter("agent")
    capabilities = Reads(SyncHost.capabilities)

    async def call(
        self, adapter: str, verb: str, args: Sequence[Json] | Mapping[str, Json] = ()
    ) -> Json:
        ask = _ask(self._threads, adapter, verb)
        return await ask(partial(self.sync.call, adapter, verb, args))

    async def close(self) -> None:
        if stands_alone(self.sync):
            await end(self._threads.pool, self.sync.close)
        else:
            await self._threads.write(self.sync.close)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if stands_alone(self.sync):
            await end(self._threads.pool, partial(self.sync.__exit__, kind, error, trace))
        else:
            await super().__aexit__(kind, error, trace)

    def scope(
        self,
        *,
        run: "Run | RunOfScope | None" = None,
        frame: Mapping[str, Json] | None = None,
        grant: Mapping[str, Any] | None = None,
    ) -> "Host":
        return Host(self.sync.scope(run=plain(run), frame=frame, grant=grant), self._threads)

    def record(self, path: str | os.PathLike[str]) -> "Exchanging":
        return Exchanging(self, self.sync.record(path))

    def replay(self, path: str | os.PathLike[str]) -> "Exchanging":
        return Exchanging(self, self.sync.replay(path))


class Exchanging:
    """The `async with` block of host.record and host.replay."""

    def __init__(self, host: Host, sync: SyncExchanging[SyncHost]) -> None:
        self._host = host
        self._block = Block(sync, host._threads)

    async def __aenter__(self) -> Host:
        await self._block.__aenter__()
        return self._host

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._block.__aexit__(kind, error, trace)


def _ask(threads: Threads, adapter: object, verb: object) -> Verb:
    """Return how a verb is asked: one that writes is settled also when the caller is cancelled."""
    known = VERB_NAMES.get(adapter, {}) if isinstance(adapter, str) else {}
    name = known.get(verb) if isinstance(verb, str) else None
    is_read = name is not None and not VERBS[str(adapter)][name].writes
    return threads.read if is_read else threads.write

"""The async faces of runs and their events, whose tools may be coroutine functions."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Concatenate, ParamSpec

from rote.aio.faces import Block, Has, Lists, Makes, Reads, Writes, face_of
from rote.aio.stores import Memory
from rote.aio.tools import Tools
from rote.contract import Commit
from rote.runs.events import Event as SyncEvent
from rote.runs.run import Run as SyncRun
from rote.values import Json

P = ParamSpec("P")


def _event(function: Callable[Concatenate[Any, P], Any]) -> "Makes[P, Event]":
    return Makes(function)


@face_of(SyncRun)
class Run(Block[SyncRun]):
    """The async face of rote.Run."""

    run_id = Has[SyncRun, str](lambda run: run.run_id)
    workflow_id = Has[SyncRun, str](lambda run: run.workflow_id)
    policy_set_id = Has[SyncRun, str](lambda run: run.policy_set_id)
    mode = Has[SyncRun, str](lambda run: run.mode)
    validate = Has[SyncRun, str](lambda run: run.validate)
    model_config_id = Has[SyncRun, str](lambda run: run.model_config_id)
    memory_snapshot_id = Has[SyncRun, str](lambda run: run.memory_snapshot_id)
    commit_id = Has[SyncRun, str](lambda run: run.commit_id)
    state = Has[SyncRun, str](lambda run: run.state)
    discarded = Has[SyncRun, bool](lambda run: run.discarded)
    reason_code = Has[SyncRun, str | None](lambda run: run.reason_code)
    commit = Has[SyncRun, Commit | None](lambda run: run.commit)
    payload_fingerprint = Has[SyncRun, str](lambda run: run.payload_fingerprint)
    operations = Has[SyncRun, list[dict[str, Any]]](lambda run: run.operations)
    trace = Reads(SyncRun.trace)
    retrieval_trace = Reads(SyncRun.retrieval_trace)

    get = Reads(SyncRun.get)
    read = Reads(SyncRun.read)
    glance = Reads(SyncRun.glance)
    scan = Lists(SyncRun.scan)
    query = Reads(SyncRun.query)
    values = Reads(SyncRun.values)
    retrieve = Writes(SyncRun.retrieve)
    add_retrieval = Writes(SyncRun.add_retrieval)
    memory = Has[SyncRun, Memory](lambda run: run.memory, is_face=True)

    set = Writes(SyncRun.set)
    patch = Writes(SyncRun.patch)
    delete = Writes(SyncRun.delete)
    event = _event(SyncRun.event)
    output = Writes(SyncRun.output)

    def memory_of(self, **settings: Any) -> Memory:
        return Memory(self.sync.memory_of(**settings), self._threads)


@face_of(SyncEvent)
class Event(Block[SyncEvent]):
    """The async face of an event. Tools and models are functions, or coroutine functions that run on
    the caller's loop; a call has a thread of its own, so that none waits for a thread of the store."""

    id = Has[SyncEvent, str](lambda event: event.id)
    index = Has[SyncEvent, int](lambda event: event.index)
    guardrail = Writes(SyncEvent.guardrail)

    async def call(self, tool_name: str, function: Callable[..., Any], /, **args: Json) -> Json:
        tools = Tools()
        call = partial(self.sync.call, tool_name, tools.awaited(function), **args)
        return await self._threads.apart(call, tools.cancel)

    async def calls(
        self,
        calls: Sequence[tuple[str, Callable[..., Any], Mapping[str, Json]]],
        /,
        *,
        return_exceptions: bool = False,
    ) -> list[Any]:
        tools = Tools()
        asked: Any = calls
        if isinstance(calls, list | tuple):
            asked = [tools.asked(one) for one in calls]
        call = partial(self.sync.calls, asked, return_exceptions=return_exceptions)
        return await self._threads.apart(call, tools.cancel)

    async def model(self, function: Callable[..., Any], /, **args: Json) -> Json:
        tools = Tools()
        call = partial(self.sync.model, tools.awaited(function), **args)
        return await self._threads.apart(call, tools.cancel)

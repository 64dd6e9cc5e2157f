"""The tiers of a space inside a run: what they read and write is the run's.

    memory, store   the run's own reads and writes
    queue           put and ack join the commit; take gives messages of the snapshot; the rest acts at once
    agent           send_task and post_result join the commit; the rest acts at once, without files

A recording has the calls of queue and agent. A replay answers them from it, and lets what joined the commit
join it again.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from rote.contract import Guard, SideRow
from rote.errors import InvalidInput
from rote.tiers.adapters import Adapter
from rote.tiers.agent import RESULT, TARGETS, TASK, AgentTier, mismatch, no_task
from rote.tiers.grants import check_granted
from rote.tiers.memory import MemoryTier
from rote.tiers.messages import KIND, Message, Tries
from rote.tiers.queue import QueueTier, lost, put_operation
from rote.tiers.runs import ScopedRun
from rote.tiers.store import StoreTier
from rote.values import Json, canonical

# Adapters that reach the space, which the mode of a run may refuse.
SPACE_ADAPTERS = frozenset({"memory", "store", "queue", "agent"})
# Adapters whose calls a run records.
RECORDED_ADAPTERS = frozenset({"cache", "sqlite", "fs", "queue", "agent"})


@runtime_checkable
class JoiningAdapter(Protocol):
    """A tier whose writes join the commit of a run."""

    def again(self, verb: str, arguments: Mapping[str, Any], result: Any, /) -> None:
        """Let a call that a recording answered join the commit again."""


def adapters_in_run(adapters: Mapping[str, Adapter], run: ScopedRun) -> dict[str, Adapter]:
    """Return the adapters of a host as a run has them."""
    made = dict(adapters)
    for name, adapter in adapters.items():
        if isinstance(adapter, MemoryTier):
            made[name] = adapter.on(run.memory_of)
        elif isinstance(adapter, StoreTier):
            reading, writing = run.faces()
            made[name] = StoreTier(reading, writing=writing)
        elif isinstance(adapter, AgentTier):
            made[name] = RunAgentTier(adapter, run)
        elif isinstance(adapter, QueueTier) and run.is_buffered:
            made[name] = RunQueueTier(adapter, run)
        made[name].verbs = adapter.verbs  # it offers what can be called on the space
    return made


class RunQueueTier(QueueTier):
    """Queues in a buffered run."""

    def __init__(self, outer: QueueTier, run: ScopedRun) -> None:
        super().__init__(outer._space, outer._settings, ids=outer._ids, tokens=outer._tokens)
        self._starts = outer._starts  # else the first take of each run walks the queue's past
        self._run = run

    def again(self, verb: str, arguments: Mapping[str, Any], result: Any, /) -> None:
        if verb == "put":
            message = self._message(arguments["queue"], result)
            self._run.write(put_operation(message, arguments["payload"], self._settings))
        elif verb == "ack":
            message = self._message(arguments["queue"], arguments["id"])
            self._run.write({"op": "delete", "id": message.entity})

    def _put(self, queue: str, payload: Json, key: str | None) -> Json:
        if key is not None:
            raise InvalidInput(
                "put: a run makes one commit, whose key is its own; leave the key out",
                code="bad_arguments",
                argument="key",
            )
        return super()._put(queue, payload, None)

    def _keep(self, operation: Mapping[str, Any], key: str | None, call: Json) -> None:
        self._run.write(operation)

    def _ack(self, queue: str, id: str, lease: str) -> Json:
        def acknowledge(message: Message, row: SideRow, _: Tries) -> Json:
            with self._run.turn:
                if not self._is_seen(message):
                    raise lost(queue, id)
                guard = Guard(KIND, message.key, row.fence, drop=True)
                self._run.write({"op": "delete", "id": message.entity}, guard=guard)
            return {"ok": True}

        return self._held(self._message(queue, id), lease, acknowledge)

    def _is_seen(self, message: Message) -> bool:
        """Return whether the snapshot has a message, and the run has not acknowledged it."""
        return self._run.glance(message.entity).exists

    def _move(self, message: Message, tries: Tries, fence: int) -> SideRow:
        moved = super()._move(message, tries, fence)
        if tries.lease is not None:  # it is held for longer; what was acknowledged stays so
            self._run.follow(KIND, message.key, before=fence, after=moved.fence)
        return moved


class RunAgentTier(AgentTier):
    """The mailbox in a run."""

    def __init__(self, outer: AgentTier, run: ScopedRun) -> None:
        super().__init__(outer._space, None)
        self._outer = outer
        self._run = run

    def again(self, verb: str, arguments: Mapping[str, Any], result: Any, /) -> None:
        """Keep an envelope that was kept: the first under its id."""
        kind = {"send_task": TASK, "post_result": RESULT}.get(verb)
        if kind is not None and self._run.is_buffered:
            envelope = arguments["envelope"]
            with self._run.turn:
                if not self._run.glance(kind + envelope["task_id"], is_noted=True).exists:
                    self._set(kind, envelope)

    def _bridge(self, granted: Mapping[str, Json]) -> Json:
        return self._outer._bridge(granted)

    def _check_task(self, granted: Mapping[str, Json], task_id: str) -> None:
        if not self._run.is_buffered:
            super()._check_task(granted, task_id)
            return
        seen = self._run.glance(TASK + task_id, values=["/target_agent"], is_noted=True)
        if not seen.exists:
            raise no_task(task_id)
        check_granted(granted, TARGETS, seen.values[0])

    def _keep(self, kind: str, envelope: dict[str, Json]) -> bool:
        if not self._run.is_buffered:
            return super()._keep(kind, envelope)
        with self._run.turn:
            seen = self._run.glance(kind + envelope["task_id"], values=[""], is_noted=True)
            if not seen.exists:
                self._set(kind, envelope)
                return True
            if canonical(seen.values[0]) != canonical(envelope):
                raise mismatch(kind, envelope, version=seen.version)
            return False

    def _set(self, kind: str, envelope: dict[str, Json]) -> None:
        self._run.write({"op": "set", "id": kind + envelope["task_id"], "value": envelope})

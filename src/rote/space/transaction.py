"""A transaction: reads from one version, buffered writes, one commit at the end.

Reads are recorded, so the commit fails with Conflict if what was read has changed meanwhile. Reads see
the transaction's own writes:

    own set or delete    the answer depends on the transaction alone; nothing is recorded
    own patch            the answer depends on the stored value too, so the read is recorded
    scan                 the range that was really walked is recorded
"""

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from rote.contract import Commit, Port, State, View
from rote.contract.commands import GetHead, MakeCommit, Read, Scan
from rote.errors import InvalidInput, NotFound
from rote.patch import apply, encode_operations, normalize
from rote.space.arguments import check_limit
from rote.values import Json, canonical, check_entity_id, decode_canonical
from rote.values.limits import PAGE_MAX
from rote.values.names import check_prefix, check_text
from rote.values.ranges import above, prefix_end


class Transaction:
    """Reads and writes in a `with` block; an exception inside discards the writes."""

    def __init__(self, port: Port, space: str, branch: str, *, key: str | None, meta: Json) -> None:
        self._port = port
        self._space = space
        self._key = key
        self._meta = meta
        self._view = View(branch, port.answer(space, GetHead()).version)
        self._operations: list[dict[str, Any]] = []
        self._own: dict[str, list[dict[str, Any]]] = {}
        self._entities_read: dict[str, None] = {}
        self._ranges_read: list[list[str | None]] = []
        self._is_open = False  # whether its block has begun and not ended
        self._has_ended = False
        self.commit: Commit | None = None  # set at the end; None when there was nothing to write

    @property
    def version(self) -> int:
        """The version that everything is read from."""
        assert self._view.version is not None
        return self._view.version

    # -- reading -----------------------------------------------------------------------------------

    def get(self, id: str, default: Json = None) -> Json:
        state = self.read(id)
        return state.value if state.exists else default

    def read(self, id: str) -> State:
        """Return an entity with this transaction's own writes applied; with those it has version 0."""
        self._check_not_ended()
        check_entity_id(id)
        own = self._own.get(id, [])
        if own and own[0]["op"] != "patch":
            return _applied(State(id, None, False, 0, None), own)
        self._entities_read[id] = None
        return _applied(self._below(id), own)

    def scan(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None
    ) -> Iterator[State]:
        """Yield existing entities in id order, own writes included."""
        self._check_not_ended()
        check_prefix(prefix)
        if after is not None:
            check_text(after, "after")
        check_limit(limit)
        start = prefix if after is None else max(prefix, above(after))
        covered: list[str | None] = [start, start]
        self._ranges_read.append(covered)
        return self._walk(start, prefix_end(prefix), limit, covered)

    def _walk(
        self, start: str, end: str | None, limit: int | None, covered: list[str | None]
    ) -> Iterator[State]:
        own = sorted(id for id in self._own if id >= start and (end is None or id < end))
        given = 0
        for state in self._merged(self._stored(start, end), own):
            if limit is not None and given >= limit:
                return
            covered[1] = above(state.id)
            if state.exists:
                given += 1
                yield state
        if limit is None or given < limit:
            # `start` is above `end` when `after` is above the prefix: then nothing was walked.
            covered[1] = None if end is None else max(start, end)

    def _merged(self, stored: Iterator[State], own: list[str]) -> Iterator[State]:
        """Yield stored states with own writes applied, in id order."""
        waiting = list(reversed(own))
        for state in stored:
            while waiting and waiting[-1] < state.id:
                id = waiting.pop()
                yield _applied(State(id, None, False, 0, None), self._own[id])
            if waiting and waiting[-1] == state.id:
                waiting.pop()
                yield _applied(state, self._own[state.id])
            else:
                yield state
        while waiting:
            id = waiting.pop()
            yield _applied(State(id, None, False, 0, None), self._own[id])

    def _stored(self, start: str, end: str | None) -> Iterator[State]:
        after: str | None = None
        while True:
            page = self._port.answer(self._space, Scan(start, end, after, PAGE_MAX, self._view))
            yield from page.states
            if page.next is None:
                return
            after = page.next

    def _below(self, id: str) -> State:
        return self._port.answer(self._space, Read((id,), self._view))[0]

    # -- writing -----------------------------------------------------------------------------------

    def set(self, id: str, value: Json) -> None:
        # A copy, so that later changes of the caller's value do not matter.
        self._write({"op": "set", "id": id, "value": decode_canonical(canonical(value))})

    def patch(self, id: str, ops: Sequence[Mapping[str, Any]]) -> None:
        taken = decode_canonical(encode_operations(normalize(ops)))
        self._write({"op": "patch", "id": id, "ops": taken})

    def delete(self, id: str) -> None:
        self._write({"op": "delete", "id": id})

    def _write(self, operation: dict[str, Any]) -> None:
        self._check_not_ended()
        if not self._is_open:
            raise InvalidInput(
                "a transaction is written to in its block: with space.transaction() as tx: …"
            )
        id = operation["id"]
        check_entity_id(id)
        self._operations.append(operation)
        if operation["op"] == "patch":
            self._own.setdefault(id, []).append(operation)
        else:
            self._own[id] = [operation]

    # -- ending ------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        if self._is_open:
            raise InvalidInput("this transaction has begun already; begin another one")
        self._check_not_ended()
        self._is_open = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_open, self._has_ended = False, True
        if error is None and self._operations:
            command = MakeCommit(
                self._operations, self._view.branch, self._reads(), key=self._key, meta=self._meta
            )
            self.commit = self._port.answer(self._space, command)

    def _reads(self) -> list[dict[str, Any]]:
        version = self.version
        entities = [{"id": id, "version": version} for id in self._entities_read]
        ranges = [
            {"from": start, "to": end, "version": version}
            for start, end in self._ranges_read
            if start != end
        ]
        return [*entities, *ranges]

    def _check_not_ended(self) -> None:
        if self._has_ended:
            raise InvalidInput("this transaction has ended; begin another one")


def _applied(below: State, own: list[dict[str, Any]]) -> State:
    """Return a state with a transaction's own operations applied."""
    if not own:
        return below
    value, exists = below.value, below.exists
    for operation in own:
        if operation["op"] == "set":
            value, exists = operation["value"], True
        elif operation["op"] == "delete":
            value, exists = None, False
        elif not exists:
            raise NotFound(f"{below.id} does not exist; set it first", id=below.id)
        else:
            value = apply(value, operation["ops"])
    # A copy, so that changes by the caller do not reach the operations.
    return State(below.id, decode_canonical(canonical(value)), exists, 0, None)

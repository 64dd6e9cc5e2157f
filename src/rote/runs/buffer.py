"""The buffer: writes of a run that nobody sees yet, itself included.

Each is rehearsed when it comes, on the snapshot with those before it applied, so that what cannot be
applied is told at once. What was rehearsed is kept for the next ones and for nothing else.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from rote.contract import Commit, Fact, Port, Rehearsal, State, View
from rote.contract.commands import Rehearse
from rote.errors import InvalidInput, LimitExceeded
from rote.patch import encode_operations, normalize
from rote.runs.reads import ReadSet
from rote.schemas.registry import RESERVED_PREFIX
from rote.values import canonical, decode_canonical
from rote.values.limits import COMMIT_BYTES_MAX, DEPTH_MAX, OPERATIONS_MAX

# What only the commit will say: its version, its time, its hashes.
_NOT_YET: Any = None


class Own(Struct, frozen=True):
    """An entity as the run's own operations leave it."""

    state: State
    hash: str  # names it among the run's own; no hash of a fact is like it
    is_whole: bool  # nothing of the snapshot is in it
    stamps: frozenset[str]  # members that will hold the commit's time, and hold the run's now


class Buffer:
    """The operations of one run, in order. Any thread of the run may add to it."""

    def __init__(self, port: Port, space: str, view: View, *, now: int, reads: ReadSet) -> None:
        self._port = port
        self._space = space
        self._view = view
        self._now = now
        self._reads = reads
        self.lock = threading.RLock()  # for who looks first and adds then
        self._size_bytes = 0
        self._is_closed = False
        self._own: dict[str, Own] = {}
        self._schemas: dict[str, None] = {}  # those of its own that are about schemas
        self.operations: list[dict[str, Any]] = []

    def add(
        self, operations: Sequence[Mapping[str, Any]], reads: Sequence[Mapping[str, Any]] = ()
    ) -> Commit:
        """Keep operations back, all or none; what they rely on is read. The answer is a commit that
        there is not yet: what it says of its facts are what they will be, as far as is known."""
        with self.lock:
            if self._is_closed:
                raise InvalidInput("this run has ended; what comes now would be lost")
            taken = [self._taken(operation) for operation in operations]
            size = sum(len(_encoded(operation)) for operation in taken)
            self._check_size(len(self.operations) + len(taken), self._size_bytes + size)
            ids = [id for each in taken if type(id := each.get("id")) is str]
            own = {id: self._own[id].state for id in (*ids, *self._schemas) if id in self._own}
            command = Rehearse(taken, own, self._now, self._view)
            rehearsed = self._port.answer(self._space, command)
            for read in reads:
                if "id" in read:
                    self.rely_on(read["id"], read.get("path"))
            facts = [
                self._keep(operation, rehearsal, index)
                for index, (operation, rehearsal) in enumerate(zip(taken, rehearsed, strict=True))
            ]
            self._size_bytes += size
        return Commit(
            version=_NOT_YET,
            hash=_NOT_YET,
            previous=None,
            branch=self._view.branch,
            facts=tuple(facts),
            at=_NOT_YET,
            author=None,
            key=None,
            meta_data=None,
            event=None,
        )

    def close(self) -> None:
        """Nothing comes any more: what another thread is about to add is in it, or refused."""
        with self.lock:
            self._is_closed = True

    def own(self, id: str) -> Own | None:
        with self.lock:
            return self._own.get(id)

    def rely_on(self, id: str, path: str | None = None) -> None:
        """Note that a write depends on an entity of the snapshot, if it shows through."""
        own = self.own(id)
        if own is None or not own.is_whole:
            self._reads.add_entity(id, path)

    def written(self) -> set[str]:
        with self.lock:
            return set(self._own)

    def _keep(self, operation: dict[str, Any], rehearsal: Rehearsal, index: int) -> Fact:
        id = operation["id"]
        before = self._own.get(id)
        self.operations.append(operation)
        hash = f"own:{len(self.operations)}"
        is_patch = rehearsal.op == "patch"
        if is_patch:
            stamps = frozenset() if before is None else before.stamps
            added = operation.get("stamp", ())
        else:
            stamps = frozenset()
            stamp = operation.get("stamp", ())
            added = operation.get("else_stamp", stamp) if operation["op"] == "patch" else stamp
        # Whether a patch with `else` finds anything is known only when it is applied.
        is_whole = operation["op"] != "patch" or (before is not None and before.is_whole)
        self._own[id] = Own(
            structs.replace(rehearsal.after, hash=hash), hash, is_whole, stamps.union(added)
        )
        if id.startswith(RESERVED_PREFIX):
            self._schemas[id] = None
        parent = rehearsal.parent or "" if before is None else before.hash
        return Fact(id, rehearsal.op, None, None, parent, hash, _NOT_YET, index, None)

    def _taken(self, operation: Mapping[str, Any]) -> dict[str, Any]:
        """An operation of the buffer's own, whatever its sender does with it later."""
        if not isinstance(operation, Mapping):
            raise InvalidInput("an operation is an object with op and id")
        given = dict(operation)
        if given.get("op") == "patch" and "ops" in given:
            given["ops"] = decode_canonical(encode_operations(normalize(given["ops"])))
        taken: Any = decode_canonical(_encoded(given))
        if not taken.get("stamp", True):
            del taken["stamp"]
        return self._stamped_again(taken)

    def _stamped_again(self, taken: dict[str, Any]) -> dict[str, Any]:
        """A time that was never more than the run's own and is written back, as the creation time of
        a record is, will be the commit's."""
        own = self._own.get(taken["id"]) if type(taken.get("id")) is str else None
        value = taken.get("value")
        if own is None or taken.get("op") != "set" or type(value) is not dict:
            return taken
        there = own.state.value if type(own.state.value) is dict else {}
        stamp = taken.get("stamp", [])
        again = [
            pointer
            for pointer in sorted(own.stamps)
            if pointer not in stamp and _is_same(value, there, pointer)
        ]
        if not again:
            return taken
        kept = {name: None if f"/{name}" in again else each for name, each in value.items()}
        return {**taken, "value": kept, "stamp": sorted([*stamp, *again])}

    def _check_size(self, operations: int, size_bytes: int) -> None:
        if operations > OPERATIONS_MAX:
            raise LimitExceeded(
                "the number of buffered operations",
                size=operations,
                limit=OPERATIONS_MAX,
                advice="split the run",
            )
        if size_bytes > COMMIT_BYTES_MAX:
            raise LimitExceeded(
                "the buffer in bytes",
                size=size_bytes,
                limit=COMMIT_BYTES_MAX,
                advice="split the run",
            )


def _encoded(operation: dict[str, Any]) -> bytes:
    # Its value may be as deep as values can be, and the operation is around it.
    return canonical(operation, depth_max=2 * DEPTH_MAX)


def _is_same(value: dict[str, Any], there: dict[str, Any], pointer: str) -> bool:
    """Whether both have the same at a pointer of one name; others are not stamped again."""
    name = pointer[1:]
    return "/" not in name and name in value and value[name] == there.get(name)

"""The buffer: operations of a run or a transaction that nobody else sees yet.

A rehearsal applies operations to the state that is read from, with the buffered ones before them, and
finds those that cannot be applied. `add` rehearses at once; `keep` leaves it until somebody looks at
an entity that was written.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from rote.contract import Commit, Fact, Glance, Port, Rehearsal, State, View
from rote.contract.commands import GlanceAt, Rehearse
from rote.errors import InvalidInput, LimitExceeded
from rote.patch import encode_operations, find, normalize, parse_pointer
from rote.schemas.registry import RESERVED_PREFIX
from rote.values import canonical, decode_canonical
from rote.values.limits import COMMIT_BYTES_MAX, DEPTH_MAX, OPERATIONS_MAX

# What only the commit will say: its version, its time, its hashes.
_NOT_YET: Any = None


class Own(Struct, frozen=True):
    """An entity as the buffered operations leave it."""

    state: State
    hash: str  # names it among the buffered ones; no hash of a fact is like it
    is_whole: bool  # nothing of the stored state is in it
    stamps: frozenset[str]  # members that will hold the commit's time, and hold `now` meanwhile

    def glance(self, command: GlanceAt) -> Glance:
        value = self.state.value
        parts = [find(value, parse_pointer(pointer)) for pointer in command.values]
        arrays = [find(value, parse_pointer(pointer)) for pointer in command.sizes]
        return Glance(
            self.state.exists,
            0,
            self.hash,
            tuple([decode_canonical(canonical(part)) for part in parts]),
            tuple([len(array) if type(array) is list else None for array in arrays]),
        )


class Buffer:
    """Operations in order. Any thread may add to them."""

    def __init__(
        self,
        port: Port,
        space: str,
        view: View,
        *,
        now: Callable[[], int],
        note: Callable[[str, str | None], None],
        below: Callable[[str], Own | None] = lambda id: None,
    ) -> None:
        """Begin empty.

        now   returns the time that rehearsals go by, in microseconds since the epoch
        note  is told of an entity, or of a path in it, that an operation relies on
        below returns an entity that was written over the view already, and is not stored
        """
        self._port = port
        self._space = space
        self._view = view
        self._now = now
        self._note = note
        self._below = below
        self.lock = threading.RLock()  # for callers that look first and then add
        self.size_bytes = 0
        self._is_closed = False
        self._own: dict[str, Own] = {}
        self._held = 0  # how many operations were rehearsed
        self._unrehearsed: list[dict[str, Any]] = []  # the last operations, or none
        self._ids_unrehearsed: set[str] = set()
        self._schemas: dict[str, None] = {}  # ids of schemas among its own
        self.operations: list[dict[str, Any]] = []

    def add(
        self, operations: Sequence[Mapping[str, Any]], reads: Sequence[Mapping[str, Any]] = ()
    ) -> Commit:
        """Rehearse operations and keep them, all or none; note the entities that they rely on.

        The answer is a commit without version, time and hashes, because there is none yet.
        """
        with self.lock:
            self._rehearse_kept()
            taken, size = self._take(operations)
            rehearsed = self._rehearse(taken)
            for read in reads:
                if "id" in read:
                    self.rely_on(read["id"], read.get("path"))
            self.operations += taken
            facts = self._hold(taken, rehearsed)
            self.size_bytes += size
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

    def keep(self, operation: Mapping[str, Any]) -> None:
        """Keep an operation without a look at what it does."""
        with self.lock:
            taken, size = self._take([operation])
            self.operations += taken
            self._unrehearsed += taken
            self._ids_unrehearsed.add(taken[0]["id"])
            self.size_bytes += size

    @property
    def count(self) -> int:
        """The number of operations so far."""
        return len(self.operations)

    def close(self) -> None:
        """Refuse operations from now on; those of other threads are in it, or refused."""
        with self.lock:
            self._is_closed = True

    def own(self, id: str) -> Own | None:
        """Return an entity that was written; None for others."""
        with self.lock:
            if id in self._ids_unrehearsed:
                self._rehearse_kept()
            return self._own.get(id)

    def rely_on(self, id: str, path: str | None = None) -> None:
        """Note that an operation depends on an entity, unless nothing of the stored one shows."""
        own = self.own(id)
        if own is None or not own.is_whole:
            self._note(id, path)

    def written(self) -> set[str]:
        with self.lock:
            return self._ids_unrehearsed.union(self._own)

    def _take(self, operations: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], int]:
        """Return copies of operations that there is room for, and their size in bytes."""
        if self._is_closed:
            raise InvalidInput("its block has ended; what comes now would be lost")
        taken = [self._taken(operation) for operation in operations]
        size = sum([len(_encoded(operation)) for operation in taken])
        self._check_size(len(self.operations) + len(taken), self.size_bytes + size)
        return taken, size

    def _rehearse_kept(self) -> None:
        if self._unrehearsed:
            self._hold(self._unrehearsed, self._rehearse(self._unrehearsed))
            self._unrehearsed = []
            self._ids_unrehearsed.clear()

    def _rehearse(self, operations: list[dict[str, Any]]) -> Sequence[Rehearsal]:
        ids = [id for each in operations if type(id := each.get("id")) is str]
        own = {id: self._own[id].state for id in (*ids, *self._schemas) if id in self._own}
        command = Rehearse(operations, own, self._now(), self._view)
        return self._port.answer(self._space, command)

    def _hold(self, operations: list[dict[str, Any]], rehearsed: Sequence[Rehearsal]) -> list[Fact]:
        """Hold the states that rehearsed operations lead to; return their facts."""
        return [
            self._hold_one(operation, rehearsal, index)
            for index, (operation, rehearsal) in enumerate(zip(operations, rehearsed, strict=True))
        ]

    def _hold_one(self, operation: dict[str, Any], rehearsal: Rehearsal, index: int) -> Fact:
        id = operation["id"]
        before = self._own.get(id)
        self._held += 1
        hash = f"own:{self._held}"
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
        """Return a copy of an operation, so that later changes by the caller do not matter."""
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
        """Stamp again each member that holds `now` and is written back, as the creation time of a
        record is: it will hold the commit's time."""
        id = taken.get("id")
        own = (self._own.get(id) or self._below(id)) if type(id) is str else None
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
                advice="write less at once",
            )
        if size_bytes > COMMIT_BYTES_MAX:
            raise LimitExceeded(
                "the buffer in bytes",
                size=size_bytes,
                limit=COMMIT_BYTES_MAX,
                advice="write less at once",
            )


def _encoded(operation: dict[str, Any]) -> bytes:
    # Its value may be as deep as values can be, and the operation is around it.
    return canonical(operation, depth_max=2 * DEPTH_MAX)


def _is_same(value: dict[str, Any], there: dict[str, Any], pointer: str) -> bool:
    """Whether both have the same at a pointer of one name; others are not stamped again."""
    name = pointer[1:]
    return "/" not in name and name in value and value[name] == there.get(name)

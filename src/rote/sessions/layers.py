"""Layers: own commits over the confirmed state, and no more of them computed than is asked for.

    confirmed ──> layer 4 ──> layer 5 ──> layer 7        one fold: a branch over one confirmed state
                              └ a view until 5 never changes, whatever is laid over it

A new layer is added to the fold, so that a write costs the same however many wait. What a layer makes of
its entities is computed when one of them is looked at. A layer that does not apply is left out whole.
"""

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from rote.contract import State
from rote.contract.sync import Transact
from rote.errors import RoteError, Unavailable
from rote.patch import overlaps, parse_pointer
from rote.sessions.rehearsal import rehearse
from rote.space.buffer import Own
from rote.values.ranges import prefix_end

# Returns the confirmed states of entities.
Fetch = Callable[[Sequence[str]], Mapping[str, State]]
_Effect = Mapping[str, Own] | None  # None: the layer does not apply


class Layer(Struct, eq=False):
    """One own commit, as it is sent."""

    sent: Transact
    now: int  # the time that it stamps until it is integrated, microseconds since the epoch
    size_bytes: int
    ids: frozenset[str]  # that it writes
    names: tuple[int, ...]  # locals of the layers that it has seen
    was_sent: bool = False  # perhaps only on a line that is down now
    is_dead: bool = False  # it is never applied; whether the store has said so already or not

    @property
    def local(self) -> int:
        return self.sent.local

    def overlaps(self, read: Mapping[str, Any]) -> bool:
        """Whether it writes what a read of its branch has seen; never False where it does."""
        if "id" not in read:
            start, end = _span(read)
            return any(id >= start and (end is None or id < end) for id in self.ids)
        id, path = read["id"], read.get("path")
        if id not in self.ids:
            return False
        if not path:
            return True
        return any(
            operation["op"] != "patch" or "else" in operation or _touches(operation, path)
            for operation in self.sent.operations
            if operation["id"] == id
        )


def _span(read: Mapping[str, Any]) -> tuple[str, str | None]:
    if "prefix" in read:
        return read["prefix"], prefix_end(read["prefix"])
    return read["from"], read.get("to")


def _touches(operation: Mapping[str, Any], path: str) -> bool:
    stamps = [{"op": "add", "path": pointer} for pointer in operation.get("stamp", ())]
    return overlaps([*operation["ops"], *stamps], parse_pointer(path))


class Fold:
    """The layers of one branch over one confirmed state. Any thread may ask; one at a time adds.

    Who asks names the last local that it sees, so that what is added meanwhile does not matter. To add
    waits for nobody: the lock is held while the store is asked.
    """

    def __init__(self, fetch: Fetch, layers: Iterable[Layer] = ()) -> None:
        self._fetch = fetch
        self.lock = threading.RLock()
        self._layers: dict[int, Layer] = {}
        self._writers: dict[str, list[int]] = {}  # by entity the locals that write it, rising
        self._stored: dict[str, State] = {}  # confirmed states that were looked at
        self._effects: dict[int, _Effect] = {}
        for layer in layers:
            self.add(layer)

    def add(self, layer: Layer) -> None:
        """Lay a commit over all others; its local is the highest."""
        self._layers[layer.local] = layer
        for id in layer.ids:
            self._writers.setdefault(id, []).append(layer.local)

    def layer(self, local: int) -> Layer | None:
        return self._layers.get(local)

    def overlapping(self, read: Mapping[str, Any], after: int, until: int) -> list[Layer]:
        """Return the layers above a local, up to another, that write what a read has seen, in order."""
        if "id" in read:
            locals = self._writers.get(read["id"], [])
        else:
            start, end = _span(read)
            found: set[int] = set()
            for id, written in list(self._writers.items()):
                if id >= start and (end is None or id < end):
                    found.update(written)
            locals = sorted(found)
        within = locals[bisect_right(locals, after) : bisect_right(locals, until)]
        return [layer for local in within if (layer := self._layers[local]).overlaps(read)]

    def written(self, until: int) -> list[str]:
        """Return the entities that layers up to a local write."""
        return [id for id, locals in list(self._writers.items()) if locals[0] <= until]

    def own(self, id: str, until: int) -> Own | None:
        """Return an entity as the layers up to a local leave it; None when none of them has written it."""
        with self.lock:
            locals = self._writers.get(id)
            if locals is None or locals[0] > until:
                return None
            self._compute(id, until)
            return self._newest(id, until)

    def _newest(self, id: str, until: int) -> Own | None:
        locals = self._writers.get(id, [])
        for local in reversed(locals[: bisect_right(locals, until)]):
            effect = self._effects[local]
            if effect is not None:
                return effect[id]
        return None

    def _compute(self, id: str, until: int) -> None:
        """Compute what all layers do that an entity depends on, lowest first."""
        needed = self._needed(id, until)
        self._read(
            (id, local) for local in needed for id in relied_on(self._layers[local].sent.operations)
        )
        for local in needed:
            self._effects[local] = self._effect(self._layers[local])

    def _needed(self, id: str, until: int) -> list[int]:
        """Return the layers not computed yet that an entity depends on, also through others."""
        needed: set[int] = set()
        seen = {id}
        ahead = [id]
        while ahead:
            locals = self._writers.get(ahead.pop(), [])
            for local in reversed(locals[: bisect_right(locals, until)]):
                if local in self._effects:
                    break  # and so are those below it
                if local in needed:
                    continue
                needed.add(local)
                further = self._layers[local].ids - seen
                seen |= further
                ahead += further
        return sorted(needed)

    def _read(self, wanted: Iterable[tuple[str, int]]) -> None:
        """Read the confirmed states that layers may rely on, together."""
        unknown = {
            id
            for id, local in wanted
            if id not in self._stored and bisect_left(self._writers[id], local) == 0
        }
        if unknown:
            self._stored |= self._fetch(sorted(unknown))

    def _effect(self, layer: Layer) -> _Effect:
        below = layer.local - 1
        before = {id: self._newest(id, below) for id in layer.ids}
        relied = relied_on(layer.sent.operations)
        missing = [id for id in relied if before[id] is None and id not in self._stored]
        if missing:  # a layer below would have given them, and does not apply
            self._stored |= self._fetch(sorted(missing))
        states: dict[str, State] = {}
        for id, own in before.items():
            if own is not None:
                states[id] = own.state
            else:
                states[id] = self._stored[id] if id in relied else absent(id)
        try:
            made = rehearse(layer.sent.operations, states, layer.now)
        except Unavailable:
            raise
        except RoteError:
            return None
        return {
            step.after.id: _own(layer, index, step.after, before[step.after.id])
            for index, step in enumerate(made)
        }


def relied_on(operations: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the entities whose state before decides what operations do."""
    first: dict[str, str] = {}
    for operation in operations:
        first.setdefault(operation["id"], operation["op"])
    return {id for id, op in first.items() if op != "set"}


def absent(id: str) -> State:
    return State(id, None, False, 0, None)


def _own(layer: Layer, index: int, after: State, before: Own | None) -> Own:
    hash = f"own:{layer.local}.{index}"
    stamps: set[str] = set()
    if before is not None and before.stamps:
        stamps |= before.stamps
    for operation in layer.sent.operations[: index + 1]:
        if operation["id"] == after.id:
            if operation["op"] != "patch":
                stamps = set()
            stamps.update(operation.get("stamp", ()), operation.get("else_stamp", ()))
    return Own(structs.replace(after, hash=hash), hash, True, frozenset(stamps))

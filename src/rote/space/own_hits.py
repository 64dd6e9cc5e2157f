"""Searches of an index over own writes: stored hits, and hits on what was written over the state.

The store is asked once for the terms of each own write, because a search may ask for one hit after the
other.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from heapq import merge
from itertools import islice
from typing import Protocol

from msgspec import Struct, structs

from rote.contract import Hit, Port, State, View
from rote.contract.commands import Find
from rote.space.buffer import Own
from rote.values.limits import HITS_READ_FIRST, PAGE_MAX

_Pair = tuple[str, str]  # term, id


class Written(Protocol):
    """Entities that were written over a state."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """While it is held, nothing is written."""
        ...

    @property
    def count(self) -> int:
        """The number of operations so far."""
        ...

    def written(self) -> Collection[str]: ...

    def own(self, id: str) -> Own | None: ...


class _Learnt(Struct, frozen=True):
    """The terms of own writes under one index. It never changes: other threads may search too."""

    operations: int  # whose terms are known
    hashes: dict[str, str]  # by id: the write that they are of
    pairs: list[_Pair]  # in order


_NOTHING = _Learnt(0, {}, [])


class OwnHits:
    """The terms of the entities that were written."""

    def __init__(self, port: Port, space: str, view: View, writes: Written) -> None:
        self._port = port
        self._space = space
        self._view = view
        self._writes = writes
        self._learnt: dict[str, _Learnt] = {}  # by index

    def find(self, command: Find) -> tuple[Hit, ...]:
        """Answer a search with own writes in the place of what is stored."""
        learnt = self._learn(command.index)
        stored = [(hit.term, hit.id) for hit in self._stored(command, learnt.hashes)]
        found = _asked(learnt.pairs, command)
        own = (pair for pair in found if pair[1].startswith(command.within))
        both = merge(stored, own, reverse=command.descending)
        return tuple([Hit(*pair) for pair in islice(both, command.limit)])

    def _stored(self, command: Find, written: dict[str, str]) -> list[Hit]:
        """Return stored hits on entities that were not written here, as many as are asked for."""
        found: list[Hit] = []
        size = max(command.limit, HITS_READ_FIRST) if written else command.limit
        asked = structs.replace(command, view=self._view, limit=size)
        while len(found) < command.limit:
            page = self._port.answer(self._space, asked)
            found += [hit for hit in page if hit.id not in written]
            if len(page) < size:
                break
            asked = structs.replace(asked, after=page[-1])
        return found

    def _learn(self, index: str) -> _Learnt:
        """Ask for the terms of what was written since the last search."""
        with self._writes.lock:
            known = self._learnt.get(index, _NOTHING)
            operations = self._writes.count
            if known.operations == operations:
                return known
            changed: dict[str, State] = {}
            hashes = dict(known.hashes)
            for id in sorted(self._writes.written()):
                own = self._writes.own(id)
                if own is not None and hashes.get(id) != own.hash:
                    changed[id], hashes[id] = own.state, own.hash
            kept = [pair for pair in known.pairs if pair[1] not in changed]
            pairs = sorted([*kept, *self._terms(index, changed)])
            # Last: when the store cannot be asked, the next search asks it again.
            learnt = self._learnt[index] = _Learnt(operations, hashes, pairs)
            return learnt

    def _terms(self, index: str, states: dict[str, State]) -> Iterator[_Pair]:
        if not states:
            return
        asked = Find(index, limit=PAGE_MAX, view=self._view, own=states, is_own_only=True)
        while True:
            page = self._port.answer(self._space, asked)
            yield from [(hit.term, hit.id) for hit in page]
            if len(page) < PAGE_MAX:
                return
            asked = structs.replace(asked, after=page[-1])


def _asked(pairs: list[_Pair], command: Find) -> Iterator[_Pair]:
    """Yield the pairs in the range of a search, beyond the place where it goes on."""
    low = bisect_left(pairs, (command.start, ""))
    high = len(pairs) if command.end is None else bisect_left(pairs, (command.end, ""))
    if command.after is not None:
        place = (command.after.term, command.after.id)
        if command.descending:
            high = min(high, bisect_left(pairs, place))
        else:
            low = max(low, bisect_right(pairs, place))
    places = range(high - 1, low - 1, -1) if command.descending else range(low, high)
    return (pairs[place] for place in places)

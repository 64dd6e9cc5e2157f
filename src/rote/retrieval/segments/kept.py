"""Segments that the process keeps, so that a question reads only what is new.

A segment never changes, and no other has its number. What a merge has replaced is forgotten with the
next question; all of a space at once when the store meets an erasure, and all of a store when it is
closed. Nothing of it is ever written to disk.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

from msgspec import Struct

from rote.contract import OpenStore
from rote.contract.index import Note
from rote.retrieval.segments.living import Line, Living, are_ordered
from rote.retrieval.segments.segment import Segment
from rote.values.limits import (
    CHANGE_KEPT_BYTES,
    LIVING_KEPT,
    PLACE_BYTES,
    RETRIEVAL_CACHE_BYTES_MAX,
)

# The did of a space, and the name of an index.
Place = tuple[str, str]
# The version, the branch and the entity of a change.
_Name = tuple[int, int, str]


class State(Struct, frozen=True, gc=False):
    """The living rows of some segments on a line."""

    segments: tuple[Segment, ...]  # in order
    line: Line
    living: Living

    def begins(self, segments: tuple[Segment, ...], line: Line) -> bool:
        """Whether these segments begin with those here, with the same rows on the line."""
        if segments[: len(self.segments)] != self.segments:
            return False
        return line.keys() == self.line.keys() and all(
            _same_rows(each, self.line, line) for each in self.segments
        )


def _same_rows(segment: Segment, one: Line, other: Line) -> bool:
    """Whether the same rows of a segment are on two lines of the same branches."""
    last = segment.last_version
    return all(min(one[branch], last) == min(other[branch], last) for branch in one)


def names_of(changes: Sequence[Note]) -> tuple[_Name, ...]:
    return tuple([(each.version, each.branch, each.id) for each in changes])


class Pending(Struct, frozen=True, gc=False):
    """Changes that no segment of the store has yet, and the segments made of them here.

    Only their names are kept: notes hold whole texts. In an open store a name is that of one
    change until something is erased, and then all this is forgotten.
    """

    changes: tuple[_Name, ...] = ()
    segments: tuple[Segment, ...] = ()

    def begins(self, changes: Sequence[Note]) -> bool:
        """Whether these changes begin with those here."""
        return self.changes == names_of(changes[: len(self.changes)])


class Kept(Struct, frozen=True, gc=False):
    """All that is kept of one index."""

    segments: Mapping[int, Segment]  # by number
    pending: Pending = Pending()
    alone: tuple[State, ...] = ()  # of the segments, the last used first
    whole: tuple[State, ...] = ()  # of these with the pending ones

    @property
    def size_bytes(self) -> int:
        """Return roughly the memory that this takes."""
        kept = (*self.segments.values(), *self.pending.segments)
        size = PLACE_BYTES + CHANGE_KEPT_BYTES * len(self.pending.changes)
        return size + sum(segment.size_bytes for segment in kept)


def state_of(known: Sequence[State], segments: tuple[Segment, ...], line: Line) -> State:
    """Return the living rows of segments: those that are known, with what is new."""
    found = [each for each in known if each.begins(segments, line)]
    best = max(found, key=lambda each: len(each.segments), default=None)
    if best is None or not best.segments:
        return State(segments, line, Living.of(segments, line))
    count = len(best.segments)
    if count == len(segments):
        return best
    if not are_ordered(segments[count - 1 :]):
        return State(segments, line, Living.of(segments, line))
    return State(segments, line, best.living.extended(segments[count:], line))


def put_first(states: Sequence[State], state: State) -> tuple[State, ...]:
    """Return states with one more at the front, without those of segments that are gone."""
    there = frozenset(state.segments)
    others = (each for each in states if each is not state and there.issuperset(each.segments))
    return (state, *others)[:LIVING_KEPT]


class _Entry(Struct, frozen=True):
    kept: Kept
    size_bytes: int
    used: int  # grows from use to use


class _Shelf:
    """The entries of one store, the last used last."""

    def __init__(self) -> None:
        self.entries: OrderedDict[Place, _Entry] = OrderedDict()
        self.size_bytes = 0

    @property
    def first(self) -> Place:
        return next(iter(self.entries))

    def put(self, place: Place, entry: _Entry) -> None:
        self.drop(place)
        self.entries[place] = entry
        self.size_bytes += entry.size_bytes

    def drop(self, place: Place) -> None:
        entry = self.entries.pop(place, None)
        if entry is not None:
            self.size_bytes -= entry.size_bytes


class SegmentCache:
    """Keeps segments of the indexes that were asked last, as long as their stores are open."""

    def __init__(self, size_bytes_max: int = RETRIEVAL_CACHE_BYTES_MAX) -> None:
        self._size_bytes_max = size_bytes_max
        self.begin()

    def begin(self) -> None:
        """Begin empty, with a lock that nobody holds."""
        self._lock = threading.Lock()
        self._shelves: WeakKeyDictionary[OpenStore, _Shelf] = WeakKeyDictionary()
        self._uses = 0

    @property
    def size_bytes(self) -> int:
        return sum(shelf.size_bytes for shelf in self._shelves.values())

    def get(self, open_store: OpenStore, place: Place) -> Kept:
        """Return what is kept; of a place that is new, nothing."""
        with self._lock:
            shelf = self._shelves.get(open_store)
            if shelf is None:
                shelf = self._shelves[open_store] = _Shelf()
                open_store.register(self.forget)
            entry = shelf.entries.get(place)
            return self._put(shelf, place, Kept({})) if entry is None else entry.kept

    def put(self, open_store: OpenStore, place: Place, kept: Kept, *, before: Kept) -> None:
        """Keep this in place of what was got before, and drop what was used least until all fits.

        Nothing is kept when the place has changed or was forgotten since: this may hold erased words.
        """
        with self._lock:
            shelf = self._shelves.get(open_store)
            entry = None if shelf is None else shelf.entries.get(place)
            if shelf is not None and entry is not None and entry.kept is before:
                self._put(shelf, place, kept)

    def forget(self, open_store: OpenStore, space: str | None) -> None:
        """Forget all that is kept of a space of a store, or of all its spaces."""
        with self._lock:
            shelf = self._shelves.get(open_store)
            if shelf is not None:
                for place in [each for each in shelf.entries if space in (None, each[0])]:
                    shelf.drop(place)

    def _put(self, shelf: _Shelf, place: Place, kept: Kept) -> Kept:
        """Put an entry. It stays, however large it is, or each question would read all of it again."""
        self._uses += 1
        shelf.put(place, _Entry(kept, kept.size_bytes, self._uses))
        while self.size_bytes > self._size_bytes_max:
            shelves = [each for each in self._shelves.values() if each.entries]
            oldest = min(shelves, key=lambda each: each.entries[each.first].used)
            if oldest.entries[oldest.first].kept is kept:
                break
            oldest.drop(oldest.first)
        return kept


SEGMENTS = SegmentCache()
# In a child, the thread that held the lock at the fork does not exist.
os.register_at_fork(after_in_child=SEGMENTS.begin)

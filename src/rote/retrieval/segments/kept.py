"""Segments that the process keeps, so that a question reads only what is new.

A segment never changes, and no other has its number. What a merge or an erasure has replaced is
forgotten with the next question. Nothing of it is ever written to disk.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from msgspec import Struct

from rote.contract.index import Change
from rote.retrieval.segments.living import Line, Living, are_ordered
from rote.retrieval.segments.segment import Segment
from rote.values.limits import LIVING_KEPT, RETRIEVAL_CACHE_BYTES_MAX

# A space, and an index in it.
Place = tuple[str, str]


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


class Pending(Struct, frozen=True, gc=False):
    """Changes that no segment of the store has yet, and the segments made of them here."""

    changes: tuple[Change, ...] = ()
    segments: tuple[Segment, ...] = ()


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
        return sum(segment.size_bytes for segment in kept)


_NOTHING = Kept({})


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


class SegmentCache:
    """Keeps segments of the indexes that were asked last."""

    def __init__(self, size_bytes_max: int = RETRIEVAL_CACHE_BYTES_MAX) -> None:
        self._size_bytes_max = size_bytes_max
        self.begin()

    def begin(self) -> None:
        """Begin empty, with a lock that nobody holds."""
        self._lock = threading.Lock()
        self._kept: OrderedDict[Place, Kept] = OrderedDict()

    def get(self, place: Place) -> Kept:
        with self._lock:
            return self._kept.get(place, _NOTHING)

    def put(self, place: Place, kept: Kept) -> None:
        """Keep this, and drop what was used least until all of it fits."""
        with self._lock:
            self._kept.pop(place, None)
            self._kept[place] = kept
            size = sum(each.size_bytes for each in self._kept.values())
            while size > self._size_bytes_max:
                _, dropped = self._kept.popitem(last=False)
                size -= dropped.size_bytes


SEGMENTS = SegmentCache()
# In a child, the thread that held the lock at the fork does not exist.
os.register_at_fork(after_in_child=SEGMENTS.begin)

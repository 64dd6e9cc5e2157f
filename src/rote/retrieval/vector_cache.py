"""Vectors that the process keeps: those of the texts of each state or file that was asked last.

Each question leaves only the vectors of texts that its store still holds. Those of a space go when
the store meets an erasure, all of a store when it is closed. The cache is bounded, and nothing in it
is ever written to disk.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping

from msgspec import Struct

from rote.contract import OpenStore
from rote.values.limits import VECTOR_CACHE_BYTES_MAX, VECTOR_ENTRY_BYTES

Vectors = Mapping[bytes, bytes]  # by the SHA-256 of the text

_NONE: Vectors = {}


class SpaceVectors(Struct, frozen=True):
    """The place of the vectors of a space, by one embedder."""

    store: OpenStore
    did: str
    name: str


class VectorCache:
    """The vectors of the places that were used last."""

    def __init__(self, size_bytes_max: int = VECTOR_CACHE_BYTES_MAX) -> None:
        self._size_bytes_max = size_bytes_max
        self.begin()

    def begin(self) -> None:
        """Begin empty, with a lock that nobody holds."""
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Vectors] = OrderedDict()
        self._size_bytes = 0

    def get(self, place: Hashable) -> Vectors:
        """Return the vectors of a place; nobody changes them."""
        with self._lock:
            if place not in self._kept:
                return _NONE
            self._kept.move_to_end(place)
            return self._kept[place]

    def put(
        self, place: Hashable, vectors: Vectors, is_right: Callable[[], bool] = lambda: True
    ) -> None:
        """Keep the vectors of a place instead of those before, unless they alone are too many, or are
        not right any more."""
        with self._lock:
            self._drop(place)
            if not vectors or _size_bytes(vectors) > self._size_bytes_max or not is_right():
                return
            self._kept[place] = vectors
            self._size_bytes += _size_bytes(vectors)
            while self._size_bytes > self._size_bytes_max:
                self._drop(next(iter(self._kept)))

    def forget(self, store: OpenStore, space: str | None) -> None:
        """Drop the vectors of a space, or of all spaces of a store."""
        with self._lock:
            kept = [place for place in self._kept if isinstance(place, SpaceVectors)]
            for place in kept:
                if place.store is store and space in (None, place.did):
                    self._drop(place)

    def _drop(self, place: Hashable) -> None:
        self._size_bytes -= _size_bytes(self._kept.pop(place, _NONE))


def _size_bytes(vectors: Vectors) -> int:
    """Return roughly the memory that vectors take; they are equally long."""
    vector = next(iter(vectors.values()), b"")
    return len(vectors) * (len(vector) + VECTOR_ENTRY_BYTES)


VECTORS = VectorCache()
# In a child, the thread that held the lock at the fork does not exist.
os.register_at_fork(after_in_child=VECTORS.begin)

"""Corpora that the process keeps, so that it does not read an unchanged store again.

A file is unchanged when its content has the same hash; dates do not count. A space is unchanged
when its head has the same hash. The corpora of a space go when the store meets an erasure, all of a
store when it is closed. The cache is bounded, and nothing in it is ever written to disk.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from msgspec import Struct

from rote.contract import OpenStore
from rote.retrieval.corpus import Corpus
from rote.values.limits import CORPUS_ROW_BYTES, CORPUS_TIMES, RETRIEVAL_CACHE_BYTES_MAX

# The number of locks. Two places that share a lock only wait for each other.
_TURNS = 64


class Kept(Struct, frozen=True):
    """A corpus that is kept."""

    hash: str
    corpus: Corpus
    content_bytes: int  # bytes that it was made of

    @property
    def size_bytes(self) -> int:
        """Return roughly the memory that the corpus takes, with everything that is later made of it."""
        rows = self.corpus.row_count + len(self.corpus.invalid)
        return CORPUS_TIMES * self.content_bytes + CORPUS_ROW_BYTES * rows


class CorpusKey(Struct, frozen=True):
    """The place of the corpus of a branch's head."""

    store: OpenStore
    did: str
    branch: str
    path: str


class CorpusCache:
    """The corpora that were used last: one for each place, with the hash of its content."""

    def __init__(self, size_bytes_max: int = RETRIEVAL_CACHE_BYTES_MAX) -> None:
        self._size_bytes_max = size_bytes_max
        self.begin()

    def begin(self) -> None:
        """Begin empty, with locks that nobody holds."""
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Kept] = OrderedDict()
        self._size_bytes = 0
        self._turns = [threading.Lock() for _ in range(_TURNS)]

    def holds(self, place: Hashable, content_bytes: int) -> bool:
        """Whether the corpus of a place was made of content of this length."""
        found = self._kept.get(place)
        return found is not None and found.content_bytes == content_bytes

    def get(self, place: Hashable, hash: str) -> Corpus | None:
        """Return the corpus of a place, if its content still has this hash."""
        with self._lock:
            found = self._kept.get(place)
            if found is None or found.hash != hash:
                return None
            self._kept.move_to_end(place)
            return found.corpus

    def last(self, place: Hashable) -> Corpus | None:
        """Return the last corpus of a place, whatever the place holds now."""
        with self._lock:
            found = self._kept.get(place)
            if found is None:
                return None
            self._kept.move_to_end(place)
            return found.corpus

    def turn(self, place: Hashable) -> threading.Lock:
        """Return the lock of a place; a thread that makes its corpus holds it, so that others wait for it."""
        return self._turns[hash(place) % _TURNS]

    def put(
        self,
        place: Hashable,
        hash: str,
        corpus: Corpus,
        content_bytes: int,
        is_right: Callable[[], bool] = lambda: True,
    ) -> None:
        """Keep a corpus, unless it alone exceeds the memory limit, or is not right any more."""
        kept = Kept(hash, corpus, content_bytes)
        with self._lock:
            self._drop(place)
            if kept.size_bytes > self._size_bytes_max or not is_right():
                return
            self._kept[place] = kept
            self._size_bytes += kept.size_bytes
            while self._size_bytes > self._size_bytes_max:
                self._drop(next(iter(self._kept)))

    def forget(self, is_forgotten: Callable[[Hashable], bool]) -> None:
        """Drop the corpora of some places."""
        with self._lock:
            for place in [place for place in self._kept if is_forgotten(place)]:
                self._drop(place)

    def forget_space(self, store: OpenStore, space: str | None) -> None:
        """Drop the corpora of a space, or of all spaces of a store."""
        self.forget(
            lambda place: (
                isinstance(place, CorpusKey) and place.store is store and space in (None, place.did)
            )
        )

    def _drop(self, place: Hashable) -> None:
        found = self._kept.pop(place, None)
        if found is not None:
            self._size_bytes -= found.size_bytes


CORPORA = CorpusCache()
# In a child, the thread that held a lock at the fork does not exist.
os.register_at_fork(after_in_child=CORPORA.begin)

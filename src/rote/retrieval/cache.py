"""Corpora that are kept inside the process, so that an unchanged store is not read again.

A file is unchanged when its content has the same hash, never because a date says so; a space when
its head has. What is kept is bounded, and nothing of it is ever written anywhere.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from msgspec import Struct

from rote.retrieval.corpus import Corpus
from rote.values.limits import CORPUS_ROW_BYTES, CORPUS_TIMES, RETRIEVAL_CACHE_BYTES_MAX

# Places whose corpora can be made at the same time; two that share a lock only wait.
_TURNS = 64


class Kept(Struct, frozen=True):
    """A corpus that is kept."""

    hash: str
    corpus: Corpus
    content_bytes: int  # that it was made of

    @property
    def size_bytes(self) -> int:
        """About as much memory as it takes, with all that is made of it later."""
        rows = self.corpus.row_count + len(self.corpus.invalid)
        return CORPUS_TIMES * self.content_bytes + CORPUS_ROW_BYTES * rows


class CorpusCache:
    """The corpora that were used last: for each place one, with the hash of its content."""

    def __init__(self, size_bytes_max: int = RETRIEVAL_CACHE_BYTES_MAX) -> None:
        self._size_bytes_max = size_bytes_max
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Kept] = OrderedDict()
        self._size_bytes = 0
        self._turns = [threading.Lock() for _ in range(_TURNS)]

    def holds(self, place: Hashable, content_bytes: int) -> bool:
        """Whether what was read at a place was as long."""
        found = self._kept.get(place)
        return found is not None and found.content_bytes == content_bytes

    def get(self, place: Hashable, hash: str) -> Corpus | None:
        """What was read at a place, if its content is still the same."""
        with self._lock:
            found = self._kept.get(place)
            if found is None or found.hash != hash:
                return None
            self._kept.move_to_end(place)
            return found.corpus

    def last(self, place: Hashable) -> Corpus | None:
        """What was read at a place last, whatever it holds now."""
        with self._lock:
            found = self._kept.get(place)
            if found is None:
                return None
            self._kept.move_to_end(place)
            return found.corpus

    def turn(self, place: Hashable) -> threading.Lock:
        """Held by who makes the corpus of a place, so that others wait for it and do not make it too."""
        return self._turns[hash(place) % _TURNS]

    def put(self, place: Hashable, hash: str, corpus: Corpus, content_bytes: int) -> None:
        """Keep a corpus, unless it alone takes more memory than there is."""
        kept = Kept(hash, corpus, content_bytes)
        with self._lock:
            self._drop(place)
            if kept.size_bytes > self._size_bytes_max:
                return
            self._kept[place] = kept
            self._size_bytes += kept.size_bytes
            while self._size_bytes > self._size_bytes_max:
                self._drop(next(iter(self._kept)))

    def forget(self, is_forgotten: Callable[[Hashable], bool]) -> None:
        """Let go of what is kept for some places."""
        with self._lock:
            for place in [place for place in self._kept if is_forgotten(place)]:
                self._drop(place)

    def _drop(self, place: Hashable) -> None:
        found = self._kept.pop(place, None)
        if found is not None:
            self._size_bytes -= found.size_bytes


CORPORA = CorpusCache()

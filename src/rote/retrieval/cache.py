"""Corpora that are kept inside the process, so that an unchanged store is not read again.

A file is unchanged when its content has the same hash, never because a date says so. What is kept
is bounded, and nothing of it is ever written anywhere.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable

from rote.retrieval.corpus import Corpus
from rote.values.limits import RETRIEVAL_CACHE_BYTES_MAX


class CorpusCache:
    """The corpora that were used last: for each place one, with the hash of its content."""

    def __init__(self, size_bytes_max: int = RETRIEVAL_CACHE_BYTES_MAX) -> None:
        self._size_bytes_max = size_bytes_max
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[str, Corpus, int]] = OrderedDict()
        self._size_bytes = 0

    def holds(self, place: Hashable) -> bool:
        return place in self._kept

    def get(self, place: Hashable, hash: str) -> Corpus | None:
        """What was read at a place, if its content is still the same."""
        with self._lock:
            found = self._kept.get(place)
            if found is None or found[0] != hash:
                return None
            self._kept.move_to_end(place)
            return found[1]

    def put(self, place: Hashable, hash: str, corpus: Corpus, size_bytes: int) -> None:
        """Keep a corpus that takes about so much memory, unless it alone is more than there is."""
        with self._lock:
            self._drop(place)
            if size_bytes > self._size_bytes_max:
                return
            self._kept[place] = (hash, corpus, size_bytes)
            self._size_bytes += size_bytes
            while self._size_bytes > self._size_bytes_max:
                self._drop(next(iter(self._kept)))

    def _drop(self, place: Hashable) -> None:
        found = self._kept.pop(place, None)
        if found is not None:
            self._size_bytes -= found[2]


CORPORA = CorpusCache()

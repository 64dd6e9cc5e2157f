"""A cache of entries of a space, bounded in bytes; the entries that were put first are dropped first.

Callers hold the lock of the open space when they change it.
"""

from collections import OrderedDict
from collections.abc import Collection

from rote.kernel.log.entries import Entry
from rote.values.limits import CACHE_BYTES_MAX

EntryKey = tuple[int, str]  # branch, entity


class EntryCache:
    """The newest entries by branch and entity, and entries of past versions."""

    def __init__(self) -> None:
        self.newest: OrderedDict[EntryKey, Entry] = OrderedDict()
        # By branch, entity and version. Only an erasure changes past entries.
        self.past: OrderedDict[tuple[int, str, int], Entry] = OrderedDict()
        self._bytes = 0

    def put(self, key: EntryKey, entry: Entry) -> None:
        old = self.newest.get(key)
        if old is not None:
            self._bytes -= old.weight
        self.newest[key] = entry
        self._bytes += entry.weigh()
        if self._bytes > CACHE_BYTES_MAX:
            self._evict()

    def put_past(self, branch: int, id: str, version: int, entry: Entry) -> None:
        if (branch, id, version) not in self.past:
            self.past[(branch, id, version)] = entry
            self._bytes += entry.weigh()
            if self._bytes > CACHE_BYTES_MAX:
                self._evict()

    def drop(self, key: EntryKey) -> None:
        entry = self.newest.pop(key, None)
        if entry is not None:
            self._bytes -= entry.weight

    def drop_entities(self, ids: Collection[str]) -> None:
        """Drop entities on all branches and at all versions."""
        for key in [key for key in self.newest if key[1] in ids]:
            self.drop(key)
        for place in [place for place in self.past if place[1] in ids]:
            self._bytes -= self.past.pop(place).weight

    def clear(self) -> None:
        self.newest.clear()
        self.past.clear()
        self._bytes = 0

    def _evict(self) -> None:
        while self._bytes > CACHE_BYTES_MAX:
            oldest = self.past if self.past else self.newest
            _, entry = oldest.popitem(last=False)
            self._bytes -= entry.weight

"""The living records of a state as a corpus, and how it follows the commits of its space.

The time of the view decides which records have expired. Where a path names a version, that is the
time of its commit, so that the same version gives the same answer at any time. For the newest state
it is the clock.

The corpus of a branch's head is kept. When the space has moved on, the log tells which records were
written since. Only these are read, and the next corpus is the last one with them in it. It equals
the corpus that reading everything would give. Where that is in doubt, everything is read: after an
erasure, after a compaction, or when too much has changed at once.
"""

from collections.abc import Collection, Iterable, Sequence
from heapq import heappop, heappush
from itertools import islice
from sys import getsizeof
from typing import TypeVar

from msgspec import Struct

from rote.contract import Commit
from rote.errors import Compacted
from rote.records.envelope import Envelope, life_of, record_of
from rote.records.keys import PREFIX
from rote.records.listing import of_newest, scan_entities
from rote.retrieval.cache import CorpusCache, CorpusKey
from rote.retrieval.corpus import COLUMNS, Corpus
from rote.retrieval.order import change_order
from rote.retrieval.spaces import Named, memory_of
from rote.space import Space
from rote.values import micros_of
from rote.values.limits import (
    RECORDS_READ_AT_ONCE,
    RETRIEVAL_DRIFT_MIN,
    RETRIEVAL_DRIFT_SHARE,
)

_ERASE = "erase"
_Item = TypeVar("_Item")


def read_state(named: Named, cache: CorpusCache) -> Corpus:
    """Return the living records of the state that a path names."""
    view = named.view
    # Only the corpus of the head is kept: that of an older version changes with later erasures.
    if view is None or named.space.version == view.version:
        found = _newest(named, cache)
        if view is None or found.is_of(view, micros_of(view.now)):
            return found
    return _read(view, named.path, micros_of(view.now))


def _newest(named: Named, cache: CorpusCache) -> "StateCorpus":
    space = named.space
    place = CorpusKey(space.open_store, space.did, space.branch, named.path)
    space.open_store.register(cache.forget_space)
    kept = of_newest(space, lambda view: _kept(view, place, cache, micros_of(space.now)))
    if kept is not None:
        return kept
    with cache.turn(place):
        return of_newest(space, lambda view: _bring_up(view, place, cache, micros_of(space.now)))


def _kept(view: Space, place: CorpusKey, cache: CorpusCache, now: int) -> "StateCorpus | None":
    last = cache.last(place)
    return last if isinstance(last, StateCorpus) and last.is_of(view, now) else None


def _bring_up(view: Space, place: CorpusKey, cache: CorpusCache, now: int) -> "StateCorpus":
    """Return the corpus of the head: the one that is kept, one that follows it, or one read anew."""
    count = place.store.count(place.did)
    last = cache.last(place)
    found = None
    if isinstance(last, StateCorpus):
        if last.is_of(view, now):
            return last
        written = _written(last, view)
        if written is None:
            # After an erasure, the corpora of other branches may still hold the record.
            cache.forget_space(place.store, place.did)
        else:
            found = last.followed(view, written, now)
    if found is None:
        found = _read(view, place.path, now)
    # What was read before an erasure may hold the erased text.
    cache.put(
        place,
        found.hash or "",
        found,
        found.size_bytes,
        lambda: place.store.count(place.did) == count,
    )
    return found


def _read(view: Space, path: str, now: int) -> "StateCorpus":
    corpus = StateCorpus(view, path, now)
    for records in _batches(scan_entities(view, PREFIX)):
        corpus.add_records(records)
    return corpus


def _written(last: "StateCorpus", view: Space) -> frozenset[str] | None:
    """Return the records that were written on the branch since; None when that is unknown.

    It is unknown when the log does not tell, when it tells too much, or after an erasure.
    """
    count, most = view.version - last.version, last.drift_max
    if not 0 <= count <= most:
        return None
    ids: set[str] = set()
    previous = last.hash
    try:
        for commit in view.log(since=last.version, limit=count):
            if commit.previous != previous:
                return None  # not the log that was read before
            previous = commit.hash
            # Other branches reach this branch only below its fork, and through merges, which write to it.
            if commit.branch == view.branch:
                ids.update(fact.id for fact in commit.facts if fact.id.startswith(PREFIX))
            if len(ids) > most or _has_erased_record(commit):
                return None
    except Compacted:
        return None
    return frozenset(ids) if previous == view.head else None


def _has_erased_record(commit: Commit) -> bool:
    event = commit.event
    if event is None or event["type"] != _ERASE:
        return False
    ids = event["ids"] if "ids" in event else (event["id"],)
    return any(id.startswith(PREFIX) for id in ids)


class StateCorpus(Corpus):
    """The corpus of one state. It never changes once it is read, since other threads may be using it.

    It shares its columns with the corpora that follow it, which add their rows at the end.
    """

    # A vocabulary pays sooner here: these corpora live long, and cost more to read.
    looked_for_min = 1

    def __init__(self, view: Space, path: str, now: int) -> None:
        super().__init__()
        self.version = view.version
        self.hash = view.head
        self.size_bytes = 0
        self._path = path
        self._now = now
        self._row_count = 0
        self._entities: list[str] = []  # one for each row
        self._drift = 0  # rows that came or went since everything was read
        # Needed by the newest corpus only; None when there is a newer one.
        self._register: _Register | None = _Register({}, [])

    def is_of(self, view: Space, now: int) -> bool:
        """Whether these are the records of a state that live at a time."""
        if (self.version, self.hash) != (view.version, view.head):
            return False
        register = self._register
        return now == self._now or (register is not None and register.holds_at(now))

    @property
    def row_count(self) -> int:
        return self._row_count

    @property
    def drift_max(self) -> int:
        """Return the number of rows that may still come or go."""
        return max(RETRIEVAL_DRIFT_MIN, self._row_count // RETRIEVAL_DRIFT_SHARE) - self._drift

    def rows(self) -> Iterable[int]:
        """Return the rows in the order of entities, which is that of a scan."""
        rows = range(self._row_count)
        if self._drift == 0:
            return rows
        there = (row for row in rows if row not in self.gone)
        return sorted(there, key=self._entities.__getitem__)

    def add_records(self, records: Iterable[tuple[str, Envelope]]) -> None:
        """Add those of the records that are living."""
        assert self._register is not None
        living = []
        for entity, record in records:
            life = life_of(record)
            if life is None:
                continue
            if life.has_expired(self._now):
                self._register.note_expired(life.expires)
                continue
            self._register.note(entity, len(self._entities), life.expires)
            self._entities.append(entity)
            living.append(memory_of(record))
        self.extend(self._path, living)
        self._row_count = len(self.ids)
        self.size_bytes += sum(getsizeof(memory.text) for memory in living)

    def followed(self, view: Space, changed: Collection[str], now: int) -> "StateCorpus | None":
        """Return the corpus of a later state or time in which these entities were written.

        Return None when so much is different, or so little is known, that everything is better read
        anew.
        """
        records: list[tuple[str, Envelope]] = []
        for entities in _batches(sorted(changed)):
            for state in view.read_many(entities):
                record = record_of(state)
                if record is not None:
                    records.append((state.id, record))
        # Nothing below can fail half way. If it did, this corpus would not be followed again.
        register, self._register = self._register, None
        if register is None or now <= register.expired:
            return None  # the clock went back, so expired records live again
        after = self._later(view, register, now)
        gone = register.take(changed) | register.take_expired(now, self._entities)
        if len(gone) + len(records) > self.drift_max:
            return None
        after.add_records(records)
        added = range(self._row_count, after._row_count)
        after.gone = self.gone | gone
        after._drift += len(gone) + len(added)
        if self._order is not None:
            after._order = change_order(self._order, after, gone=gone, added=added)
        return after

    def _later(self, view: Space, register: "_Register", now: int) -> "StateCorpus":
        """Return the same rows, as those of a later state."""
        after = StateCorpus(view, self._path, now)
        for name in (*COLUMNS, *_SHARED):
            setattr(after, name, getattr(self, name))
        after._register = register
        return after


# The attributes that a corpus shares with the one that follows it, beside the columns.
_SHARED = (
    "size_bytes", "_row_count", "_entities", "_drift", "_times", "_tags", "_vocabulary",
    "_looked_for", "encoded_drops",
)  # fmt: skip


class _Register(Struct):
    """The records that exist, and the times at which they expire."""

    rows: dict[str, int]  # by entity
    expiries: list[tuple[int, int]]  # the last instant of a row, and the row; a heap
    expired: int = 0  # the latest of the last instants of all rows left out

    def note(self, entity: str, row: int, expires: int | None) -> None:
        self.rows[entity] = row
        if expires is not None:
            heappush(self.expiries, (expires, row))

    def note_expired(self, expires: int | None) -> None:
        self.expired = max(self.expired, expires or 0)

    def holds_at(self, now: int) -> bool:
        """Whether exactly the same records have expired by then."""
        return self.expired < now and (not self.expiries or now <= self.expiries[0][0])

    def take(self, entities: Iterable[str]) -> set[int]:
        """Remove these entities, and return their rows."""
        return {self.rows.pop(entity) for entity in entities if entity in self.rows}

    def take_expired(self, now: int, entities: Sequence[str]) -> set[int]:
        """Remove records that have expired, and return their rows.

        Times never decrease along the log, so they have expired for good.
        """
        rows = set()
        while self.expiries and self.expiries[0][0] < now:
            expires, row = heappop(self.expiries)
            self.note_expired(expires)
            # The other entries are of records that were written again since, or deleted.
            if self.rows.get(entities[row]) == row:
                rows |= self.take([entities[row]])
        return rows


def _batches(items: Iterable[_Item]) -> Iterable[list[_Item]]:
    waiting = iter(items)
    return iter(lambda: list(islice(waiting, RECORDS_READ_AT_ONCE)), [])

"""The living records of a state as a corpus, and how it follows the commits of its space.

What has expired is judged by the time of the state's commit, never by a clock, so the same state
gives the same answer at any time. The corpus of a branch's head is kept. When the space has moved
on, the log says which records were written since; only these are read, and the next corpus is the
last one with them in it. It equals what reading everything gives, and whenever that is in doubt
everything is read: after an erasure, a compaction, or too much at once.
"""

from collections.abc import Collection, Iterable, Sequence
from heapq import heappop, heappush
from itertools import islice
from sys import getsizeof
from typing import TypeVar

from msgspec import Struct

from rote.contract import Commit
from rote.errors import Compacted
from rote.questions import NO_INSTANT
from rote.records.envelope import Envelope, life_of, record_of
from rote.records.keys import PREFIX
from rote.records.listing import of_newest, scan_entities
from rote.retrieval.cache import CorpusCache
from rote.retrieval.corpus import COLUMNS, Corpus
from rote.retrieval.spaces import Named, memory_of
from rote.space import Space
from rote.values import micros_of
from rote.values.limits import (
    CORPUS_TIMES,
    RECORDS_READ_AT_ONCE,
    RETRIEVAL_DRIFT_MIN,
    RETRIEVAL_DRIFT_SHARE,
)

_ERASE = "erase"
_Item = TypeVar("_Item")


class Place(Struct, frozen=True):
    """Where the corpus of a branch's head is kept."""

    store: str
    did: str
    branch: str
    path: str


def read_state(named: Named, cache: CorpusCache) -> Corpus:
    """The living records of the state that a path names."""
    if named.version is not None:
        view = named.space.at(named.version)
        # What a version has depends on what was erased later, so only that of the head is kept.
        if named.space.version == named.version:
            found = _newest(named, cache)
            if found.version == named.version:
                return found
        return _read(view, named.path)
    return _newest(named, cache)


def _newest(named: Named, cache: CorpusCache) -> "StateCorpus":
    place = Place(named.store, named.space.did, named.space.branch, named.path)
    kept = of_newest(named.space, lambda view: _kept(view, place, cache))
    if kept is not None:
        return kept
    with cache.turn(place):
        return of_newest(named.space, lambda view: _bring_up(view, place, cache))


def _kept(view: Space, place: Place, cache: CorpusCache) -> "StateCorpus | None":
    last = cache.last(place)
    return last if isinstance(last, StateCorpus) and last.is_of(view) else None


def _bring_up(view: Space, place: Place, cache: CorpusCache) -> "StateCorpus":
    """The corpus of the head: the one that is kept, one that follows it, or one read anew."""
    last = cache.last(place)
    found = None
    if isinstance(last, StateCorpus):
        if last.is_of(view):
            return last
        changes = _changes(last, view)
        if changes is not None and changes.has_erased:
            # Its other branches may hold the same content.
            cache.forget(lambda other: isinstance(other, Place) and other.did == place.did)
        elif changes is not None:
            found = last.followed(view, changes.ids)
    if found is None:
        found = _read(view, place.path)
    cache.put(place, found.hash or "", found, CORPUS_TIMES * found.size_bytes)
    return found


def _read(view: Space, path: str) -> "StateCorpus":
    corpus = StateCorpus(view, path)
    for records in _batches(scan_entities(view, PREFIX)):
        corpus.add_records(records)
    return corpus


class _Changes(Struct, frozen=True):
    """What happened to the records of a branch between two states."""

    ids: frozenset[str] = frozenset()  # of the entities that were written
    has_erased: bool = False


def _changes(last: "StateCorpus", view: Space) -> _Changes | None:
    """What happened since; None when the log does not say it, or says too much."""
    count, most = view.version - last.version, last.drift_max
    if not 0 < count <= most:
        return None
    ids: set[str] = set()
    previous = last.hash
    try:
        for commit in view.log(since=last.version, limit=count):
            if commit.previous != previous:
                return None  # another log than the one that was read
            previous = commit.hash
            if _has_erased_record(commit):
                return _Changes(has_erased=True)
            # The lines of other branches meet this one only where it began, and in its merges,
            # which write to it.
            if commit.branch == view.branch:
                ids.update(fact.id for fact in commit.facts if fact.id.startswith(PREFIX))
            if len(ids) > most:
                return None
    except Compacted:
        return None
    return _Changes(frozenset(ids)) if previous == view.head else None


def _has_erased_record(commit: Commit) -> bool:
    event = commit.event
    return event is not None and event["type"] == _ERASE and event["id"].startswith(PREFIX)


class StateCorpus(Corpus):
    """The corpus of one state. Never changes once it is read: others may be using it."""

    def __init__(self, view: Space, path: str) -> None:
        super().__init__()
        self.version = view.version
        self.hash = view.head
        self.size_bytes = 0
        self._path = path
        self._now = micros_of(view.now)
        self._entities: list[str] = []  # of each row
        self._rows: dict[str, int] = {}  # of each entity that is there
        self._expiries: list[tuple[int, int]] = []  # the last instant and the row; a heap
        self._drift = 0  # rows that came or went since everything was read

    def is_of(self, view: Space) -> bool:
        return (self.version, self.hash) == (view.version, view.head)

    @property
    def drift_max(self) -> int:
        return max(RETRIEVAL_DRIFT_MIN, len(self.ids) // RETRIEVAL_DRIFT_SHARE) - self._drift

    def rows(self) -> Iterable[int]:
        """In the order of entities, which is that of a scan."""
        if self._drift == 0:
            return super().rows()
        return map(self._rows.__getitem__, sorted(self._rows))

    def add_records(self, records: Sequence[tuple[str, Envelope]]) -> None:
        """Those of them that are living."""
        living = []
        for entity, record in records:
            life = life_of(record)
            if life is None or life.has_expired(self._now):
                continue
            row = len(self._entities)
            if life.expires is not None:
                heappush(self._expiries, (life.expires, row))
            self._rows[entity] = row
            self._entities.append(entity)
            living.append(memory_of(record))
        self.extend(self._path, living)
        self.size_bytes += sum(getsizeof(memory.text) for memory in living)

    def followed(self, view: Space, changed: Collection[str]) -> "StateCorpus | None":
        """The corpus of a later state in which these entities were written; None when so much is
        different that it is better read anew."""
        after = self._copy(view)
        gone = {after._rows.pop(entity) for entity in changed if entity in after._rows}
        gone |= after._take_expired()
        if len(gone) + len(changed) > self.drift_max:
            return None
        for entities in _batches(sorted(changed)):
            states = view.read_many(entities)
            found = [(state.id, record_of(state)) for state in states]
            after.add_records([(id, record) for id, record in found if record is not None])
        added = range(len(self.ids), len(after.ids))
        after._drift += len(gone) + len(added)
        after._empty(gone)
        if self._order is not None:
            after._order = self._order.changed(after, gone=gone, added=added)
        return after

    def _copy(self, view: Space) -> "StateCorpus":
        """The same rows, for a later state."""
        after = StateCorpus(view, self._path)
        for name in (*COLUMNS, "_entities", "_rows", "_expiries", "gone"):
            setattr(after, name, getattr(self, name).copy())
        for name in ("size_bytes", "_drift", "_times", "_tags", "_vocabulary", "_was_asked"):
            setattr(after, name, getattr(self, name))
        return after

    def _take_expired(self) -> set[int]:
        """The rows of records whose time is over. Times never decrease along the log, so it is
        over for good."""
        expired = set()
        while self._expiries and self._expiries[0][0] < self._now:
            _, row = heappop(self._expiries)
            # Others have been written again since, or deleted.
            if self._rows.get(self._entities[row]) == row:
                del self._rows[self._entities[row]]
                expired.add(row)
        return expired

    def _empty(self, rows: Collection[int]) -> None:
        """Let go of what was in rows."""
        self.gone.update(rows)
        for row in rows:
            self._entities[row] = self.ids[row] = self.hashes[row] = ""
            self.texts[row] = self.lowers[row] = ""
            self.instants[row], self.tags[row] = NO_INSTANT, ()


def _batches(items: Iterable[_Item]) -> Iterable[list[_Item]]:
    waiting = iter(items)
    return iter(lambda: list(islice(waiting, RECORDS_READ_AT_ONCE)), [])

"""What the kernel remembers of a space between calls, and how it stays true.

All entries are the newest of their line as of one version, `known`. Before a read uses them, the
engine is asked for its head; when others have committed, what they wrote is dropped first. So a
commit of another process is never missed, and an entry that is here needs no look-up. When room is
short, what came first goes first.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Container, Sequence
from typing import TypeVar

from msgspec import UNSET

from rote.engines import Contended, Reader
from rote.engines.rows import BranchRow, HeadRow, Line, SpaceRow
from rote.errors import Busy, Compacted, Corrupt, InvalidInput, VersionNotFound
from rote.kernel.log.branches import Branches
from rote.kernel.log.commit_graph import CommitGraph
from rote.kernel.log.entries import ABSENT, Entry, entry_of, load
from rote.kernel.log.events import erased_by
from rote.kernel.log.foundations import foundation_of
from rote.kernel.state.index_coverage import Coverage
from rote.schemas import REGISTRY_ID
from rote.values import check_entity_id
from rote.values.limits import (
    CACHE_BYTES_MAX,
    CACHE_CATCH_UP_MAX,
    CONTENTION_ATTEMPTS_MAX,
    INTEGER_MAX,
    PAGE_MAX,
)

_Key = tuple[int, str]  # branch, entity
_Answer = TypeVar("_Answer")


class SpaceCache:
    """The newest entries of one space, its head and its branches."""

    def __init__(self, row: SpaceRow) -> None:
        self.number = row.number
        self.did = row.did
        self.name = row.name
        self.seal = row.seal
        self.known = 0  # the version as of which the entries are the newest
        self._known_hash = b""  # of its commit
        self.oldest = 0  # the oldest version above 0 that can be read; 0 when none was compacted
        self.branches = Branches([])
        self._lock = threading.Lock()
        self._entries: OrderedDict[_Key, Entry] = OrderedDict()
        # Entries of past versions, by branch, entity and version. Only an erasure changes them.
        self._past: OrderedDict[tuple[int, str, int], Entry] = OrderedDict()
        self._bytes = 0
        self.erasures = 0  # that were met here; what was read before one may hold what it erased
        self._ready = False
        self.losses = 0  # how often the log did not lead to what was known any more
        self.blob_room = 0  # bytes that payloads may take before all of them are added up again
        self._graph = CommitGraph()
        self._graph_lock = threading.Lock()
        # Branches that are known to have no registry of schemas, as of `known`.
        self.ungoverned: set[int] = set()
        # Whether entities and keys that nothing was known of were new, when it was last tried.
        self.presumes = True
        # What is known of the indexes, by name; knowing less only costs another look.
        self.coverage: dict[str, Coverage] = {}
        # From which version on a commit looks again whether an index that was behind still is.
        self.behind_until: dict[str, int] = {}

    # -- keeping up --------------------------------------------------------------------------------

    def sync(self, reads: Reader, *, may_be_old: bool = False) -> HeadRow | None:
        """The head of the space, with the cache brought up to it. A head that may be old says
        nothing about a log that went back: then it is Contended."""
        before = self.known
        head = reads.head(self.number)
        version, hash = (0, b"") if head is None else (head.version, head.hash)
        if version != self.known or hash != self._known_hash or not self._ready:
            self._catch_up(reads, version, hash, before=before, may_be_old=may_be_old)
        return head

    def _catch_up(
        self, reads: Reader, version: int, hash: bytes, *, before: int, may_be_old: bool = False
    ) -> None:
        if self._went_back(reads, version, hash, before):
            if may_be_old:
                raise Contended()
            self._forget(is_loss=not self._is_compacted(reads))
        known, oldest = self.known, self.oldest
        # Before the events: what a compaction takes away meanwhile is then noticed below.
        changed = self._changed(reads, version)
        events = reads.events(self.number, after=known, limit=PAGE_MAX)
        erased = len(events) == PAGE_MAX or any(erased_by(row) is not None for row in events)
        # From nothing on there may be a foundation, which needs no event.
        is_same = self._ready and known > 0 and not events
        branches = None if is_same else Branches(reads.branches(self.number))
        if not is_same:
            foundation = foundation_of(reads, self.number)
            oldest = 0 if foundation is None else foundation.before
        if erased or oldest > known + 1:
            changed = None  # the log no longer says all that has changed since
        with self._lock:
            if version < self.known:
                return  # others know more by now
            if branches is not None:
                self.branches, self.oldest = branches, oldest
            self._ready = True
            if version == self.known:
                return
            if erased:
                self._met_erasure()
            if changed is None:
                self._entries.clear()
                self._past.clear()
                self._bytes = 0
                self.ungoverned.clear()
            else:
                for key in changed:
                    self._drop(key)
                self._drop_ungoverned(changed)
            self.known, self._known_hash = version, hash

    def _went_back(self, reads: Reader, version: int, hash: bytes, before: int) -> bool:
        """Whether the log no longer leads to what is known: a server that lost its last moments, or
        was replaced by one that never had them. `before` was known before the head was read."""
        with self._lock:
            known, known_hash = self.known, self._known_hash
        if version < before:
            return True
        if version == known:
            return hash != known_hash
        if version < known or known == 0:
            return False  # others know more by now
        rows = reads.commits(self.number, after=known - 1, limit=1)
        return not rows or rows[0].hash != known_hash

    def _is_compacted(self, reads: Reader) -> bool:
        """Whether the log goes on, only without the commit that is known."""
        rows = reads.commits(self.number, after=self.known - 1, limit=1)
        return bool(rows) and rows[0].version > self.known

    def _forget(self, *, is_loss: bool) -> None:
        with self._lock:
            self._entries.clear()
            self._past.clear()
            self._bytes = 0
            self.ungoverned.clear()
            self._ready = False
            self.known, self._known_hash, self.oldest = 0, b"", 0
            self.losses += is_loss
            self.coverage.clear()
            self.behind_until.clear()
        with self._graph_lock:
            self._graph = CommitGraph()

    def _changed(self, reads: Reader, version: int) -> set[_Key] | None:
        """What was written above `known`; None when it is too much to name, or not worth it."""
        if not self._entries:
            # Not an empty set: others may be filling the cache meanwhile, with what is older.
            return None
        limit = CACHE_CATCH_UP_MAX
        changed = reads.changed(self.number, after=self.known, until=version, limit=limit)
        return None if len(changed) == limit else set(changed)

    def _drop(self, key: _Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= entry.weight

    def _drop_ungoverned(self, changed: Container[_Key]) -> None:
        for number in tuple(self.ungoverned):
            if (number, REGISTRY_ID) in changed:
                self.ungoverned.discard(number)

    def committed(
        self,
        before: int,
        after: int,
        entries: dict[_Key, Entry],
        *,
        hash: bytes,
        presumed: Collection[str] = (),
        branch: BranchRow | None = None,
        erased: str | None = None,
        oldest: int | None = None,
    ) -> None:
        """Take over what a durable commit wrote: the space went from `before` to `after`, whose
        commit has `hash`, and some entities were `presumed` to be new; `branch` was made or deleted
        by it, or an entity `erased`, or `oldest` is what can be read after it."""
        with self._lock:
            # A reader may have seen the commit first and moved on; newer is never overwritten.
            if self.known not in (before, after):
                return
            for key, entry in entries.items():
                # What nobody has read or patched yet need not take up room, unless it would be
                # presumed to be new once more.
                if key in self._entries or entry.document is not UNSET or key[1] in presumed:
                    self._put(key, entry)
            if self.ungoverned:
                self._drop_ungoverned(entries)
            if branch is not None:
                self.branches.put(branch)
            if erased is not None:
                self._drop_everywhere(erased)
            if oldest is not None:
                self.oldest = oldest
            # Last: a reader that sees the new version must find no older entry.
            self.known, self._known_hash = after, hash

    def _drop_everywhere(self, id: str) -> None:
        """What was erased, on all branches and at all versions."""
        self._met_erasure()
        for key in [key for key in self._entries if key[1] == id]:
            self._drop(key)
        for place in [place for place in self._past if place[1] == id]:
            self._bytes -= self._past.pop(place).weight

    def _met_erasure(self) -> None:
        self.erasures += 1
        self.coverage.clear()  # changes that are pending may hold it

    # -- reading -----------------------------------------------------------------------------------

    def current(self, reads: Reader, branch: str, id: str) -> Entry:
        """The newest entry of one id, as of the head."""
        key = (self.branches.numbers.get(branch, 0), id)
        if key not in self._entries:
            return self._look_up(reads, branch, id)
        before = self.known
        head = reads.head(self.number)
        version, hash = (0, b"") if head is None else (head.version, head.hash)
        if version != self.known or hash != self._known_hash:
            self._catch_up(reads, version, hash, before=before)
        # Only now: what was there before the head was read may be older than it.
        entry = self._entries.get(key)
        return self._look_up(reads, branch, id) if entry is None else entry

    def presumes_new(self, branch: str, id: str) -> bool:
        """Whether an entity may be taken for one that was never written, by who has that proven."""
        number = self.branches.numbers.get(branch)
        return self.presumes and number is not None and (number, id) not in self._entries

    def _look_up(self, reads: Reader, branch: str, id: str) -> Entry:
        """The engine's newest fact is an answer by itself; a cache that is behind it catches up."""
        check_entity_id(id)
        if branch not in self.branches:
            self.sync(reads)  # others may have made it
        known, line = self.known, self.branches.line(branch)
        rows = reads.newest(self.number, (id,), line)
        try:
            entry = entry_of(reads, self.number, rows[0], line) if rows else ABSENT
        except Corrupt:
            # What it is replayed from may have been compacted away since the row was read.
            return self.steadily(
                reads, None, lambda version: load(reads, self.number, (id,), line).get(id, ABSENT)
            )
        if entry.version > known:
            self.sync(reads)
        else:
            with self._lock:
                if self.known == known:
                    self._put((line[0][0], id), entry)
        return entry

    def newest(
        self,
        reads: Reader,
        branch: str,
        ids: Collection[str],
        presume: Callable[[Sequence[str]], bool] | None = None,
    ) -> dict[str, Entry]:
        """The newest entries of `ids` as of `known`; those never written are ABSENT, and those that
        are not remembered too, without a look, where `presume` allows it."""
        known, entries = self.known, self._entries
        number = self.branches.numbers.get(branch) or self.branches.number(branch)
        found: dict[str, Entry] = {}
        missing = []
        for id in ids:
            entry = entries.get((number, id))
            if entry is None or entry.version > known:
                missing.append(id)
            else:
                found[id] = entry
        if missing:
            if presume is not None and presume(missing):
                found.update(dict.fromkeys(missing, ABSENT))
            else:
                loaded = self._load(reads, branch, missing, known)
                for id in missing:
                    found[id] = loaded.get(id, ABSENT)
        return found

    def _load(self, reads: Reader, branch: str, ids: Sequence[str], known: int) -> dict[str, Entry]:
        """What is not remembered and was ever written, and remember it."""
        line = self.branches.line(branch, known)
        loaded = load(reads, self.number, ids, line)
        if loaded:
            head = reads.head(self.number)
            is_newest = head is not None and head.version == known
            with self._lock:
                if is_newest and self.known == known:
                    number = line[0][0]
                    for id, entry in loaded.items():
                        self._put((number, id), entry)
        return loaded

    def note_ungoverned(self, branch: int, version: int) -> None:
        """A branch has none as of a version; of use only while that version is what is known."""
        with self._lock:
            if self.known == version:
                self.ungoverned.add(branch)

    def entries_at(
        self, reads: Reader, branch: str, ids: Sequence[str], version: int
    ) -> dict[str, Entry]:
        """The entries of `ids` as of a past version, at or below `known`."""
        line = self.line(reads, branch, version)
        number, erasures = line[0][0], self.erasures
        loaded = self.steadily(reads, version, lambda _: load(reads, self.number, ids, line))
        with self._lock:
            for id in ids:
                entry = loaded.setdefault(id, ABSENT)
                if self.erasures == erasures and (number, id, version) not in self._past:
                    self._past[(number, id, version)] = entry
                    self._bytes += entry.weigh()
            self._evict()
        return loaded

    def remembered(self, branch: str, id: str, version: int) -> Entry | None:
        """The entry as of a past version, when it is here; costs no engine work."""
        if not self.oldest <= version <= self.known or branch not in self.branches:
            return None
        number = self.branches.number(branch)
        entry = self._entries.get((number, id))
        if entry is not None and entry.version <= version:
            return entry
        return self._past.get((number, id, version))

    def line(self, reads: Reader, branch: str, version: int) -> Line:
        if branch not in self.branches:
            self.sync(reads)  # others may have made it
        return self.branches.line(branch, version)

    def resolve(self, reads: Reader, version: int | None) -> int:
        """The version a view means; VersionNotFound above the log, Compacted below its line."""
        if version is None:
            self.sync(reads)
            return self.known
        self.check_version(reads, version)
        return version

    def check_version(self, reads: Reader, version: int) -> None:
        if type(version) is not int or not 0 <= version <= INTEGER_MAX:
            raise InvalidInput("a version is an integer from 0 on, of 64 bits")
        if version > self.known or not self._ready:
            self.sync(reads)
        if version > self.known:
            raise VersionNotFound(version, newest=self.known)
        if 0 < version < self.oldest:
            raise Compacted(version, oldest=self.oldest)

    def steadily(
        self, reads: Reader, version: int | None, read: Callable[[int], _Answer]
    ) -> _Answer:
        """What `read` answers for a version, or for the newest. It takes several looks at the
        store; when history was compacted between them it starts over."""
        for _ in range(CONTENTION_ATTEMPTS_MAX):
            oldest = self.oldest
            resolved = self.resolve(reads, version)
            try:
                answer = read(resolved)
            except (Compacted, Corrupt):
                self.sync(reads)
                if self.oldest == oldest:
                    raise
                continue
            self.sync(reads)
            if self.oldest == oldest:
                return answer
        raise Busy("the space is compacted all the time; try again")

    def graph(self, reads: Reader) -> CommitGraph:
        """The merges up to `known`, or to what it was a moment ago."""
        # In this order: others may catch up in between, and merges must be of branches that are known.
        known, branches = self.known, self.branches
        with self._graph_lock:
            self._graph.catch_up(reads, self.number, branches, known)
        return self._graph

    # -- room --------------------------------------------------------------------------------------

    def _put(self, key: _Key, entry: Entry) -> None:
        old = self._entries.get(key)
        if old is not None:
            self._bytes -= old.weight
        self._entries[key] = entry
        self._bytes += entry.weigh()
        if self._bytes > CACHE_BYTES_MAX:
            self._evict()

    def _evict(self) -> None:
        while self._bytes > CACHE_BYTES_MAX:
            oldest = self._past if self._past else self._entries
            _, entry = oldest.popitem(last=False)
            self._bytes -= entry.weight

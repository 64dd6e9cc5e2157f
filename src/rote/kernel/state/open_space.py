"""A space that is open in this process: its state between calls, and its readers.

All cached newest entries are as of one version, `known`. Before a read uses them, a reader asks the
engine for its head. When others have committed, the entries that they wrote are dropped first. So a
read never misses a commit of another process, and needs no look-up for a cached entry.
"""

import threading
from collections.abc import Callable, Collection, Container, Mapping
from typing import Any, TypeVar

from msgspec import UNSET

from rote.engines.rows import BranchRow, SpaceRow
from rote.kernel.log.branches import Branches
from rote.kernel.log.commit_graph import CommitGraph
from rote.kernel.log.entries import Entry
from rote.kernel.state.entry_cache import EntryCache, EntryKey
from rote.kernel.state.index_coverage import Behind, Coverage, Covered
from rote.kernel.state.space_reader import SpaceReader
from rote.kernel.state.wiring import Wiring
from rote.schemas.registry import REGISTRY_ID

_Part = TypeVar("_Part")


class OpenSpace:
    """One space: its identity, its head and branches as they were last seen, and its cache."""

    def __init__(self, row: SpaceRow, wiring: Wiring) -> None:
        self.number = row.number
        self.did = row.did
        self.name = row.name
        self.seal = row.seal
        self.wiring = wiring
        self.engine = wiring.engine
        self.lock = threading.Lock()  # held to change the fields below
        self.known = 0  # the version as of which the entries are the newest
        self.known_hash = b""  # of its commit
        self.oldest = 0  # the oldest version above 0 that can be read; 0 when none was compacted
        self.is_ready = False  # whether branches and oldest are those of `known`
        self.branches = Branches([])
        self.cache = EntryCache()
        self.erasures = 0  # that were met here; values read before one may hold erased content
        self.losses = 0  # how often the log had lost commits that were known
        self.blob_room = 0  # bytes that blobs may take before all of them are added up again
        self.graph = CommitGraph()
        self.graph_lock = threading.Lock()
        # Branches that are known to have no registry of schemas, as of `known`.
        self.ungoverned: set[int] = set()
        # Whether entities and keys that were not cached turned out to be new the last time.
        self.presumes = True
        # The coverage of indexes. Forgetting it costs only another look.
        self.covered = Covered()
        # For an index that is behind: the version from which on a commit checks it again.
        self.behind: dict[str, Behind] = {}
        self.last_reader: SpaceReader | None = None  # of the thread that asked last
        self._parts: dict[Any, Any] = {}

    def reader(self) -> SpaceReader:
        rows = self.engine.reader()
        reader = self.last_reader
        if reader is None or reader.rows is not rows:
            reader = self.last_reader = SpaceReader(self, rows)
        return reader

    def part(self, make: Callable[["OpenSpace"], _Part]) -> _Part:
        """Return the part that `make` makes for this space, made on first use and then kept."""
        part = self._parts.get(make)
        if part is None:
            with self.lock:
                part = self._parts.get(make)
                if part is None:
                    part = self._parts[make] = make(self)
        made: _Part = part
        return made

    def presumes_new(self, branch: str, id: str) -> bool:
        """Whether a caller may assume that an entity was never written; its commit has to prove it."""
        number = self.branches.numbers.get(branch)
        return self.presumes and number is not None and (number, id) not in self.cache.newest

    def remembered(self, branch: str, id: str, version: int) -> Entry | None:
        """Return the entry as of a past version if it is cached; the engine is not asked."""
        number = self.branches.numbers.get(branch)
        if number is None or not self.oldest <= version <= self.known:
            return None
        entry = self.cache.newest.get((number, id))
        if entry is not None and entry.version <= version:
            return entry
        return self.cache.past.get((number, id, version))

    def note_ungoverned(self, branch: int, version: int) -> None:
        """Note that a branch has no registry as of a version, if that version is still `known`."""
        with self.lock:
            if self.known == version:
                self.ungoverned.add(branch)

    # -- keeping up --------------------------------------------------------------------------------

    def committed(
        self,
        before: int,
        after: int,
        entries: dict[EntryKey, Entry],
        *,
        hash: bytes,
        presumed: Collection[str] = (),
        branch: BranchRow | None = None,
        erased: Collection[str] = (),
        oldest: int | None = None,
    ) -> None:
        """Update the state after a durable transaction of this process.

        before, after  the versions of the space; the commit of `after` has `hash`
        entries        the entries that it wrote
        presumed       ids of entities that it assumed to be new
        branch         the branch that it made or deleted
        erased         ids of the entities that it erased
        oldest         the new oldest readable version, when it moved
        """
        with self.lock:
            # A reader may have seen a newer commit first. Newer state is never overwritten.
            if self.known not in (before, after):
                return
            for key, entry in entries.items():
                # An entry that nobody has read or patched is not cached, to save room, except one
                # that would else be assumed to be new once more.
                if key in self.cache.newest or entry.document is not UNSET or key[1] in presumed:
                    self.cache.put(key, entry)
            if self.ungoverned:
                self.drop_ungoverned(entries)
            if branch is not None:
                self.branches.put(branch)
            if erased:
                self.met_erasure()
                self.cache.drop_entities(erased)
            if oldest is not None:
                self.oldest = oldest
            # Last: a reader that sees the new version must find no older entry.
            self.known, self.known_hash = after, hash

    def cover(self, name: str, coverage: Coverage | None) -> None:
        """Remember what a reader has found out about an index; None to forget what is known."""
        with self.lock:
            if coverage is None:
                self.covered = self.covered.without(name)
            elif coverage.erasures == self.erasures:
                self.covered = self.covered.having(name, coverage)

    def followed(
        self, before: int, after: int, coverage: Mapping[str, Coverage | None] | None
    ) -> None:
        """Remember the coverage of indexes after commits; None when no index followed."""
        with self.lock:
            if coverage is None:
                self.covered = Covered()
            else:
                known = self.covered
                self.covered = known.after_commits(before, after, coverage, erasures=self.erasures)

    def forget(self, *, is_loss: bool) -> None:
        """Forget all state, because the log no longer contains the commit of `known`."""
        with self.lock:
            self.clear()
            self.is_ready = False
            self.known, self.known_hash, self.oldest = 0, b"", 0
            self.losses += is_loss
            self.covered = Covered()
            self.behind.clear()
            self.wiring.open_store.forget(self.did)
        with self.graph_lock:
            self.graph = CommitGraph()

    # Under the lock:

    def clear(self) -> None:
        self.cache.clear()
        self.ungoverned.clear()

    def drop_ungoverned(self, changed: Container[EntryKey]) -> None:
        for number in tuple(self.ungoverned):
            if (number, REGISTRY_ID) in changed:
                self.ungoverned.discard(number)

    def met_erasure(self) -> None:
        self.erasures += 1
        self.covered = Covered()  # pending changes may hold erased content
        self.wiring.open_store.forget(self.did)

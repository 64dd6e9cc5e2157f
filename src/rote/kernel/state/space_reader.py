"""Readers of an open space: the rows of its engine, together with the state kept in memory.

A reader brings that state up to the log. Outside of a transaction it sees the newest committed state,
inside of one (SpaceWriter) also what the transaction has written.
"""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, TypeVar

from rote.engines import Contended, Reader, Writer
from rote.engines.rows import HeadRow, Line
from rote.errors import Busy, Compacted, Corrupt, InvalidInput, VersionNotFound
from rote.kernel.log.branches import Branches
from rote.kernel.log.commit_graph import CommitGraph
from rote.kernel.log.entries import ABSENT, Entry, entry_of, load
from rote.kernel.log.events import erased_by
from rote.kernel.log.foundations import foundation_of
from rote.kernel.log.seals import branch_seal
from rote.kernel.state.entry_cache import EntryKey
from rote.values import check_entity_id
from rote.values.limits import (
    CACHE_CATCH_UP_MAX,
    CONTENTION_ATTEMPTS_MAX,
    INTEGER_MAX,
    PAGE_MAX,
)

if TYPE_CHECKING:
    from rote.kernel.state.open_space import OpenSpace

_Answer = TypeVar("_Answer")


class SpaceReader:
    """A reader of one space for one thread."""

    __slots__ = ("number", "rows", "space")

    def __init__(self, space: "OpenSpace", rows: Reader) -> None:
        self.space = space
        self.number = space.number
        self.rows = rows

    # -- keeping up --------------------------------------------------------------------------------

    def sync(self, *, may_be_old: bool = False) -> HeadRow | None:
        """Bring the state up to the head of the log, and return the head.

        With `may_be_old` the transaction may see an old head, which looks like a log that has lost
        commits. Then raise Contended instead of forgetting the state.
        """
        space = self.space
        before = space.known
        head = self.rows.head(self.number)
        if head is None:
            if space.known or space.known_hash or not space.is_ready:
                self._catch_up(0, b"", before=before, may_be_old=may_be_old)
        elif head.version != space.known or head.hash != space.known_hash or not space.is_ready:
            self._catch_up(head.version, head.hash, before=before, may_be_old=may_be_old)
        return head

    def _catch_up(
        self, version: int, hash: bytes, *, before: int, may_be_old: bool = False
    ) -> None:
        space = self.space
        if self._went_back(version, hash, before):
            if may_be_old:
                raise Contended()
            space.forget(is_loss=not self._is_compacted())
        known, oldest = space.known, space.oldest
        # Before the events and the horizon: so a compaction in between is noticed below.
        changed = self._changed(version)
        events = self.rows.events(self.number, after=known, limit=PAGE_MAX)
        erased = len(events) == PAGE_MAX or any(erased_by(row) for row in events)
        # A space that is read for the first time may have a foundation without an event.
        is_same = space.is_ready and known > 0 and not events
        branches = None if is_same else self._branches()
        if not is_same:
            foundation = foundation_of(self.rows, self.number)
            oldest = 0 if foundation is None else foundation.before
        if erased or oldest > known + 1:
            changed = None  # the log does not tell all that has changed since
        with space.lock:
            if version < space.known:
                return  # another thread has brought the state further
            if branches is not None:
                space.branches, space.oldest = branches, oldest
            space.is_ready = True
            if version == space.known:
                return
            if erased:
                space.met_erasure()
            if changed is None:
                space.clear()
            else:
                for key in changed:
                    space.cache.drop(key)
                space.drop_ungoverned(changed)
            space.known, space.known_hash = version, hash

    def _branches(self) -> Branches:
        rows = self.rows.branches(self.number)
        if self.rows.is_audit:
            for row in rows:
                if row.seal != branch_seal(self.space.did, row):
                    raise Corrupt(f"the row of branch {row.name!r} was changed; run `rote verify`")
        return Branches(rows)

    def _went_back(self, version: int, hash: bytes, before: int) -> bool:
        """Whether the log no longer contains the commit of `known`.

        A server may have lost its last commits, or another one without them has taken its place.
        `before` is the version that was known before the head was read.
        """
        space = self.space
        with space.lock:
            known, known_hash = space.known, space.known_hash
        if version < before:
            return True
        if version == known:
            return hash != known_hash
        if version < known or known == 0:
            return False  # another thread has brought the state further, or nothing is known yet
        rows = self.rows.commits(self.number, after=known - 1, limit=1)
        return not rows or rows[0].hash != known_hash

    def _is_compacted(self) -> bool:
        """Whether the log goes on above `known`, and only the commit of `known` was compacted away."""
        known = self.space.known
        rows = self.rows.commits(self.number, after=known - 1, limit=1)
        return bool(rows) and rows[0].version > known

    def _changed(self, version: int) -> set[EntryKey] | None:
        """Return the entities that were written above `known`; None to drop all cached entries."""
        if not self.space.cache.newest:
            # Not an empty set: another thread may be putting older entries into the cache now.
            return None
        limit = CACHE_CATCH_UP_MAX
        changed = self.rows.changed(self.number, after=self.space.known, until=version, limit=limit)
        return None if len(changed) == limit else set(changed)

    # -- entries -----------------------------------------------------------------------------------

    def current(self, branch: str, id: str) -> Entry:
        """Return the newest entry of one id, as of the head."""
        space = self.space
        newest = space.cache.newest
        key = (space.branches.numbers.get(branch, 0), id)
        if key not in newest:
            return self._look_up(branch, id)
        before = space.known
        head = self.rows.head(self.number)
        if head is None:
            self._catch_up(0, b"", before=before)
        elif head.version != space.known or head.hash != space.known_hash:
            self._catch_up(head.version, head.hash, before=before)
        # Read from the cache only now: an entry from before may be older than the head.
        entry = newest.get(key)
        return self._look_up(branch, id) if entry is None else entry

    def _look_up(self, branch: str, id: str) -> Entry:
        """Return the newest entry as the engine has it; bring the state up when that is newer."""
        check_entity_id(id)
        space = self.space
        if branch not in space.branches:
            self.sync()  # another process may have made the branch
        known, line = space.known, space.branches.line(branch)
        rows = self.rows.newest(self.number, (id,), line)
        if not rows:
            self.rows.head(self.number)  # NotFound when another process has erased the space
        try:
            entry = entry_of(self.rows, self.number, rows[0], line) if rows else ABSENT
        except Corrupt:
            # The facts to replay it from may have been compacted away since the row was read.
            return self.steadily(
                None, lambda version: load(self.rows, self.number, (id,), line).get(id, ABSENT)
            )
        if entry.version > known:
            self.sync()
        else:
            with space.lock:
                if space.known == known:
                    space.cache.put((line[0][0], id), entry)
        return entry

    def newest(
        self,
        branch: str,
        ids: Collection[str],
        presume: Callable[[Sequence[str]], bool] | None = None,
    ) -> dict[str, Entry]:
        """Return the newest entries of `ids` as of `known`; ABSENT for those never written.

        Entries that are not cached are also ABSENT, without a look, when `presume` allows it.
        """
        space = self.space
        known, entries = space.known, space.cache.newest
        number = space.branches.numbers.get(branch) or space.branches.number(branch)
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
                loaded = self._load(branch, missing, known)
                for id in missing:
                    found[id] = loaded.get(id, ABSENT)
        return found

    def _load(self, branch: str, ids: Sequence[str], known: int) -> dict[str, Entry]:
        """Load the entries of those `ids` that were ever written, and cache them."""
        space = self.space
        line = space.branches.line(branch, known)
        loaded = load(self.rows, self.number, ids, line)
        if loaded:
            head = self.rows.head(self.number)
            is_newest = head is not None and head.version == known
            with space.lock:
                if is_newest and space.known == known:
                    number = line[0][0]
                    for id, entry in loaded.items():
                        space.cache.put((number, id), entry)
        return loaded

    def entries_at(self, branch: str, ids: Sequence[str], version: int) -> dict[str, Entry]:
        """Return the entries of `ids` as of a past version, at or below `known`."""
        space = self.space
        line = self.line(branch, version)
        number, erasures = line[0][0], space.erasures
        loaded = self.steadily(version, lambda _: load(self.rows, self.number, ids, line))
        with space.lock:
            for id in ids:
                entry = loaded.setdefault(id, ABSENT)
                if space.erasures == erasures:
                    space.cache.put_past(number, id, version, entry)
        return loaded

    # -- points ------------------------------------------------------------------------------------

    def line(self, branch: str, version: int) -> Line:
        if branch not in self.space.branches:
            self.sync()  # another process may have made the branch
        return self.space.branches.line(branch, version)

    def resolve(self, version: int | None) -> int:
        """Return the version that a view means.

        Raise VersionNotFound for one above the log, Compacted for one below the horizon.
        """
        if version is None:
            self.sync()
            return self.space.known
        self.check_version(version)
        return version

    def check_version(self, version: int) -> None:
        space = self.space
        if type(version) is not int or not 0 <= version <= INTEGER_MAX:
            raise InvalidInput("a version is an integer from 0 on, of 64 bits")
        if version > space.known or not space.is_ready:
            self.sync()
        if version > space.known:
            raise VersionNotFound(version, newest=space.known)
        if 0 < version < space.oldest:
            raise Compacted(version, oldest=space.oldest)

    def steadily(self, version: int | None, read: Callable[[int], _Answer]) -> _Answer:
        """Return the answer of `read` for a version, or for the newest.

        `read` looks at the store several times. When history is compacted meanwhile, it is called
        again.
        """
        space = self.space
        for _ in range(CONTENTION_ATTEMPTS_MAX):
            oldest = space.oldest
            resolved = self.resolve(version)
            try:
                answer = read(resolved)
            except (Compacted, Corrupt):
                self.sync()
                if space.oldest == oldest:
                    raise
                continue
            self.sync()
            if space.oldest == oldest:
                return answer
        raise Busy("the space is compacted all the time; try again")

    def graph(self) -> CommitGraph:
        """Return the graph with the merges up to `known`; another thread may move `known` meanwhile."""
        space = self.space
        # `known` is read before the branches: another thread may move both in between, and every
        # merge must be of a branch that is in `branches`.
        known, branches = space.known, space.branches
        with space.graph_lock:
            space.graph.catch_up(self.rows, self.number, branches, known)
        return space.graph


class SpaceWriter(SpaceReader):
    """A reader inside a transaction, which may also write."""

    __slots__ = ()
    rows: Writer

"""A draft: the commits that one transaction is about to append, and the space as it will be with them.

Commits are planned one after the other against the draft, so each sees those before it. A commit is
added only when its plan is complete; one that fails leaves the draft as it was.
"""

from collections.abc import Collection, Sequence

from msgspec import field

from rote.contract.operations import Operation
from rote.engines.rows import BlobRow, SideRecord
from rote.kernel.log.appender import Appender
from rote.kernel.log.entries import Entry
from rote.kernel.state.index_coverage import Coverage, IndexChange
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceWriter
from rote.schemas.registry import REGISTRY_ID


class Draft(Appender):
    """An appender that also answers reads, as of the commits that it holds."""

    space: OpenSpace
    reads: SpaceWriter  # planning only reads; a task that rewrites history also writes
    base: int  # the version it starts from
    followed: tuple[str, ...]  # prefixes of ids whose changes indexes follow
    locked: bool  # whether nobody else can write to the space meanwhile
    presumes: bool = False  # whether entities that are not cached are assumed to be new
    blobs: dict[bytes, BlobRow] = field(default_factory=dict)  # data that counts now, by hash
    changes: list[IndexChange] = field(default_factory=list)
    presumed: set[str] = field(default_factory=set)  # entities that were assumed to be new
    found_new: bool = False  # whether a look into the store found an entity or a key to be new
    # The coverage of indexes that the changes concern; None for one that does not follow.
    coverage: dict[str, Coverage | None] = field(default_factory=dict)
    erased: frozenset[str] = (
        frozenset()
    )  # entities that the last commit erases; none comes after it
    oldest: int | None = None  # the new oldest readable version, when the last commit moves it

    @property
    def voids_indexes(self) -> bool:
        """Whether what is known of the indexes is void, after an erasure or a compaction."""
        return self.oldest is not None or bool(self.erased)

    def look_up(
        self, branch: str, ids: Collection[str], *, may_be_new: bool = False
    ) -> dict[str, Entry]:
        """Return the newest entries on the branch's line, drafted ones first.

        `may_be_new` allows to assume that entities that are not cached are new.
        """
        presume = self._presume_new if may_be_new and self.presumes else None
        if not self.entries:
            return self.reads.newest(branch, ids, presume)
        number = self.space.branches.find(branch).branch
        drafted = {id: self.entries[(number, id)] for id in ids if (number, id) in self.entries}
        missing = [id for id in ids if id not in drafted]
        if missing:
            drafted.update(self.reads.newest(branch, missing, presume))
        return drafted

    def is_ungoverned(self, branch: str) -> bool:
        """Whether the branch is known to have no registry of schemas."""
        number = self.space.branches.numbers.get(branch)
        return number in self.space.ungoverned and (number, REGISTRY_ID) not in self.entries

    def proven_ungoverned(self) -> set[int]:
        """Return the branches without a registry: it was assumed, and the durable draft proves it."""
        if REGISTRY_ID not in self.presumed:
            return set()
        numbers = {row.branch for row in self.commits}
        return {number for number in numbers if (number, REGISTRY_ID) not in self.entries}

    def _presume_new(self, ids: Sequence[str]) -> bool:
        if not self.reads.rows.presume_absent(self.space.number, ids=ids):
            return False
        self.presumed.update(ids)
        return True

    def _presume_unused(self, kind: str, key: str) -> bool:
        return self.reads.rows.presume_absent(self.space.number, sides=[(kind, key)])

    def made_by(self, kind: str, key: str) -> SideRecord | None:
        """Return the row of a key or an attempt, or None when no commit was made for it."""
        is_drafted = (kind, key) in self.sides
        if self.presumes and not is_drafted and self._presume_unused(kind, key):
            return None
        noted = self.side(kind, key)
        self.found_new |= noted is None
        return noted

    def side(self, kind: str, key: str) -> SideRecord | None:
        if (kind, key) in self.sides:
            return self.sides[(kind, key)]
        return self.reads.rows.side(self.space.number, kind, key)

    def known_salts(self, operations: Sequence[Operation]) -> dict[str, bytes]:
        """Return the salts of entities that are new to a line but not to the space."""
        if self.space.branches.is_alone:
            return {}
        ids = {operation.id for operation in operations}
        drafted = {
            id: entry.salt for (_, id), entry in self.entries.items() if id in ids and entry.salt
        }
        missing = [id for id in ids if id not in drafted and id not in self.presumed]
        return {**self.reads.rows.salts(self.space.number, missing), **drafted}

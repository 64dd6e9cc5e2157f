"""A draft: an appender for whoever plans, and the space as it looks with what it appends.

Commits are planned one after the other against the draft, so each sees those before it. Planning
one only reads; a commit that fails leaves the draft as it was.
"""

from collections.abc import Collection, Sequence

from msgspec import field

from rote.contract.operations import Operation
from rote.engines.rows import BlobRow, SideRecord
from rote.kernel.log.appender import Appender
from rote.kernel.log.entries import Entry
from rote.kernel.log.seals import KEY
from rote.kernel.state.index_coverage import Coverage, IndexChange
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceWriter
from rote.schemas.registry import REGISTRY_ID


class Draft(Appender):
    """Grows by whole commits."""

    space: OpenSpace
    reads: SpaceWriter  # planning only reads; a task that rewrites history also writes
    base: int  # the version it starts from
    followed: tuple[str, ...]  # prefixes of ids whose changes indexes want to know
    locked: bool  # nobody else can write to the space meanwhile
    presumes: bool = False  # whether what nothing is known of is taken for new, without a look
    blobs: dict[bytes, BlobRow] = field(default_factory=dict)  # payloads that count now, by hash
    changes: list[IndexChange] = field(default_factory=list)
    presumed: set[str] = field(default_factory=set)  # entities that were taken for new so
    found_new: bool = False  # whether something was new that was looked for
    coverage: dict[str, Coverage] = field(default_factory=dict)  # of indexes that follow
    erased: str | None = None  # the entity that the last commit erases; nothing comes after it
    oldest: int | None = None  # the oldest version that can be read after it, where it moves

    def look_up(
        self, branch: str, ids: Collection[str], *, may_be_new: bool = False
    ) -> dict[str, Entry]:
        """The newest entries on the branch's line, drafted ones first. With `may_be_new`, whoever
        asks could do with the presumption that what nothing is known of is new."""
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
        """Whether it is known that the branch has no registry of schemas."""
        number = self.space.branches.numbers.get(branch)
        return number in self.space.ungoverned and (number, REGISTRY_ID) not in self.entries

    def proven_ungoverned(self) -> set[int]:
        """The branches that were presumed to have no registry, now that the draft is durable."""
        if REGISTRY_ID not in self.presumed:
            return set()
        numbers = {row.branch for row in self.commits}
        return {number for number in numbers if (number, REGISTRY_ID) not in self.entries}

    def _presume_new(self, ids: Sequence[str]) -> bool:
        if not self.reads.rows.presume_absent(self.space.number, ids=ids):
            return False
        self.presumed.update(ids)
        return True

    def _presume_unused(self, key: str) -> bool:
        return self.reads.rows.presume_absent(self.space.number, sides=[(KEY, key)])

    def made_by(self, key: str) -> SideRecord | None:
        """What is noted of the commit that had this key."""
        is_drafted = (KEY, key) in self.sides
        if self.presumes and not is_drafted and self._presume_unused(key):
            return None
        noted = self.side(KEY, key)
        self.found_new |= noted is None
        return noted

    def side(self, kind: str, key: str) -> SideRecord | None:
        drafted = self.sides.get((kind, key))
        return drafted or self.reads.rows.side(self.space.number, kind, key)

    def known_salts(self, operations: Sequence[Operation]) -> dict[str, bytes]:
        """Salts of entities that are new to a line but not to the space."""
        if self.space.branches.is_alone:
            return {}
        ids = {operation.id for operation in operations}
        drafted = {
            id: entry.salt for (_, id), entry in self.entries.items() if id in ids and entry.salt
        }
        missing = [id for id in ids if id not in drafted and id not in self.presumed]
        return {**self.reads.rows.salts(self.space.number, missing), **drafted}

"""The coverage of indexes: the version up to which each is complete, and the changes since."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType, structs

from rote.kernel.log.branches import NEWEST
from rote.kernel.log.entries import Entry
from rote.values.limits import INDEX_BATCH_COMMITS


class IndexChange(Struct, frozen=True, gc=False):
    """An entity after one commit, for the indexes."""

    version: int
    branch: int
    id: str
    entry: Entry
    # The entry that the branch showed before; UNSET when it was not looked up.
    before: Entry | UnsetType = UNSET
    is_own: bool = False  # whether that entry was written on the branch itself, and not inherited
    # The patches that have made the one of the other, as they are stored; None if they have not.
    patches: tuple[bytes, ...] | None = None


class Pending(Struct, frozen=True, gc=False):
    """Changes that wait for an index. To add some costs the same however many there are.

    A packed index may have notes in their place. Then all earlier ones are notes as well.
    """

    count: int = 0  # of changes, or of the rows of notes
    size: int = 0  # their weight, as the keeper of the index weighs them
    last: tuple[Any, ...] = ()  # IndexChange or Note
    earlier: "Pending | None" = None
    is_noted: bool = False

    def adding(self, changes: Sequence[IndexChange], *, size: int) -> "Pending":
        if not changes:
            return self
        return Pending(self.count + len(changes), self.size + size, tuple(changes), self)

    def __iter__(self) -> Iterator[Any]:
        """Yield the changes, oldest first."""
        parts = []
        part: Pending | None = self
        while part is not None:
            parts.append(part.last)
            part = part.earlier
        for changes in reversed(parts):
            yield from changes


class Coverage(Struct, frozen=True, gc=False):
    noted: int  # what is stored of the index is complete up to this version, as the store notes
    complete: int  # the changes above `noted` and up to this version are known
    pending: Pending  # those changes, under the prefix of the index
    erasures: int  # that this process had met by then; after another one it is computed again


class Behind(Struct, frozen=True, gc=False):
    """An index that commits do not follow."""

    until: int  # the version from which on a commit checks whether it still is
    noted: int  # the version up to which it was complete


NOTHING = Coverage(0, 0, Pending(), 0)


class Covered(Struct, frozen=True, gc=False):
    """The coverage of all indexes that this process follows.

    The commits in (since, until] are of this process. It has added their changes to each coverage
    that was complete up to there, so those that had nothing to add are complete up to `until` too.
    """

    since: int = 0
    until: int = 0
    indexes: Mapping[str, Coverage] = {}
    due: int = 0  # a commit from this version on also looks at indexes that it does not concern

    def get(self, name: str) -> Coverage | None:
        known = self.indexes.get(name)
        if known is not None and self.since <= known.complete < self.until:
            return Coverage(known.noted, self.until, known.pending, known.erasures)
        return known

    def after_commits(
        self, before: int, after: int, changed: Mapping[str, Coverage | None], *, erasures: int
    ) -> "Covered":
        """Return the coverage after commits of this process.

        `changed` has None for an index that did not follow. `erasures` were met until now.
        """
        since = self.since if self.until == before else before
        if not changed:
            return Covered(since, after, self.indexes, self.due)
        indexes = dict(self.indexes)
        for name, coverage in changed.items():
            if coverage is None or coverage.erasures != erasures:
                indexes.pop(name, None)
            else:
                indexes[name] = coverage
        due = min([known.noted for known in indexes.values()], default=NEWEST)
        return Covered(since, after, indexes, due + INDEX_BATCH_COMMITS)

    def having(self, name: str, coverage: Coverage) -> "Covered":
        """Return the same with what a reader has found out, unless commits have been added since."""
        if self.since <= coverage.complete < self.until:
            return self
        due = min(self.due, coverage.noted + INDEX_BATCH_COMMITS)
        return Covered(self.since, self.until, {**self.indexes, name: coverage}, due)

    def without(self, name: str) -> "Covered":
        indexes = {each: known for each, known in self.indexes.items() if each != name}
        return structs.replace(self, indexes=indexes)

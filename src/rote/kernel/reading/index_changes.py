"""Changes of entities as the log tells them, and the keepers of indexes, which take them in."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import attrgetter
from typing import Protocol

from msgspec import UNSET, UnsetType

from rote.engines.rows import FactRow
from rote.kernel.log.entries import ABSENT, Entry, entry_of, load
from rote.kernel.log.foundations import facts_below
from rote.kernel.state.index_coverage import IndexChange, Pending
from rote.kernel.state.space_reader import SpaceReader, SpaceWriter
from rote.values.limits import INDEX_BATCH_COMMITS


class Keeper(Protocol):
    """Keeps what is stored of one index."""

    name: str
    prefix: str
    is_eager: bool  # False: nothing is stored before the first question
    needs_before: bool  # whether it must know the entry before each change

    @property
    def pending_max(self) -> int:
        """The number of changes that may be pending."""
        ...

    def weigh(self, change: IndexChange) -> int:
        """Return the weight of a change that is pending."""
        ...

    def is_little(self, pending: Pending) -> bool:
        """Whether changes are few enough to stay pending."""
        ...

    def may_commit(self, pending: Pending) -> bool:
        """Whether a commit may store changes itself; else the index falls behind."""
        ...

    def take_in(self, writes: SpaceWriter, changes: Iterable[IndexChange], until: int) -> None:
        """Store changes, oldest first, and note that the index is complete up to a version."""
        ...


def changes_below(reads: SpaceReader, keeper: Keeper, *, until: int) -> Iterator[list[IndexChange]]:
    """Yield the changes of all facts that a compaction has left up to a version, in pages.

    Changes of one entity on one line come oldest first; those of a page are ordered by version.
    """
    for branch in reads.space.branches.rows():
        facts = facts_below(reads.rows, reads.number, branch.branch, until=until)
        last: IndexChange | None = None
        while page := list(islice(facts, INDEX_BATCH_COMMITS)):
            changes = changes_of(reads, keeper, page, after=0, last=last)
            last = changes[-1] if changes else last
            yield sorted(changes, key=attrgetter("version"))


def changes_between(
    reads: SpaceReader, keeper: Keeper, *, after: int, until: int
) -> list[IndexChange]:
    """Return a change for each entity that a commit in (after, until] wrote, read from the log."""
    facts = reads.rows.facts(reads.number, after=after, until=until)
    return changes_of(reads, keeper, facts, after=after)


def changes_of(
    reads: SpaceReader,
    keeper: Keeper,
    facts: Iterable[FactRow],
    *,
    after: int,
    last: IndexChange | None = None,
) -> list[IndexChange]:
    """Return the changes that facts above a version have made, each commit's last of an entity.

    `last` is the change before them, if there is one above that version.
    """
    left = {(fact.version, fact.id): fact for fact in facts if fact.id.startswith(keeper.prefix)}
    shown: dict[tuple[int, str], Entry] = {}
    if keeper.needs_before:
        shown = _shown_at(reads, {(fact.branch, fact.id) for fact in left.values()}, after)
        if last is not None:
            shown[(last.branch, last.id)] = last.entry
    changes = []
    for (version, id), fact in left.items():
        place, entry = (fact.branch, id), _entry_at(reads, fact)
        before: Entry | UnsetType = shown.get(place, ABSENT) if keeper.needs_before else UNSET
        changes.append(IndexChange(version, fact.branch, id, entry, before))
        shown[place] = entry
    return changes


def _shown_at(
    reads: SpaceReader, places: Iterable[tuple[int, str]], version: int
) -> dict[tuple[int, str], Entry]:
    """Return the entries that branches showed at a version, or when they began, if that was later."""
    by_branch: dict[int, list[str]] = {}
    for branch, id in places:
        by_branch.setdefault(branch, []).append(id)
    shown = {}
    for branch, ids in by_branch.items():
        since = max(version, reads.space.branches.row(branch).fork_version)
        if since:
            line = reads.space.branches.line_of(branch, since)
            found = load(reads.rows, reads.number, ids, line)
            shown.update({(branch, id): entry for id, entry in found.items()})
    return shown


def _entry_at(reads: SpaceReader, fact: FactRow) -> Entry:
    line = reads.space.branches.line_of(fact.branch, fact.version)
    return entry_of(reads.rows, reads.number, fact, line)


def facts_of(
    reads: SpaceReader, places: Counter[tuple[int, str]], *, after: int, until: int, limit: int
) -> list[FactRow]:
    """Return the facts of entities on branches in (after, until], oldest first.

    `places` tells how many each has; those with one are read together.
    """
    once: dict[int, list[str]] = {}
    facts: list[FactRow] = []
    for (branch, id), count in places.items():
        if count == 1:
            once.setdefault(branch, []).append(id)
            continue
        own = ((branch, until),)
        facts += reads.rows.history(reads.number, id, own, before=None, after=after, limit=limit)
    for branch, ids in once.items():
        facts += reads.rows.newest(reads.number, ids, ((branch, until),))
    return sorted(facts, key=attrgetter("version", "index"))

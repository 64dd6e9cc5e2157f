"""Changes of entities as the log tells them, and the keepers of indexes, which take them in."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from operator import attrgetter
from typing import Protocol

from msgspec import UNSET

from rote.engines.rows import FactRow
from rote.kernel.log.entries import ABSENT, Entry, continued, entry_of, load
from rote.kernel.log.foundations import facts_below
from rote.kernel.state.index_coverage import IndexChange, Pending
from rote.kernel.state.space_reader import SpaceReader, SpaceWriter
from rote.values.limits import INDEX_BATCH_COMMITS

# The number of a branch, and an entity.
Place = tuple[int, str]
NO_ENTRIES: Mapping[Place, Entry] = {}


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

    def lightened(self, pending: Pending) -> Pending | None:
        """Return changes in a form that weighs little.

        None when a commit may not store as much itself; then the index falls behind.
        """
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
        last: dict[Place, Entry] = {}
        while page := list(islice(facts, INDEX_BATCH_COMMITS)):
            changes = changes_of(reads, keeper, page, after=0, known=last)
            last = entries_after(changes[-1:]) or last
            yield sorted(changes, key=attrgetter("version"))


def changes_between(
    reads: SpaceReader,
    keeper: Keeper,
    *,
    after: int,
    until: int,
    known: Mapping[Place, Entry] = NO_ENTRIES,
) -> list[IndexChange]:
    """Return a change for each entity that a commit in (after, until] wrote, read from the log."""
    facts = reads.rows.facts(reads.number, after=after, until=until)
    return changes_of(reads, keeper, facts, after=after, known=known)


def changes_of(
    reads: SpaceReader,
    keeper: Keeper,
    facts: Iterable[FactRow],
    *,
    after: int,
    known: Mapping[Place, Entry] = NO_ENTRIES,
) -> list[IndexChange]:
    """Return the changes that facts above a version have made, one for each entity of a commit.

    `known` are entries that branches show at that version, or by a fact since that comes before these.
    """
    made: dict[tuple[int, str], list[FactRow]] = {}
    for fact in facts:
        if fact.id.startswith(keeper.prefix):
            made.setdefault((fact.version, fact.id), []).append(fact)
    places = {(own[0].branch, own[0].id) for own in made.values()}
    shown = {place: known[place] for place in places & known.keys()}
    if keeper.needs_before:
        shown |= _shown_at(reads, places - known.keys(), after)
    changes = []
    for (version, id), own in made.items():
        place = (own[0].branch, id)
        before = shown.get(place, ABSENT)
        entry = None if reads.rows.is_audit else continued(before, own)
        patches = None if entry is None else tuple([fact.body or b"" for fact in own])
        entry = entry or _entry_at(reads, own[-1])
        last = before if keeper.needs_before else UNSET
        changes.append(IndexChange(version, place[0], id, entry, last, patches=patches))
        shown[place] = entry
    return changes


def entries_after(changes: Iterable[IndexChange]) -> dict[Place, Entry]:
    """Return the entries that branches show after changes."""
    return {(change.branch, change.id): change.entry for change in changes}


def _shown_at(reads: SpaceReader, places: Iterable[Place], version: int) -> dict[Place, Entry]:
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

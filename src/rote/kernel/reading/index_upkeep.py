"""The upkeep of indexes: what is stored of them, and what is pending, is complete at every version.

Commits add to an index in batches. Changes that are not stored in it yet are pending: a question
looks at them as well. An index can be further behind, when it was declared later or another program
committed without it. Then it is brought up from the log before it answers, beginning with the facts
that a compaction has left. All of it can be dropped and built again.

A commit that writes nothing under the prefix of an index does not touch it. Each process remembers
the changes since the version up to which the index is complete. Now and then a commit moves that
version on, so that other processes have few commits to look at. For an index that is behind, commits
check only from time to time whether it still is.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Protocol, TypeVar

from msgspec import UNSET, UnsetType

from rote.contract import Tell
from rote.contract.commands import Reindex
from rote.engines import Abandoning
from rote.engines.rows import FactRow
from rote.errors import Busy, InvalidInput
from rote.kernel.log.entries import ABSENT, Entry, entry_of, load
from rote.kernel.log.foundations import facts_below
from rote.kernel.reading.index_rows import RowKeeper
from rote.kernel.reading.segments import SegmentKeeper, merge_small
from rote.kernel.state.index_coverage import NOTHING, Coverage, IndexChange, Pending
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader, SpaceWriter
from rote.values.limits import (
    CACHE_CATCH_UP_MAX,
    CONTENTION_ATTEMPTS_MAX,
    INDEX_BATCH_COMMITS,
    INDEX_BEHIND_COMMITS,
)

_Index = TypeVar("_Index")
_Answer = TypeVar("_Answer")


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

    def take_in(self, writes: SpaceWriter, changes: Iterable[IndexChange], until: int) -> None:
        """Store changes, oldest first, and note that the index is complete up to a version."""
        ...


def keepers(space: OpenSpace) -> Mapping[str, Keeper]:
    """Return the keepers of all declared indexes, by name."""
    return space.part(_keepers)


def _keepers(space: OpenSpace) -> dict[str, Keeper]:
    wiring = space.wiring
    kept: list[Keeper] = [RowKeeper(index) for index in wiring.indexes.values()]
    kept += [SegmentKeeper(index) for index in wiring.packed.values()]
    return {keeper.name: keeper for keeper in kept}


def declared(indexes: Mapping[str, _Index], name: str) -> _Index:
    if type(name) is not str or name not in indexes:
        raise InvalidInput(f"there is no index {name!r:.80}; declare it when the store is opened")
    return indexes[name]


# -- questions -------------------------------------------------------------------------------------


def answer(
    space: OpenSpace,
    name: str,
    version: int | None,
    look: Callable[[SpaceReader, int], _Answer | None],
    *,
    unkept: Callable[[SpaceReader, int], _Answer],
) -> _Answer:
    """Return the answer of an index at a version.

    `look` returns None when too much is missing; the index is then brought up first. Where nothing
    can be written, `unkept` answers without the index.
    """
    for _ in range(CONTENTION_ATTEMPTS_MAX):
        reads = space.reader()
        found = reads.steadily(version, partial(look, reads))
        if found is not None:
            return found
        if space.engine.read_only is not None:
            return reads.steadily(version, partial(unkept, reads))
        catch_up(space, keepers(space)[name])
    raise Busy("others commit to this space all the time; try again")


def little_coverage(reads: SpaceReader, name: str, version: int) -> Coverage | None:
    """Return the coverage of an index at a version, or above it; None when too much is pending."""
    space = reads.space
    coverage = space.covered.get(name)
    if coverage is None or coverage.complete < version:
        keeper = keepers(space)[name]
        coverage = coverage_at(reads, keeper, version)
        if coverage is None or not keeper.is_little(coverage.pending):
            return None
        space.cover(name, coverage)
    return coverage


# -- commits ---------------------------------------------------------------------------------------


def follow(
    writes: SpaceWriter, changes: Sequence[IndexChange], *, before: int, after: int
) -> dict[str, Coverage | None]:
    """Add the changes of a transaction to the indexes that they concern.

    Return the coverage of those once the transaction is durable; None where the changes before the
    transaction are not known.
    """
    covered = writes.space.covered
    is_due = after >= covered.due
    found = {}
    for name, keeper in keepers(writes.space).items():
        prefix = keeper.prefix
        concerned = [change for change in changes if change.id.startswith(prefix)]
        if concerned or is_due:
            known = covered.get(name)
            found[name] = _follow(writes, keeper, known, concerned, before=before, after=after)
    return found


def _follow(
    writes: SpaceWriter,
    keeper: Keeper,
    known: Coverage | None,
    changes: Sequence[IndexChange],
    *,
    before: int,
    after: int,
) -> Coverage | None:
    if known is None or known.complete != before:
        behind_until = writes.space.behind_until
        if before < behind_until.get(keeper.name, 0):
            return None
        was_asked = keeper.is_eager or known is not None
        known = coverage_at(writes, keeper, before)
        if known is None or not (was_asked or known.noted):
            behind_until[keeper.name] = before + INDEX_BEHIND_COMMITS
            return None
    pending = _adding(keeper, known.pending, changes)
    if keeper.is_little(pending) and after - known.noted < INDEX_BATCH_COMMITS:
        return Coverage(known.noted, after, pending, known.erasures)
    if writes.rows.indexed(writes.number, keeper.name) != known.noted:
        return None  # others have dropped what is stored, or added to it
    keeper.take_in(writes, pending, after)
    return Coverage(after, after, Pending(), known.erasures)


def _adding(keeper: Keeper, pending: Pending, changes: Sequence[IndexChange]) -> Pending:
    return pending.adding(changes, size=sum([keeper.weigh(change) for change in changes]))


# -- catching up -----------------------------------------------------------------------------------


def reindex(space: OpenSpace, _: Reindex, tell: Tell) -> None:
    """Drop all indexes and build them anew, except those that nobody has asked for."""
    for keeper in keepers(space).values():
        reads = space.reader()
        tell("indexing", 0, reads.resolve(None))
        if keeper.is_eager or reads.rows.indexed(reads.number, keeper.name):
            _take_in(space, keeper, anew=True)
            space.cover(keeper.name, None)
            catch_up(space, keeper, tell)


def catch_up(space: OpenSpace, keeper: Keeper, tell: Tell | None = None) -> None:
    """Bring an index up to the head, a bounded piece of the log at a time."""
    while True:
        reads = space.reader()
        coverage = reads.steadily(None, partial(coverage_at, reads, keeper))
        if coverage is not None and not coverage.pending.count:
            space.cover(keeper.name, coverage)
            space.behind_until.pop(keeper.name, None)
            return
        if tell is not None:
            tell("indexing", reads.rows.indexed(reads.number, keeper.name), space.known)
        _take_in(space, keeper)
        if isinstance(keeper, SegmentKeeper):
            merge_small(space, keeper.index)


def _take_in(space: OpenSpace, keeper: Keeper, *, anew: bool = False) -> None:
    """Index the next piece of the log in one transaction; with `anew` drop all and begin again."""
    with Abandoning(space.engine), space.engine.writer(space.number) as rows:
        writes = SpaceWriter(space, rows)
        if anew:
            writes.rows.drop_derived(writes.number, keeper.name)
        done = 0 if anew else writes.rows.indexed(writes.number, keeper.name)
        writes.sync()
        if done + 1 < space.oldest:
            done = _start(writes, keeper)
        commits = rows.commits(space.number, after=done, limit=INDEX_BATCH_COMMITS)
        if commits:
            until = commits[-1].version
            keeper.take_in(writes, changes_between(writes, keeper, after=done, until=until), until)


def _start(writes: SpaceWriter, keeper: Keeper) -> int:
    """Build an index from all facts that a compaction has left below its horizon.

    Return the version up to which the index is then complete.
    """
    until = writes.space.oldest - 1
    writes.rows.drop_derived(writes.number, keeper.name)
    for changes in changes_below(writes, keeper, until=until):
        keeper.take_in(writes, changes, until)
    return until


# -- changes in the log ----------------------------------------------------------------------------


def changes_below(reads: SpaceReader, keeper: Keeper, *, until: int) -> Iterator[list[IndexChange]]:
    """Yield the changes of all facts that a compaction has left up to a version, in pages.

    Changes of one entity on one line come oldest first; those of a page are ordered by version.
    """
    for branch in reads.space.branches.rows():
        facts = facts_below(reads.rows, reads.number, branch.branch, until=until)
        last: IndexChange | None = None
        while page := list(islice(facts, INDEX_BATCH_COMMITS)):
            changes = _changes_of(reads, keeper, page, after=0, last=last)
            last = changes[-1] if changes else last
            yield sorted(changes, key=attrgetter("version"))


def changes_between(
    reads: SpaceReader, keeper: Keeper, *, after: int, until: int
) -> list[IndexChange]:
    """Return a change for each entity that a commit in (after, until] wrote, read from the log."""
    facts = reads.rows.facts(reads.number, after=after, until=until)
    return _changes_of(reads, keeper, facts, after=after)


def _changes_of(
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


def coverage_at(reads: SpaceReader, keeper: Keeper, version: int) -> Coverage | None:
    """Return the coverage of an index at a version.

    None when the index is too far behind, when too much has changed since, or when the log since was
    compacted away.
    """
    erasures = reads.space.erasures  # before anything is read that may be erased meanwhile
    known = reads.space.covered.get(keeper.name) or NOTHING
    if known.complete == version:
        return known
    noted = reads.rows.indexed(reads.number, keeper.name)
    if noted >= version:
        return Coverage(noted, version, Pending(), erasures)
    # The remembered coverage is void when others have dropped or added something since, or when
    # something was erased since. It may also end before what is stored does, when it was computed
    # for an old version.
    is_same = (
        noted == known.noted and noted <= known.complete < version and known.erasures == erasures
    )
    since, pending = (known.complete, known.pending) if is_same else (noted, Pending())
    if version - noted > INDEX_BATCH_COMMITS or noted + 1 < reads.space.oldest:
        return None
    limit = CACHE_CATCH_UP_MAX
    changed = reads.rows.changed(reads.number, after=since, until=version, limit=limit)
    concerned = Counter(place for place in changed if place[1].startswith(keeper.prefix))
    # Twice the number that may be pending, so that commits of several processes still follow.
    most = 2 * keeper.pending_max
    if len(changed) == limit or pending.count + concerned.total() > most:
        return None
    facts = _facts_of(reads, concerned, after=since, until=version, limit=most)
    later = _changes_of(reads, keeper, facts, after=since)
    return Coverage(noted, version, _adding(keeper, pending, later), erasures)


def _facts_of(
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

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
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from rote.contract import Tell
from rote.contract.commands import Reindex
from rote.engines import Abandoning
from rote.errors import Busy, Corrupt, InvalidInput
from rote.kernel.reading.index_changes import (
    Keeper,
    changes_below,
    changes_between,
    changes_of,
    facts_of,
)
from rote.kernel.reading.index_rows import RowKeeper
from rote.kernel.reading.segment_building import bring_on
from rote.kernel.reading.segments import SegmentKeeper, merge_all
from rote.kernel.state.index_coverage import NOTHING, Behind, Coverage, IndexChange, Pending
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
    """Return the coverage of an index at a version, or above it; None when too much is pending.

    Raise Corrupt when the index says that it has more than the log.
    """
    space = reads.space
    coverage = space.covered.get(name)
    if coverage is None or coverage.complete < version:
        keeper = keepers(space)[name]
        coverage = coverage_at(reads, keeper, version)
        if coverage is None or not keeper.is_little(coverage.pending):
            return None
        if coverage.noted > version and coverage.noted > reads.resolve(None):
            raise Corrupt(f"the index {name} is ahead of the log; run `rote doctor --repair`")
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
        if _is_behind(writes, keeper, before):
            return None
        was_asked = keeper.is_eager or known is not None
        known = coverage_at(writes, keeper, before)
        # One that is ahead of the log is damaged: the next question tells.
        is_usable = known is not None and known.noted <= before
        if known is None or not is_usable or not (was_asked or known.noted):
            noted = (
                writes.rows.indexed(writes.number, keeper.name) if known is None else known.noted
            )
            _fall_behind(writes, keeper, before, noted)
            return None
    waiting = _adding(keeper, known.pending, changes)
    is_due = after - known.noted >= INDEX_BATCH_COMMITS
    is_light = not is_due and keeper.is_little(waiting)
    pending = waiting if is_light else keeper.lightened(waiting)
    if pending is None:
        _fall_behind(writes, keeper, after, known.noted)
        return None
    if not is_due and keeper.is_little(pending):
        return Coverage(known.noted, after, pending, known.erasures)
    if writes.rows.indexed(writes.number, keeper.name) != known.noted:
        return None  # others have dropped what is stored, or added to it
    keeper.take_in(writes, pending, after)
    return Coverage(after, after, Pending(), known.erasures)


def _is_behind(writes: SpaceWriter, keeper: Keeper, version: int) -> bool:
    """Whether an index that was behind still is: nobody has brought it on since."""
    behind = writes.space.behind.get(keeper.name)
    if behind is None:
        return False
    if version < behind.until:
        return True
    is_still = writes.rows.indexed(writes.number, keeper.name) == behind.noted
    if is_still:
        _fall_behind(writes, keeper, version, behind.noted)
    return is_still


def _fall_behind(writes: SpaceWriter, keeper: Keeper, version: int, noted: int) -> None:
    writes.space.behind[keeper.name] = Behind(version + INDEX_BEHIND_COMMITS, noted)


def _adding(keeper: Keeper, pending: Pending, changes: Sequence[IndexChange]) -> Pending:
    return pending.adding(changes, size=sum([keeper.weigh(change) for change in changes]))


# -- catching up -----------------------------------------------------------------------------------


def reindex(space: OpenSpace, _: Reindex, tell: Tell) -> None:
    """Drop all indexes and build them anew, except those that nobody has asked for."""
    for keeper in keepers(space).values():
        reads = space.reader()
        tell("indexing", 0, reads.resolve(None))
        if keeper.is_eager or reads.rows.indexed(reads.number, keeper.name):
            with Abandoning(space.engine), space.engine.writer(space.number) as rows:
                rows.drop_derived(space.number, keeper.name)
            space.cover(keeper.name, None)
            catch_up(space, keeper, tell)


def catch_up(space: OpenSpace, keeper: Keeper, tell: Tell | None = None) -> None:
    """Bring an index up to the head, a bounded piece of the log at a time."""
    in_vain = 0
    while True:
        reads = space.reader()
        coverage = reads.steadily(None, partial(coverage_at, reads, keeper))
        if coverage is not None and not coverage.pending.count:
            space.cover(keeper.name, coverage)
            space.behind.pop(keeper.name, None)
            return
        if tell is not None:
            tell("indexing", reads.rows.indexed(reads.number, keeper.name), space.known)
        if isinstance(keeper, SegmentKeeper) and in_vain < CONTENTION_ATTEMPTS_MAX:
            in_vain = 0 if bring_on(space, keeper) else in_vain + 1
            merge_all(space, keeper.index)
        else:
            _take_in(space, keeper)
            in_vain = 0


def _take_in(space: OpenSpace, keeper: Keeper) -> None:
    """Index the next piece of the log in one transaction."""
    with Abandoning(space.engine), space.engine.writer(space.number) as rows:
        writes = SpaceWriter(space, rows)
        done = writes.rows.indexed(writes.number, keeper.name)
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


# -- coverage --------------------------------------------------------------------------------------


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
    facts = facts_of(reads, concerned, after=since, until=version, limit=most)
    later = changes_of(reads, keeper, facts, after=since)
    return Coverage(noted, version, _adding(keeper, pending, later), erasures)

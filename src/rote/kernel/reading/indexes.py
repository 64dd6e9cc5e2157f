"""Derived indexes: rows that lead from a term to entities, right at every version and branch.

Commits add rows in batches. Changes that have no rows yet are pending: a search reads those entities
themselves. An index can be further behind, when it was declared later or another program committed
without it. Then it is brought up from the log before it answers, beginning with the facts that a
compaction has left. All rows can be dropped and built again.

A commit that writes nothing under the prefix of an index does not touch its rows, nor the version up
to which they are complete. Each process remembers the changes since that version. Now and then a
commit moves the version on, so that other processes have few commits to look at. For an index that
is behind, commits check only from time to time whether it still is.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import nlargest, nsmallest
from itertools import chain, islice
from operator import attrgetter

from msgspec import UNSET

from rote.contract import Hit, Index, Tell
from rote.contract.commands import Find, Reindex
from rote.engines import Abandoning
from rote.engines.rows import DerivedRow, FactRow, Line
from rote.errors import Busy, InvalidInput
from rote.kernel.log.entries import Entry, entry_of, load
from rote.kernel.log.foundations import facts_below
from rote.kernel.log.page_sizes import page_size
from rote.kernel.state.index_coverage import NOTHING, Coverage, IndexChange
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader, SpaceWriter
from rote.values import decode_canonical
from rote.values.limits import (
    CACHE_CATCH_UP_MAX,
    CONTENTION_ATTEMPTS_MAX,
    INDEX_BATCH_COMMITS,
    INDEX_BEHIND_COMMITS,
    INDEX_PENDING_BYTES_MAX,
    INDEX_PENDING_MAX,
    PAGE_MAX,
)
from rote.values.ranges import above, prefix_end

# The start of a row that is in the store already, not among the rows about to be written.
_STORED = 0


def declared(indexes: Mapping[str, Index], name: str) -> Index:
    if type(name) is not str or name not in indexes:
        raise InvalidInput(f"there is no index {name!r:.80}; declare it when the store is opened")
    return indexes[name]


def follow(
    writes: SpaceWriter,
    index: Index,
    changes: Sequence[IndexChange],
    *,
    before: int,
    after: int,
) -> Coverage | None:
    """Add the changes of a transaction to an index, as rows or as pending changes.

    Return the coverage of the index once the transaction is durable; None when the changes before
    the transaction are not known.
    """
    known = writes.space.coverage.get(index.name)
    if known is None or known.complete != before:
        if before < writes.space.behind_until.get(index.name, 0):
            return None
        known = _coverage(writes, index, before)
        if known is None:
            writes.space.behind_until[index.name] = before + INDEX_BEHIND_COMMITS
            return None
    concerned = [change for change in changes if change.id.startswith(index.prefix)]
    pending = (*known.pending, *concerned)
    if _is_little(pending) and after - known.noted < INDEX_BATCH_COMMITS:
        return Coverage(known.noted, after, pending, known.erasures)
    if writes.rows.indexed(writes.number, index.name) != known.noted:
        writes.space.coverage.pop(index.name, None)  # others have dropped its rows, or added some
        return None
    _advance(writes, index, pending, after)
    return Coverage(after, after, (), known.erasures)


def reindex(space: OpenSpace, _: Reindex, tell: Tell) -> None:
    """Drop all indexes and build them anew."""
    for index in space.wiring.indexes.values():
        tell("indexing", 0, space.reader().resolve(None))
        _take_in(space, index, anew=True)
        space.coverage.pop(index.name, None)
        catch_up(space, index, tell)


def catch_up(space: OpenSpace, index: Index, tell: Tell | None = None) -> None:
    """Bring an index up to the head, a bounded piece of the log at a time."""
    while True:
        reads = space.reader()
        coverage = reads.steadily(None, partial(_coverage, reads, index))
        if coverage is not None and not coverage.pending:
            space.coverage[index.name] = coverage
            space.behind_until.pop(index.name, None)
            return
        if tell is not None:
            tell("indexing", reads.rows.indexed(reads.number, index.name), space.known)
        _take_in(space, index)


def _take_in(space: OpenSpace, index: Index, *, anew: bool = False) -> None:
    """Index the next piece of the log in one transaction; with `anew` drop all rows and begin again."""
    with Abandoning(space.engine), space.engine.writer(space.number) as rows:
        writes = SpaceWriter(space, rows)
        if anew:
            writes.rows.drop_derived(writes.number, index.name)
        done = 0 if anew else writes.rows.indexed(writes.number, index.name)
        writes.sync()
        if done + 1 < space.oldest:
            done = _start(writes, index)
        commits = rows.commits(space.number, after=done, limit=INDEX_BATCH_COMMITS)
        if commits:
            until = commits[-1].version
            changes = _changes(writes, index, after=done, until=until)
            _advance(writes, index, changes, until)


def _start(writes: SpaceWriter, index: Index) -> int:
    """Build an index from all facts that a compaction has left below its horizon.

    Return the version up to which the index is then complete.
    """
    until = writes.space.oldest - 1
    writes.rows.drop_derived(writes.number, index.name)
    for branch in writes.space.branches.rows():
        facts = facts_below(writes.rows, writes.number, branch.branch, until=until)
        while page := list(islice(facts, INDEX_BATCH_COMMITS)):
            changes = [
                IndexChange(fact.version, fact.branch, fact.id, _entry_at(writes, fact))
                for fact in page
                if fact.id.startswith(index.prefix)
            ]
            _advance(writes, index, changes, until)
    return until


def _entry_at(reads: SpaceReader, fact: FactRow) -> Entry:
    return entry_of(
        reads.rows, reads.number, fact, reads.space.branches.line_of(fact.branch, fact.version)
    )


def find(space: OpenSpace, command: Find) -> tuple[Hit, ...]:
    """Return hits in (term, id) order, or in the reverse."""
    index = declared(space.wiring.indexes, command.index)
    view, limit = command.view, page_size(command.limit)
    own = {
        id: Entry.showing(state) for id, state in command.own.items() if id.startswith(index.prefix)
    }

    if command.is_own_only:
        pairs = _asked(index, command, own)
        return tuple([Hit(*pair) for pair in pairs[:limit]])

    def look(version: int) -> list[Hit] | None:
        coverage = space.coverage.get(index.name)
        if coverage is None or coverage.complete < version:
            coverage = _coverage(reads, index, version)
            if coverage is None or not _is_little(coverage.pending):
                return None
            if coverage.erasures == space.erasures:
                space.coverage[index.name] = coverage
        is_old = version <= coverage.noted
        pending = () if is_old else coverage.pending
        changed = dict.fromkeys(change.id for change in pending if change.id not in own)
        line = reads.line(view.branch, version)
        without = changed.keys() | own.keys()
        pairs = _pairs(reads, command, line, limit=limit, without=without)
        if changed or own:
            entries = own | load(reads.rows, reads.number, list(changed), line)
            pairs += _asked(index, command, entries)
            pairs.sort(reverse=command.descending)
        if reads.rows.indexed(reads.number, index.name) >= coverage.noted:
            return [Hit(*pair) for pair in pairs[:limit]]
        space.coverage.pop(index.name, None)  # others have dropped its rows
        return None

    def walk(version: int) -> list[Hit]:
        """Read all entities, where the rows cannot be brought up."""
        line = reads.line(view.branch, version)
        stored = (each for each in _entries(reads, index, line) if each[0] not in own)
        found = (
            (term, id)
            for id, entry in chain(stored, own.items())
            for term in terms_of(index, id, entry)
            if _is_asked(command, term, id)
        )
        first = nlargest if command.descending else nsmallest
        return [Hit(*pair) for pair in first(limit, found)]

    for _ in range(CONTENTION_ATTEMPTS_MAX):
        reads = space.reader()
        hits = reads.steadily(view.version, look)
        if hits is not None:
            return tuple(hits)
        if space.engine.read_only is not None:
            return tuple(reads.steadily(view.version, walk))
        catch_up(space, index)
    raise Busy("others commit to this space all the time; try again")


def _entries(reads: SpaceReader, index: Index, line: Line) -> Iterator[tuple[str, Entry]]:
    """Yield the entities on a line that the index is about."""
    start, end = index.prefix, prefix_end(index.prefix)
    while True:
        ids = reads.rows.entities(reads.number, line, start=start, end=end, limit=PAGE_MAX)
        yield from load(reads.rows, reads.number, ids, line).items()
        if len(ids) < PAGE_MAX:
            return
        start = above(ids[-1])


def _asked(index: Index, command: Find, entries: Mapping[str, Entry]) -> list[tuple[str, str]]:
    """Return (term, id) of entries in the range of a command, in its order."""
    pairs = [
        (term, id)
        for id, entry in entries.items()
        for term in terms_of(index, id, entry)
        if _is_asked(command, term, id)
    ]
    return sorted(pairs, reverse=command.descending)


def _is_asked(command: Find, term: str, id: str) -> bool:
    """Whether a pair is in the range of a command, beyond the place where it goes on."""
    if term < command.start or (command.end is not None and term >= command.end):
        return False
    if command.after is None:
        return True
    place = (command.after.term, command.after.id)
    return (term, id) < place if command.descending else (term, id) > place


def _pairs(
    reads: SpaceReader, command: Find, line: Line, *, limit: int, without: Collection[str]
) -> list[tuple[str, str]]:
    """Return (term, id) of the rows on a line.

    A row counts only if the newest fact of its entity on the line is on the row's own branch: else a
    nearer branch has written the entity.
    """
    pairs: list[tuple[str, str]] = []
    after = None if command.after is None else (command.after.term, command.after.id)
    # Under one term ids are in order, and the caller stops by itself at the end of its own.
    prefix = "" if command.end == above(command.start) else command.within
    while len(pairs) < limit:
        rows = reads.rows.derived(
            reads.number,
            command.index,
            line,
            start=command.start,
            end=command.end,
            after=after,
            limit=limit,
            prefix=prefix,
            descending=command.descending,
        )
        ids = list({row.id: None for row in rows if row.id not in without})
        branches = {fact.id: fact.branch for fact in reads.rows.newest(reads.number, ids, line)}
        pairs += [(row.term, row.id) for row in rows if branches.get(row.id) == row.branch]
        if len(rows) < limit:
            break
        after = (rows[-1].term, rows[-1].id)
    return pairs[:limit]


def expected_rows(
    index: Index, id: str, branch: int, states: Iterable[tuple[int, Entry]]
) -> list[DerivedRow]:
    """Return the rows that an entity must have on a branch, given its states there, oldest first."""
    open_rows: dict[str, int] = {}
    rows: list[DerivedRow] = []
    for version, entry in states:
        terms = terms_of(index, id, entry)
        for term in sorted(open_rows.keys() - terms):
            rows.append(DerivedRow(term, id, branch, open_rows.pop(term), version))
        for term in terms - open_rows.keys():
            open_rows[term] = version
    rows += [DerivedRow(term, id, branch, since, None) for term, since in open_rows.items()]
    return sorted(rows, key=lambda row: (row.term, row.start))


def terms_of(index: Index, id: str, entry: Entry) -> set[str]:
    if not entry.exists:
        return set()
    # A value that is not decoded yet is decoded for this alone, and takes up no room in the cache.
    is_decoded = entry.document is not UNSET
    value = entry.document if is_decoded else decode_canonical(entry.canonical_value())
    return set(index.terms(id, value))


def _advance(
    writes: SpaceWriter, index: Index, changes: Iterable[IndexChange], indexed: int
) -> None:
    rows: list[DerivedRow] = []
    ended: list[DerivedRow] = []
    open_rows: dict[tuple[int, str], dict[str, int]] = {}
    for change in changes:
        version, branch, id = change.version, change.branch, change.id
        current = open_rows.get((branch, id))
        if current is None:
            current = dict.fromkeys(_open_terms(writes, index, change), _STORED)
            open_rows[(branch, id)] = current
        terms = terms_of(index, id, change.entry)
        for term in current.keys() - terms:
            since = current.pop(term)
            row = DerivedRow(term, id, branch, since, version)
            (ended if since == _STORED else rows).append(row)
        for term in terms:
            current.setdefault(term, version)
    for (branch, id), current in open_rows.items():
        rows += [
            DerivedRow(term, id, branch, since, None)
            for term, since in current.items()
            if since != _STORED
        ]
    writes.rows.derive(
        writes.number, index.name, rows=_in_order(rows), ended=ended, indexed=indexed
    )


def _in_order(rows: list[DerivedRow]) -> list[DerivedRow]:
    """Return the rows by term and id: the order of the store, which inserts them faster so.

    To sort by id first and then group by term is faster than to sort by both, because there are fewer
    terms than rows.
    """
    rows.sort(key=attrgetter("id"))
    by_term: dict[str, list[DerivedRow]] = {}
    for row in rows:
        by_term.setdefault(row.term, []).append(row)
    return [row for term in sorted(by_term) for row in by_term[term]]


def _open_terms(reads: SpaceReader, index: Index, change: IndexChange) -> set[str]:
    """Return the terms of the rows that are open before a change.

    The entry before the change gives them, if it is known. To read the rows is slower: there is one
    for every term that the entity ever had.
    """
    if change.before is None:
        return set()
    if change.before is not UNSET:
        return terms_of(index, change.id, change.before)
    return {
        row.term
        for row in reads.rows.derived_of(reads.number, index.name, change.id)
        if row.branch == change.branch and row.until is None
    }


def _changes(reads: SpaceReader, index: Index, *, after: int, until: int) -> list[IndexChange]:
    """Return a change for each entity that a commit in (after, until] wrote, read from the log."""
    left: dict[tuple[int, str], FactRow] = {}  # by version
    for fact in reads.rows.facts(reads.number, after=after, until=until):
        if fact.id.startswith(index.prefix):
            left[(fact.version, fact.id)] = fact
    return [
        IndexChange(version, fact.branch, id, _entry_at(reads, fact))
        for (version, id), fact in left.items()
    ]


def _coverage(reads: SpaceReader, index: Index, version: int) -> Coverage | None:
    """Return the coverage of an index at a version.

    None when the index is too far behind, when too much has changed since, or when the log since was
    compacted away.
    """
    erasures = reads.space.erasures  # before anything is read that may be erased meanwhile
    known = reads.space.coverage.get(index.name, NOTHING)
    if known.complete == version:
        return known
    noted = reads.rows.indexed(reads.number, index.name)
    if noted >= version:
        return Coverage(noted, version, (), erasures)
    # The remembered coverage is void when others have dropped or added rows since, or when something
    # was erased since. It may also end before the rows do, when it was computed for an old version.
    is_same = (
        noted == known.noted and noted <= known.complete < version and known.erasures == erasures
    )
    since, pending = (known.complete, known.pending) if is_same else (noted, ())
    if version - noted > INDEX_BATCH_COMMITS or noted + 1 < reads.space.oldest:
        return None
    limit = CACHE_CATCH_UP_MAX
    changed = reads.rows.changed(reads.number, after=since, until=version, limit=limit)
    concerned = [place for place in changed if place[1].startswith(index.prefix)]
    # Twice the number that may be pending, so that commits of several processes still follow.
    if len(changed) == limit or len(pending) + len(concerned) > 2 * INDEX_PENDING_MAX:
        return None
    later = [
        change
        for branch, id in dict.fromkeys(concerned)
        for change in _left(reads, id, ((branch, version),), after=since)
    ]
    pending += tuple(sorted(later, key=attrgetter("version")))
    return Coverage(noted, version, pending, erasures)


def _left(reads: SpaceReader, id: str, own: Line, *, after: int) -> list[IndexChange]:
    """Return a change for each commit above a version that wrote an entity on its branch."""
    left: dict[int, FactRow] = {}  # by version
    for fact in reads.rows.history(
        reads.number, id, own, before=None, after=after, limit=2 * INDEX_PENDING_MAX
    ):
        left.setdefault(fact.version, fact)
    return [
        IndexChange(version, fact.branch, id, _entry_at(reads, fact))
        for version, fact in left.items()
    ]


def _is_little(pending: Sequence[IndexChange]) -> bool:
    """Whether changes are few enough to stay pending: each search reads their entities from memory."""
    size = sum([change.entry.size_bound for change in pending])
    return len(pending) <= INDEX_PENDING_MAX and size <= INDEX_PENDING_BYTES_MAX

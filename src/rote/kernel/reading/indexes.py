"""Derived indexes: rows that lead from a term to entities, right at every version and branch."""

from collections.abc import Collection, Iterator, Mapping
from heapq import nlargest, nsmallest
from itertools import chain

from rote.contract import Hit, Index
from rote.contract.commands import Find
from rote.engines.rows import Line
from rote.kernel.log.entries import Entry, load
from rote.kernel.log.page_sizes import page_size
from rote.kernel.reading.index_rows import terms_of
from rote.kernel.reading.index_upkeep import answer, declared, little_coverage
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader
from rote.values.limits import PAGE_MAX
from rote.values.ranges import above, prefix_end


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

    def look(reads: SpaceReader, version: int) -> list[Hit] | None:
        coverage = little_coverage(reads, index.name, version)
        if coverage is None:
            return None
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
        space.cover(index.name, None)  # others have dropped its rows
        return None

    def walk(reads: SpaceReader, version: int) -> list[Hit]:
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

    return tuple(answer(space, index.name, view.version, look, unkept=walk))


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

"""The rows of an index: one for each term of an entity and each time that the entity had it."""

from collections.abc import Iterable
from operator import attrgetter

from msgspec import UNSET

from rote.contract import Index
from rote.engines.rows import DerivedRow
from rote.kernel.log.entries import Entry
from rote.kernel.state.index_coverage import IndexChange, Pending
from rote.kernel.state.space_reader import SpaceReader, SpaceWriter
from rote.values import decode_canonical
from rote.values.limits import INDEX_PENDING_BYTES_MAX, INDEX_PENDING_MAX

# The start of a row that is in the store already, not among the rows about to be written.
_STORED = 0


class RowKeeper:
    """Implements index_changes.Keeper for an index of rows."""

    is_eager = True
    needs_before = False

    def __init__(self, index: Index) -> None:
        self.index = index
        self.name = index.name
        self.prefix = index.prefix

    @property
    def pending_max(self) -> int:
        return INDEX_PENDING_MAX

    def weigh(self, change: IndexChange) -> int:
        return change.entry.size_bound

    def is_little(self, pending: Pending) -> bool:
        """Whether changes are few enough to stay pending: each search reads their entities."""
        return pending.count <= INDEX_PENDING_MAX and pending.size <= INDEX_PENDING_BYTES_MAX

    def lightened(self, pending: Pending) -> Pending | None:
        return pending

    def take_in(self, writes: SpaceWriter, changes: Iterable[IndexChange], until: int) -> None:
        rows: list[DerivedRow] = []
        ended: list[DerivedRow] = []
        open_rows: dict[tuple[int, str], dict[str, int]] = {}
        for change in changes:
            version, branch, id = change.version, change.branch, change.id
            current = open_rows.get((branch, id))
            if current is None:
                current = dict.fromkeys(_open_terms(writes, self.index, change), _STORED)
                open_rows[(branch, id)] = current
            terms = terms_of(self.index, id, change.entry)
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
        ordered = _in_order(rows)
        writes.rows.derive(writes.number, self.name, rows=ordered, ended=ended, indexed=until)


def terms_of(index: Index, id: str, entry: Entry) -> set[str]:
    if not entry.exists:
        return set()
    # A value that is not decoded yet is decoded for this alone, and takes up no room in the cache.
    is_decoded = entry.document is not UNSET
    value = entry.document if is_decoded else decode_canonical(entry.canonical_value())
    return set(index.terms(id, value, entry.version, entry.index))


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


def _open_terms(reads: SpaceReader, index: Index, change: IndexChange) -> set[str]:
    """Return the terms of the rows that are open before a change.

    The entry before the change gives them, if it is known. To read the rows is slower: there is one
    for every term that the entity ever had.
    """
    if change.before is not UNSET:
        return terms_of(index, change.id, change.before) if change.is_own else set()
    return {
        row.term
        for row in reads.rows.derived_of(reads.number, index.name, change.id)
        if row.branch == change.branch and row.until is None
    }


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

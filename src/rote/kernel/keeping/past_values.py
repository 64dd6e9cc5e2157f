"""Past values: find entities by the values that they ever had, at any version on any branch."""

from collections.abc import Iterator

from rote.contract import Conditions
from rote.contract.operations import DELETE, PATCH
from rote.engines.rows import FactPlace, FactRow
from rote.errors import Corrupt
from rote.kernel.log.entries import entry_of, snapshot_in
from rote.kernel.log.nonsense import NONSENSE
from rote.kernel.log.page_sizes import next_page, size_of
from rote.kernel.state.space_reader import SpaceReader
from rote.patch.apply import replay
from rote.values import Json, decode_canonical
from rote.values.limits import INTEGER_MAX, ROWS_READ_FIRST


def ids_that_met(
    reads: SpaceReader, conditions: Conditions, prefix: str, *, after: str | None, until: int
) -> Iterator[str]:
    """Yield the ids below a prefix, in order, of entities that met the conditions at some version.

    An erased fact has no content, so an entity that has only such facts met nothing.
    """
    past = _Past(reads)
    taken: str | None = None  # the entity that was yielded last, or is not selected by its id
    for fact in _facts_below(reads, prefix, after=after, until=until):
        if fact.id == taken:
            continue
        if not conditions.id(fact.id):
            taken = fact.id
        elif fact.salt is not None and (conditions.value is None or _holds(conditions, past, fact)):
            taken = fact.id
            yield fact.id


def has_met(reads: SpaceReader, conditions: Conditions, id: str, *, until: int) -> bool:
    """Whether an entity met the conditions at some version."""
    found = ids_that_met(reads, conditions, id, after=None, until=until)
    return next(found, None) == id


def values_below(reads: SpaceReader, prefix: str, *, until: int) -> Iterator[tuple[str, Json]]:
    """Yield the id of each entity below a prefix, once with each value that it ever had.

    Values that were erased, or that are damaged, are left out.
    """
    past = _Past(reads)
    for fact in _facts_below(reads, prefix, after=None, until=until):
        if fact.salt is None or fact.op == DELETE:
            continue
        try:
            value = past.after(fact)
        except (Corrupt, *NONSENSE):
            continue
        yield fact.id, value


def _holds(conditions: Conditions, past: "_Past", fact: FactRow) -> bool:
    assert conditions.value is not None
    value = past.after(fact)
    return fact.op != DELETE and conditions.value(fact.id, value)


def _facts_below(
    reads: SpaceReader, prefix: str, *, after: str | None, until: int
) -> Iterator[FactRow]:
    """Yield the facts of all entities below a prefix, each entity's by version."""
    place: FactPlace = (prefix, 0, 0, 0) if after is None else (after, INTEGER_MAX, 0, 0)
    wanted = ROWS_READ_FIRST
    while rows := reads.rows.facts_from(reads.number, until=until, after=place, limit=wanted):
        for row in rows:
            if not row.id.startswith(prefix):
                return
            yield row
        place = (row.id, row.version, row.index, row.branch)
        wanted = next_page(wanted, sum(map(size_of, rows)))


class _Past:
    """The values of one entity after each of its facts, which come in the order of versions."""

    def __init__(self, reads: SpaceReader) -> None:
        self._reads = reads
        self._id: str | None = None
        self._newest: dict[int, tuple[bytes, Json]] = {}  # hash and value on each branch

    def after(self, fact: FactRow) -> Json:
        if fact.id != self._id:
            self._id = fact.id
            self._newest.clear()
        value = None if fact.op == DELETE else self._value(fact)
        self._newest[fact.branch] = (fact.hash, value)
        return value

    def _value(self, fact: FactRow) -> Json:
        whole = snapshot_in(fact)
        if whole is not None:
            return decode_canonical(whole)
        before = self._newest.get(fact.branch)
        if fact.op == PATCH and before is not None and before[0] == fact.parent:
            return replay(before[1], [decode_canonical(fact.body or b"")])
        # The first patch on a branch changes what the branch has inherited.
        branches = self._reads.space.branches
        line = branches.line(branches.name(fact.branch), fact.version)
        entry = entry_of(self._reads.rows, self._reads.number, fact, line)
        return entry.shared_document() if entry.exists else None

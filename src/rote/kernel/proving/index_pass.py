"""Pass 3 of verify: every declared index against the log."""

from collections.abc import Iterator
from itertools import islice

from msgspec import structs

from rote.contract import Index
from rote.engines import Reader
from rote.engines.rows import (
    DerivedRow,
    FactRow,
    Line,
)
from rote.kernel.log.entries import entry_of
from rote.kernel.log.events import erasures
from rote.kernel.proving.inspection import Inspection
from rote.kernel.reading.index_rows import expected_rows
from rote.values.limits import (
    CONTENTION_ATTEMPTS_MAX,
    FAULTS_MAX,
    VERIFY_PAGE_ROWS,
)


def inspect_indexes(inspection: Inspection, reads: Reader, index: Index) -> None:
    """Compare an index with the log; start over when something was erased meanwhile.

    Facts and rows are not read at one moment, so an erasure in between would look like a fault.
    """
    for _ in range(CONTENTION_ATTEMPTS_MAX):
        head = reads.head(inspection.number)
        version = 0 if head is None else head.version
        faults = list(islice(_found_in_index(inspection, reads, index, version), FAULTS_MAX))
        if not faults or not any(erasures(reads, inspection.number, after=version)):
            break
    for message, id in faults:
        inspection.fault("index", f"{index.name} {message}", id=id)


def _found_in_index(
    inspection: Inspection, reads: Reader, index: Index, version: int
) -> Iterator[tuple[str, str | None]]:
    """Compare each entity's rows with those that its facts require; yield (message, id) for each fault."""
    indexed = reads.indexed(inspection.number, index.name)
    if indexed > version:
        head = reads.head(inspection.number)
        if indexed > (0 if head is None else head.version):
            yield "claims to be ahead of the log", None
    if reads.derived_strays(inspection.number, index.name):
        yield "has rows from beyond what it covers", None
    seen = 0
    after: tuple[int, str] | None = None
    while True:
        pointers = reads.entity_rows(inspection.number, after=after, limit=VERIFY_PAGE_ROWS)
        for pointer in pointers:
            if not pointer.id.startswith(index.prefix):
                continue
            line = ((pointer.branch, indexed),)
            expected = _expected(inspection, reads, index, pointer.id, line)
            actual = [
                _as_of(row, indexed)
                for row in reads.derived_of(inspection.number, index.name, pointer.id)
                if row.branch == pointer.branch and row.start <= indexed
            ]
            seen += len(actual)
            if sorted(actual, key=lambda row: (row.term, row.start)) != expected:
                yield "does not match it", pointer.id
        if len(pointers) < VERIFY_PAGE_ROWS:
            break
        after = (pointers[-1].branch, pointers[-1].id)
    if seen != reads.derived_count(inspection.number, index.name, until=indexed):
        yield "lists entities that do not exist", None


def _as_of(row: DerivedRow, version: int) -> DerivedRow:
    """Return the row as it was at a version: open if it was ended later."""
    is_open = row.until is None or row.until > version
    return structs.replace(row, until=None) if is_open else row


def _expected(
    inspection: Inspection, reads: Reader, index: Index, id: str, line: Line
) -> list[DerivedRow]:
    """Return the rows that the facts of an entity on one branch, up to a version, require."""
    facts: dict[int, FactRow] = {}
    before: tuple[int, int] | None = None
    while True:
        rows = reads.history(
            inspection.number, id, line, before=before, after=0, limit=VERIFY_PAGE_ROWS
        )
        for row in rows:
            facts.setdefault(row.version, row)
        if len(rows) < VERIFY_PAGE_ROWS:
            break
        before = (rows[-1].version, rows[-1].index)
    branch = line[0][0]
    name = inspection.branches.name(branch)
    states = []
    for version in sorted(facts):
        through_forks = inspection.branches.line(name, version)
        states.append((version, entry_of(reads, inspection.number, facts[version], through_forks)))
    return expected_rows(index, id, branch, states)

"""Pass 2 of verify: pointers of entities and tombstones, against the facts that they lead to."""

from collections.abc import Iterable, Mapping

from rote.contract.operations import DELETE
from rote.engines import Reader
from rote.engines.rows import EntityRow, FactPlace, FactRow
from rote.kernel.committing.content_checks import content_fault
from rote.kernel.log.entries import entry_of
from rote.kernel.log.page_sizes import next_page, size_of
from rote.kernel.proving.inspection import Inspection


def inspect_entities(inspection: Inspection, reads: Reader) -> None:
    after: tuple[int, str] | None = None
    page_rows = 1
    while True:
        rows = reads.entity_rows(inspection.number, after=after, limit=page_rows)
        by_branch: dict[int, list[str]] = {}
        for row in rows:
            by_branch.setdefault(row.branch, []).append(row.id)
        newest = {
            (branch, fact.id): fact
            for branch, ids in by_branch.items()
            for fact in reads.newest(
                inspection.number, list(dict.fromkeys(ids)), ((branch, inspection.version),)
            )
        }
        # Pointers that have moved since the inspection began are left out.
        written = [row for row in rows if row.version <= inspection.version]
        for row in _leading_nowhere(inspection, reads, written, newest):
            if not _leads_by_now(inspection, reads, row):
                inspection.fault(
                    "head", "it leads to no fact of the entity", version=row.version, id=row.id
                )
        _warn_of_contents(inspection, reads, newest)
        if len(rows) < page_rows:
            return
        after = (rows[-1].branch, rows[-1].id)
        page_rows = next_page(page_rows, sum(size_of(fact) for fact in newest.values()))


def _warn_of_contents(
    inspection: Inspection, reads: Reader, newest: Mapping[tuple[int, str], FactRow]
) -> None:
    """Note entities that hold what no rule of contents would let them hold today."""
    wiring = inspection.space.wiring
    for (branch, id), fact in sorted(newest.items()):
        if not id.startswith(wiring.guarded) or fact.op == DELETE or fact.salt is None:
            continue
        line = inspection.branches.line(inspection.branches.name(branch), fact.version)
        fault = content_fault(
            wiring.content_rules, id, entry_of(reads, inspection.number, fact, line)
        )
        if fault is not None:
            inspection.warn("content", fault, version=fact.version, id=id)


def _leading_nowhere(
    inspection: Inspection,
    reads: Reader,
    pointers: Iterable[EntityRow],
    newest: Mapping[tuple[int, str], FactRow],
) -> list[EntityRow]:
    """Return the wrong pointers.

    A pointer must be live exactly when its entity exists. It must lead to the newest fact or, while
    the entity lives, to an earlier one. That earlier fact may have been dropped below the horizon.
    """
    wrong: list[EntityRow] = []
    earlier: dict[FactPlace, EntityRow] = {}
    for row in pointers:
        fact = newest.get((row.branch, row.id))
        if fact is None or row.live != (fact.op != DELETE and fact.salt is not None):
            wrong.append(row)
        elif (row.version, row.index) == (fact.version, fact.index):
            continue
        elif not row.live or (row.version, row.index) > (fact.version, fact.index):
            wrong.append(row)
        elif row.version >= inspection.oldest:
            earlier[(row.id, row.version, row.index, row.branch)] = row
        elif row.version < 1:
            wrong.append(row)
    found = reads.operations_at(inspection.number, list(earlier))
    return wrong + [row for place, row in earlier.items() if found.get(place, DELETE) == DELETE]


def _leads_by_now(inspection: Inspection, reads: Reader, row: EntityRow) -> bool:
    """Whether the pointer is right when it is read again.

    An erasure changes the pointer and the facts, perhaps after only one of them was read.
    """
    own = ((row.branch, inspection.version),)
    pointers = reads.pointers(inspection.number, row.branch, [row.id])
    facts = reads.newest(inspection.number, [row.id], own)
    newest = {(row.branch, fact.id): fact for fact in facts}
    return len(pointers) == len(facts) == 1 and (
        pointers[0].version > inspection.version
        or not _leading_nowhere(inspection, reads, pointers, newest)
    )

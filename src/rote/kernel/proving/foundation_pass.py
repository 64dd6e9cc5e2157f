"""Pass 0 of verify: what a compaction has left, against its signed checkpoint."""

from typing import Any

from rote.contract.operations import DELETE, PATCH
from rote.engines import Reader
from rote.engines.rows import FactRow
from rote.errors import RoteError
from rote.kernel.keeping import checkpoints
from rote.kernel.log.branches import Branches
from rote.kernel.log.chain import OPERATION_NAMES, fact_hash
from rote.kernel.log.events import SpaceCompacted, read_event
from rote.kernel.log.foundations import (
    Foundation,
    commits_below,
    facts_below,
    foundation_of,
    standing,
)
from rote.kernel.proving.erased_fact_checks import fault_of_erased
from rote.kernel.proving.inspection import Inspection
from rote.kernel.proving.log_pass import inspect_keys, inspect_pointed
from rote.kernel.state.space_reader import SpaceReader
from rote.values import decode_canonical, digest
from rote.values.canonical import quoted
from rote.values.limits import PAGE_MAX


def inspect_foundation(inspection: Inspection, reads: Reader) -> None:
    """Inspect what is below the horizon, and set the place where the pass over the log begins."""
    inspection.branches = Branches(reads.branches(inspection.number))
    foundation = foundation_of(reads, inspection.number)
    recorded = _inspect_recorded(inspection, reads)
    if foundation is None:
        if recorded is not None:
            inspection.fault("compaction", "the row that says how far it went is missing")
        return
    if recorded != foundation.body() and inspection.version >= foundation.version:
        inspection.fault("compaction", "no commit says what its row does")
    if not 1 <= foundation.before <= inspection.version:
        inspection.fault("compaction", "the log does not reach it", version=foundation.before)
        return
    inspection.oldest = foundation.before
    _inspect_commits_below(inspection, reads)
    _inspect_facts_below(inspection, reads)
    _inspect_standing(inspection, reads, foundation)
    inspection.advance()


def _inspect_recorded(inspection: Inspection, reads: Reader) -> dict[str, Any] | None:
    """Return the body that the row of the last compaction should have, by the events of the log.

    Report each compaction that does not name the one before it.
    """
    last: dict[str, Any] | None = None
    after = 0
    while rows := reads.events(inspection.number, after=after, limit=PAGE_MAX):
        for row in rows:
            event = decode_canonical(row.event or b"null")
            if type(event) is not dict or event.get("type") != "compact":
                continue
            happening = read_event(event)
            assert isinstance(happening, SpaceCompacted)
            prior = None if last is None else digest(last["checkpoint"])
            if happening.checkpoint.get("prior") != prior:
                inspection.fault(
                    "compaction", "it does not name the one before it", version=row.version
                )
            last = {
                "before": happening.before,
                "version": row.version,
                "checkpoint": happening.checkpoint,
            }
        after = rows[-1].version
    return last


def _inspect_commits_below(inspection: Inspection, reads: Reader) -> None:
    """Inspect the events and keys of the commits that are left below the horizon.

    Their hashes cover facts that are gone, so the signed digest proves them instead.
    """
    for row in commits_below(reads, inspection.number, before=inspection.oldest):
        inspection.previous = row
        inspect_keys(inspection, reads, [row])
        if row.event is None:
            continue
        try:
            inspection.lineage.follow(
                read_event(decode_canonical(row.event)),
                branch=inspection.branches.name(row.branch),
                version=row.version,
                facts=0,
            )
        except RoteError as error:
            inspection.fault("commit", str(error), version=row.version)
    last = 0 if inspection.previous is None else inspection.previous.version
    if last != inspection.oldest - 1:
        inspection.fault("commit", "the one before it is missing", version=inspection.oldest)


def _inspect_facts_below(inspection: Inspection, reads: Reader) -> None:
    for branch in inspection.branches.rows():
        until = inspection.oldest - 1
        for fact in facts_below(reads, inspection.number, branch.branch, until=until):
            inspect_pointed(inspection, reads, [fact])
            inspection.erased += fact.salt is None
            message = _wrong_with(inspection, reads, fact)
            if message is not None:
                inspection.fault("fact", message, version=fact.version, id=fact.id)


def _wrong_with(inspection: Inspection, reads: Reader, fact: FactRow) -> str | None:
    """Return the fault of a fact below the horizon, or None.

    A patch is kept as its result, which the signed digest covers. Other facts must match their hashes.
    """
    if fact.op not in OPERATION_NAMES:
        return "it is no known operation"
    if fact.salt is None:
        return fault_of_erased(reads, inspection.number, fact, inspection.erasers, is_left=True)
    if fact.op == PATCH:
        return None if fact.body is None and fact.value is not None else "it is not its result"
    if fact.value is not None or (fact.body is None) != (fact.op == DELETE):
        return "its content is not that of its operation"
    hash = fact_hash(quoted(fact.id), fact.op, fact.salt, fact.body, fact.parent)
    return None if hash == fact.hash else "its content does not match its hash"


def _inspect_standing(inspection: Inspection, reads: Reader, foundation: Foundation) -> None:
    left = standing(
        reads,
        inspection.number,
        inspection.branches,
        before=foundation.before,
        version=foundation.version,
    )
    inspection.facts, inspection.commits = left.facts, left.commits
    inspection.gone = foundation.before - 1 - left.commits
    for message in checkpoints.faults_of_horizon(
        SpaceReader(inspection.space, reads),
        foundation.checkpoint,
        before=foundation.before,
        state=left.state,
    ):
        inspection.fault("compaction", message, version=foundation.before)

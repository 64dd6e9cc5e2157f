"""verify: recompute the whole log and compare it with what is stored.

It works in pages, at a fixed version, with bounded memory, beside writers. A fault never stops it: all
faults are reported, up to a bound.

    pass 0  foundation  what a compaction has left, against its signed checkpoint
    pass 1  log         every commit and fact hash, link, time, snapshot, key row
    pass 2  pointers    of entities and tombstones, against the facts that they lead to
    pass 3  beside      side rows, checkpoints, branches, names; indexes at the end
    pass 4  blobs       the data of each against its hash; every described blob must be stored
    pass 5  vectors     the form and the seal of each
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from rote.contract import Tell, VerifyReport
from rote.contract.commands import Verify
from rote.engines import Reader
from rote.engines.rows import SideRecord
from rote.errors import Busy
from rote.kernel.keeping import checkpoints
from rote.kernel.log.foundations import HORIZON
from rote.kernel.log.seals import COMPACTION
from rote.kernel.proving.beside_pass import inspect_beside
from rote.kernel.proving.blob_pass import inspect_blobs
from rote.kernel.proving.foundation_pass import inspect_foundation
from rote.kernel.proving.index_pass import inspect_indexes
from rote.kernel.proving.inspection import Inspection
from rote.kernel.proving.log_pass import inspect_log
from rote.kernel.proving.pointer_pass import inspect_entities
from rote.kernel.proving.segment_pass import inspect_segments
from rote.kernel.proving.vector_pass import inspect_vectors
from rote.kernel.state.open_space import OpenSpace
from rote.values.limits import CONTENTION_ATTEMPTS_MAX

_PASSES = (
    inspect_foundation,
    inspect_log,
    inspect_entities,
    inspect_beside,
    inspect_blobs,
    inspect_vectors,
)


def verify(space: OpenSpace, command: Verify, tell: Tell) -> VerifyReport:
    """Return the report on one space as of its head.

    When the space is compacted meanwhile, verify starts over, because rows that it was about to read
    may be gone.
    """
    against = command.against
    if against is not None:
        against = checkpoints.check_shape(against)
    for _ in range(CONTENTION_ATTEMPTS_MAX):
        horizon = _horizon(space)
        report = _report(space, against, tell)
        if _horizon(space) == horizon:
            return report
    raise Busy("the space is compacted all the time; try again")


def _horizon(space: OpenSpace) -> SideRecord | None:
    return space.engine.reader().side(space.number, COMPACTION, HORIZON)


def _report(space: OpenSpace, against: dict[str, Any] | None, tell: Tell) -> VerifyReport:
    reads = space.reader()
    head = reads.rows.head(reads.number)
    version = 0 if head is None else head.version
    blob_bytes = reads.rows.blob_bytes(reads.number)
    inspection = Inspection(space, version, tell, blob_bytes=blob_bytes)
    # A reader for each pass: damaged rows may make a connection unusable.
    for inspect in _PASSES:
        _guarded(inspection, inspect, space.engine.reader())
    for index in space.wiring.indexes.values():
        _guarded(inspection, partial(inspect_indexes, index=index), space.engine.reader())
    for packed in space.wiring.packed.values():
        _guarded(inspection, partial(inspect_segments, index=packed), space.engine.reader())
    if against is not None:
        inspection.faults += checkpoints.faults_against(
            space.reader(), against, oldest=inspection.oldest
        )
    for words in space.engine.damage():
        inspection.fault("file", words)
    return VerifyReport(
        not inspection.faults,
        version,
        None if head is None else head.hash.hex(),
        inspection.facts,
        inspection.commits,
        inspection.erased,
        tuple(inspection.faults),
        tuple(inspection.warnings),
        max(inspection.oldest, 1),
    )


def _guarded(
    inspection: Inspection, inspect: Callable[[Inspection, Reader], None], reads: Reader
) -> None:
    """Run a pass, and report an exception in it as a fault, so that the other passes still run.

    Damaged rows can raise any exception. Only the one that `tell` raised goes on to the caller.
    """
    try:
        inspect(inspection, reads)
    except Exception as error:
        if error is inspection.raised:
            raise
        inspection.fault("unreadable", f"{type(error).__name__}: {error}")

"""verify: recompute the whole log and compare it with what is stored.

Works in pages on a fixed version, in steady memory, beside writers. A fault never stops it: all of
them are reported, up to a bound.

    pass 0  the ground    what a compaction has left, against its signed checkpoint
    pass 1  the log       every commit and fact hash, link, time, snapshot, key row
    pass 2  the pointers  entities and tombstones against the facts they lead to
    pass 3  what is beside the log: side rows, checkpoints, branches, names, indexes
    pass 4  blobs: every payload against its hash, and that what is described is there
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
from rote.kernel.state.open_space import OpenSpace
from rote.values.limits import CONTENTION_ATTEMPTS_MAX


def verify(space: OpenSpace, command: Verify, tell: Tell) -> VerifyReport:
    """The report on one space as of its head. When the space is compacted meanwhile it starts
    over, because what it was about to read may be gone."""
    against = command.against
    if against is not None:
        against = checkpoints.check_shape(against)
    for _ in range(CONTENTION_ATTEMPTS_MAX):
        ground = _ground(space)
        report = _report(space, against, tell)
        if _ground(space) == ground:
            return report
    raise Busy("the space is compacted all the time; try again")


def _ground(space: OpenSpace) -> SideRecord | None:
    return space.engine.reader().side(space.number, COMPACTION, HORIZON)


def _report(space: OpenSpace, against: dict[str, Any] | None, tell: Tell) -> VerifyReport:
    reads = space.reader()
    head = reads.rows.head(reads.number)
    version = 0 if head is None else head.version
    blob_bytes = reads.rows.blob_bytes(reads.number)
    inspection = Inspection(space, version, tell, blob_bytes=blob_bytes)
    # A reader for each: damage that one pass stumbles over may cost it its connection.
    for inspect in (
        inspect_foundation, inspect_log, inspect_entities, inspect_beside, inspect_blobs,
    ):  # fmt: skip
        _guarded(inspection, inspect, space.engine.reader())
    for index in space.wiring.indexes.values():
        _guarded(inspection, partial(inspect_indexes, index=index), space.engine.reader())
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
        max(inspection.oldest, 1),
    )


def _guarded(
    inspection: Inspection, inspect: Callable[[Inspection, Reader], None], reads: Reader
) -> None:
    """A pass that stumbles over damage reports it; the other passes still run.

    Damaged rows can make anything stumble, so every exception counts but the caller's own.
    """
    try:
        inspect(inspection, reads)
    except Exception as error:
        if error is inspection.raised:
            raise
        inspection.fault("unreadable", f"{type(error).__name__}: {error}")

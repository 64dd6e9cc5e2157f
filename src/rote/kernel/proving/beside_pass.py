"""Pass 3 of verify: rows beside the log, that is names, branches and side rows."""

from msgspec import structs

from rote.contract import UNDECIDED
from rote.engines import Reader
from rote.engines.rows import (
    BranchRow,
    SideRecord,
)
from rote.kernel.keeping import checkpoints
from rote.kernel.log.key_rows import attempt_of
from rote.kernel.log.seals import ATTEMPT, KEY, branch_seal, side_record, space_seal
from rote.kernel.proving.inspection import Inspection
from rote.kernel.proving.log_pass import version_of_key
from rote.kernel.state.space_reader import SpaceReader
from rote.values import decode_canonical
from rote.values.limits import (
    VERIFY_PAGE_ROWS,
)


def inspect_beside(inspection: Inspection, reads: Reader) -> None:
    space = inspection.space
    if space.seal != space_seal(space.did, space.name):
        inspection.fault("space", "its name or did was changed", id=space.name)
    if "main" not in inspection.branches:
        inspection.fault("branch", "main is missing")
    for branch in inspection.branches.rows():
        if branch.seal != branch_seal(space.did, branch):
            inspection.fault("branch", "it was changed", id=branch.name)
    _inspect_branches(inspection, reads)
    after = ("", "")
    while True:
        rows = reads.sides(inspection.number, None, after=after, limit=VERIFY_PAGE_ROWS)
        for row in rows:
            _inspect_side(inspection, reads, row)
        if len(rows) < VERIFY_PAGE_ROWS:
            return
        after = (rows[-1].kind, rows[-1].key)


def _inspect_branches(inspection: Inspection, reads: Reader) -> None:
    """Report each branch row that differs from what the events of the log make of it."""
    expected = {
        _branch_as_of(row, inspection.version) for row in inspection.lineage.branches.rows()
    }
    found = set()
    for row in inspection.branches.rows():
        for version in (row.created_version, row.deleted_version or 0):
            if version > inspection.version and not _is_recorded(inspection, reads, row, version):
                inspection.fault("branch", "no commit has made or deleted it", id=row.name)
        if row.created_version <= inspection.version:
            found.add(_branch_as_of(row, inspection.version))
    for row in sorted(expected ^ found, key=lambda row: row.name):
        inspection.fault("branch", "it is not what the commits say", id=row.name)


def _branch_as_of(row: BranchRow, version: int) -> BranchRow:
    is_deleted = row.deleted_version is not None and row.deleted_version <= version
    return structs.replace(
        row, deleted_version=row.deleted_version if is_deleted else None, seal=b""
    )


def _is_recorded(inspection: Inspection, reads: Reader, row: BranchRow, version: int) -> bool:
    """Whether a commit at this version, made since the inspection began, has made or deleted the branch."""
    rows = reads.events(inspection.number, after=version - 1, limit=1)
    return [(commit.version, commit.branch) for commit in rows] == [(version, row.branch)]


def _inspect_side(inspection: Inspection, reads: Reader, row: SideRecord) -> None:
    if row != side_record(inspection.space.did, row.kind, row.key, row.fence, row.body):
        inspection.fault(row.kind, "the side row was changed", id=row.key)
        return
    if row.kind == KEY:
        version = version_of_key(row)
        commits = reads.commits(inspection.number, after=version - 1, limit=1)
        if not commits or (commits[0].version, commits[0].key) != (version, row.key):
            inspection.fault("key", "its commit is not there", version=version, id=row.key)
    elif row.kind == ATTEMPT:
        _inspect_attempt(inspection, reads, row)
    elif row.kind == checkpoints.SIDE:
        checkpoint = checkpoints.check_shape(decode_canonical(row.body))
        inspection.faults += [
            fault
            for fault in checkpoints.faults_against(
                SpaceReader(inspection.space, reads), checkpoint, oldest=inspection.oldest
            )
            if fault.kind != UNDECIDED
        ]


def _inspect_attempt(inspection: Inspection, reads: Reader, row: SideRecord) -> None:
    version = version_of_key(row)
    commits = reads.commits(inspection.number, after=version - 1, limit=1) if version else []
    if any(commit.version == version and attempt_of(commit) == row.key for commit in commits):
        return
    # A compaction keeps no commit for its attempt; and one that was settled has none.
    if version >= max(inspection.oldest, 1):
        inspection.fault("attempt", "its commit is not there", version=version, id=row.key)

"""Making the rows of branches, with their seals."""

from msgspec import structs

from rote.engines.rows import MAIN, BranchRow
from rote.kernel.log.branches import Branches
from rote.kernel.log.seals import branch_seal


def main_row(did: str) -> BranchRow:
    return sealed(did, BranchRow(MAIN, "main", None, 0, 0, None, b""))


def created_row(
    did: str, branches: Branches, name: str, *, parent: BranchRow, fork_version: int, version: int
) -> BranchRow:
    """Return the row of a branch that is made at `version`."""
    number = branches.last_number + 1
    return sealed(did, BranchRow(number, name, parent.branch, fork_version, version, None, b""))


def deleted_row(did: str, row: BranchRow, version: int) -> BranchRow:
    return sealed(did, structs.replace(row, deleted_version=version))


def sealed(did: str, row: BranchRow) -> BranchRow:
    return structs.replace(row, seal=branch_seal(did, row))

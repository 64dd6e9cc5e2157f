"""Branch rows computed anew from the events of the log, for verify and for adoption."""

from collections.abc import Iterable

from rote.engines.rows import MAIN, BranchRow
from rote.errors import InvalidInput
from rote.kernel.log.branch_rows import created_row, deleted_row, main_row
from rote.kernel.log.branches import Branches, writable
from rote.kernel.log.events import (
    BranchCreated,
    BranchDeleted,
    EntityErased,
    Happening,
    SpaceCompacted,
)


class Lineage:
    """The branches of a space after some of its commits."""

    def __init__(self, did: str, rows: Iterable[BranchRow] = ()) -> None:
        self._did = did
        self.branches = Branches(list(rows) or [main_row(did)])

    def follow(
        self, happening: Happening | None, *, branch: str, version: int, facts: int
    ) -> BranchRow | None:
        """Apply the commit at `version`; return the branch row that it makes or changes, or None.

        Raise InvalidInput when such a commit cannot be in the log.
        """
        if isinstance(happening, BranchCreated):
            row = self._created(happening, branch, version)
        elif isinstance(happening, BranchDeleted):
            row = self._deleted(happening, branch, version)
        else:
            row = writable(self.branches, branch)
            if happening is None and not facts:
                raise InvalidInput("it has no facts")
            if isinstance(happening, EntityErased | SpaceCompacted) and (
                facts or row.branch != MAIN
            ):
                raise InvalidInput("it has facts beside its event, or is not on main")
            return None
        if facts:
            raise InvalidInput("it has facts beside its event")
        self.branches.put(row)
        return row

    def _created(self, made: BranchCreated, branch: str, version: int) -> BranchRow:
        if made.name != branch or branch in self.branches:
            raise InvalidInput("its branch was there before, or is another one than it makes")
        if not 0 <= made.fork_version < version:
            raise InvalidInput("its branch starts above the log")
        return created_row(
            self._did,
            self.branches,
            branch,
            parent=self.branches.find(made.parent),
            fork_version=made.fork_version,
            version=version,
        )

    def _deleted(self, gone: BranchDeleted, branch: str, version: int) -> BranchRow:
        row = writable(self.branches, gone.name)
        if gone.name != branch or row.branch == MAIN:
            raise InvalidInput("its branch cannot be deleted, or is another one than it deletes")
        return deleted_row(self._did, row, version)

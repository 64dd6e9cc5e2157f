"""Branches of a space and their lines: which facts count for whom, without walking the log."""

from rote.engines.rows import BranchRow, Line
from rote.errors import Corrupt, NotFound
from rote.values import check_branch_name

# Above every version: the cap of a line that is read at its head.
NEWEST = 2**62


class Branches:
    """The branches of one space, by name."""

    def __init__(self, rows: list[BranchRow]) -> None:
        self._by_name = {row.name: row for row in rows}
        self._by_number = {row.branch: row for row in rows}
        self.numbers = {row.name: row.branch for row in rows}
        self._lines: dict[str, Line] = {}
        self.is_alone = len(rows) == 1  # main, and no other

    def find(self, name: str) -> BranchRow:
        row = self._by_name.get(name)
        if row is None:
            check_branch_name(name)
            raise NotFound(f"there is no branch {name!r} in this space", branch=name)
        return row

    def number(self, name: str) -> int:
        number = self.numbers.get(name)
        return self.find(name).branch if number is None else number

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def knows(self, number: int) -> bool:
        return number in self._by_number

    def name(self, number: int) -> str:
        return self._row(number).name

    def rows(self) -> list[BranchRow]:
        return list(self._by_number.values())

    def line(self, name: str, version: int = NEWEST) -> Line:
        """The branch's own facts, then its ancestors', each capped at the fork it was left by."""
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = self._trace(self.find(name))
        if version == NEWEST:
            return line
        if len(line) == 1:
            return ((line[0][0], version),)
        return tuple([(branch, min(cap, version)) for branch, cap in line])

    def _row(self, number: int) -> BranchRow:
        row = self._by_number.get(number)
        if row is None:
            raise Corrupt(f"branch number {number} is missing; run `rote verify`")
        return row

    def _trace(self, row: BranchRow) -> Line:
        parts, cap = [(row.branch, NEWEST)], NEWEST
        while row.parent is not None:
            if row.parent >= row.branch:
                # A parent is older than its child, so lines end.
                raise Corrupt(f"branch {row.name!r} has no possible parent; run `rote verify`")
            cap = min(cap, row.fork_version)
            row = self._row(row.parent)
            parts.append((row.branch, cap))
        return tuple(parts)

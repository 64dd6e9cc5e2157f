"""Branches of a space and their lines: which facts a branch sees, found without walking the log."""

from rote.engines.rows import BranchRow, Line, Span
from rote.errors import Corrupt, InvalidInput, NotFound
from rote.values import check_branch_name
from rote.values.limits import LINES_KEPT_MAX
from rote.values.names import told

# Above every version: the cap of a line that is read at its head.
NEWEST = 2**62


class Branches:
    """The branches of one space, by name."""

    def __init__(self, rows: list[BranchRow]) -> None:
        self.by_name = {row.name: row for row in rows}
        self._by_number = {row.branch: row for row in rows}
        self.numbers = {row.name: row.branch for row in rows}
        self._lines: dict[str, Line] = {}
        self._lines_at: dict[tuple[str, int], Line] = {}
        self.is_alone = len(rows) == 1  # main, and no other
        self.last_number = max(self._by_number, default=0)

    def find(self, name: str) -> BranchRow:
        row = self.by_name.get(name)
        if row is None:
            check_branch_name(name)
            there = told(self.by_name)
            raise NotFound(f"there is no branch {name!r} in this space; {there}", branch=name)
        return row

    def number(self, name: str) -> int:
        number = self.numbers.get(name)
        return self.find(name).branch if number is None else number

    def put(self, row: BranchRow) -> None:
        """Add the row of a branch, or replace its old one. No existing line changes."""
        self._by_number[row.branch] = self.by_name[row.name] = row
        self.numbers[row.name] = row.branch
        self.last_number = max(self.last_number, row.branch)
        self.is_alone = len(self._by_number) == 1

    def __contains__(self, name: str) -> bool:
        return name in self.by_name

    def knows(self, number: int) -> bool:
        return number in self._by_number

    def name(self, number: int) -> str:
        return self.row(number).name

    def rows(self) -> list[BranchRow]:
        return list(self._by_number.values())

    def line(self, name: str, version: int = NEWEST) -> Line:
        """Return the line of a branch: itself, then its ancestors, each capped at its fork."""
        line = self._lines.get(name)
        if line is None:
            if len(self._lines) >= LINES_KEPT_MAX:
                self._lines.clear()
            line = self._lines[name] = self._trace(self.find(name))
        if version == NEWEST:
            return line
        if len(line) == 1:
            return ((line[0][0], version),)
        return self._lines_at.get((name, version)) or self._capped(name, line, version)

    def _capped(self, name: str, line: Line, version: int) -> Line:
        if len(self._lines_at) >= LINES_KEPT_MAX:
            self._lines_at.clear()
        capped = tuple([(branch, min(cap, version)) for branch, cap in line])
        self._lines_at[(name, version)] = capped
        return capped

    def line_of(self, number: int, version: int = NEWEST) -> Line:
        """Return the line of the branch with a number."""
        return self.line(self.row(number).name, version)

    def row(self, number: int) -> BranchRow:
        row = self._by_number.get(number)
        if row is None:
            raise Corrupt(f"branch number {number} is missing; run `rote verify`")
        return row

    def _trace(self, row: BranchRow) -> Line:
        parts, cap = [(row.branch, NEWEST)], NEWEST
        while row.parent is not None:
            if row.parent >= row.branch:
                # A parent is older than its child and has a lower number; else this would not end.
                raise Corrupt(f"branch {row.name!r} has no possible parent; run `rote verify`")
            cap = min(cap, row.fork_version)
            row = self.row(row.parent)
            parts.append((row.branch, cap))
        return tuple(parts)


def writable(branches: Branches, name: str) -> BranchRow:
    branch = branches.by_name.get(name) or branches.find(name)
    if branch.deleted_version is not None:
        raise InvalidInput(f"the branch {name!r} was deleted; write to another one", branch=name)
    return branch


def spans(one: Line, other: Line) -> list[Span]:
    """Return the spans where two lines differ; all other facts are on both."""
    caps, others = dict(one), dict(other)
    found = []
    for branch in caps.keys() | others.keys():
        low, high = sorted((caps.get(branch, 0), others.get(branch, 0)))
        if low < high:
            found.append((branch, low, high))
    return sorted(found)

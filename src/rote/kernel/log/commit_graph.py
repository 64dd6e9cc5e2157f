"""The graph of commits: the ancestors of each, and the last common ancestors of two.

A node is a commit with facts, or a merge. It follows the node before it on its branch's line and,
for a merge, the source's last node. A descendant of a node also descends from all earlier nodes of
that branch. So the ancestors of a node are one version for each branch (its reach), and the common
ancestors of two nodes are the lower version for each branch:

    main     1 ── 2 ───── 5 ── 7      reach of 7: main 7, topic 4
                   ╲     ╱
    topic           3 ──4 ── 6        reach of 6: topic 6, main 2      common: main 2, topic 4

Versions grow from parent to child. So a walk from high versions to low meets every merge after all
its descendants. Only merges are kept in memory; between two merges a branch has no other parents.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Protocol

from msgspec import Struct

from rote.engines import Reader
from rote.engines.rows import CommitRow, Line
from rote.errors import Corrupt, InvalidInput, NotFound
from rote.kernel.log.branches import Branches
from rote.kernel.log.events import BranchMerged, read_event
from rote.values import decode_canonical
from rote.values.limits import PAGE_MAX

# (branch, version): the line of that branch up to that version.
Point = tuple[int, int]


class Merge(Struct, frozen=True, gc=False):
    version: int
    source: Point


class CommitGraph:
    """The merges of a space, by their target branch, oldest first."""

    def __init__(self) -> None:
        self._merges: dict[int, list[Merge]] = {}
        self._versions: dict[int, list[int]] = {}
        self._events: dict[int, list[int]] = {}  # versions of events of all kinds, by branch
        self.until = 0  # all events up to this version are noted

    def catch_up(self, reads: Reader, space: int, branches: Branches, version: int) -> None:
        while self.until < version:
            rows = reads.events(space, after=self.until, limit=PAGE_MAX)
            for row in rows:
                # A newer event may name a branch that `branches` does not have yet.
                if row.version <= version:
                    self._note(row, branches)
            is_more = len(rows) == PAGE_MAX and rows[-1].version < version
            self.until = rows[-1].version if is_more else version

    def _note(self, row: CommitRow, branches: Branches) -> None:
        self._events.setdefault(row.branch, []).append(row.version)
        event = decode_canonical(row.event or b"null")
        if type(event) is dict and event.get("type") == "merge":
            try:
                happening = read_event(event)
                assert isinstance(happening, BranchMerged)
                source = (branches.number(happening.source), happening.source_version)
            except (InvalidInput, NotFound) as error:
                raise Corrupt(f"the merge at version {row.version} was damaged: {error}") from error
            self.add(row.branch, Merge(row.version, source))

    def copy(self) -> "CommitGraph":
        """Return a copy for adding merges that are not committed yet. It has no other events."""
        graph = CommitGraph()
        graph._merges = {branch: list(merges) for branch, merges in self._merges.items()}
        graph._versions = {branch: list(versions) for branch, versions in self._versions.items()}
        graph.until = self.until
        return graph

    def add(self, branch: int, merge: Merge) -> None:
        """Add a merge to a branch; it is newer than all others."""
        self._merges.setdefault(branch, []).append(merge)
        self._versions.setdefault(branch, []).append(merge.version)

    def last_merge(self, branch: int, version: int) -> int:
        """Return the version of the newest merge on the branch itself, up to a version; or 0."""
        place = self.place(branch, version)
        return self._versions[branch][place] if place >= 0 else 0

    def last_event(self, branch: int, version: int) -> int:
        """Return the version of the newest event of any kind on the branch, up to a version; or 0."""
        versions = self._events.get(branch, [])
        place = bisect_right(versions, version)
        return versions[place - 1] if place else 0

    def merge_at(self, branch: int, place: int) -> Merge:
        return self._merges[branch][place]

    def place(self, branch: int, version: int) -> int:
        """Return the place in the branch's list of the newest merge up to a version; -1 for none."""
        return bisect_right(self._versions.get(branch, ()), version) - 1


class Writes(Protocol):
    """Tell when branches were last written to. A reader of an engine does, and so does an adoption."""

    def last_written(self, space: int, line: Line, /) -> dict[int, int]: ...


class Descent:
    """Walk from points to their ancestors, and note the reach of each side.

    The branches of a line are added at once: they are few. The merges on the line wait in a heap and
    are passed from high versions to low, so that each is met after all its descendants.
    """

    def __init__(self, graph: CommitGraph, branches: Branches, sides: int) -> None:
        self._graph = graph
        self._branches = branches
        self._waiting: list[tuple[int, int, int, int]] = []  # negative version, branch, place, side
        self._met: set[tuple[int, int, int]] = set()  # branch, place, side
        self.reach: list[dict[int, int]] = [{} for _ in range(sides)]

    def start(self, side: int, point: Point) -> None:
        branch, version = point
        reach = self.reach[side]
        while version > reach.get(branch, 0):
            reach[branch] = version
            self._wait_for_merge(side, branch, self._graph.place(branch, version))
            row = self._branches.row(branch)
            if row.parent is None:
                return
            branch, version = row.parent, min(row.fork_version, version)

    def down_to(self, version: int) -> None:
        """Pass every merge at or above a version."""
        while self._waiting and -self._waiting[0][0] >= version:
            _, branch, place, side = heappop(self._waiting)
            self._pass_merge(side, branch, place)

    def _pass_merge(self, side: int, branch: int, place: int) -> None:
        merge = self._graph.merge_at(branch, place)
        others = [reach for index, reach in enumerate(self.reach) if index != side]
        if others and all(reach.get(branch, 0) >= merge.version for reach in others):
            return  # it is a common ancestor, and so are all its ancestors
        self.start(side, merge.source)
        self._wait_for_merge(side, branch, place - 1)

    def _wait_for_merge(self, side: int, branch: int, place: int) -> None:
        if place >= 0 and (branch, place, side) not in self._met:
            self._met.add((branch, place, side))
            version = self._graph.merge_at(branch, place).version
            heappush(self._waiting, (-version, branch, place, side))


def last_node(
    graph: CommitGraph, reads: Writes, space: int, branches: Branches, point: Point
) -> Point | None:
    """Return the newest node on a point's line; None when there is none."""
    line = branches.line_of(*point)
    written = reads.last_written(space, line)
    for branch, cap in line:
        # A branch's own facts are newer than those that it inherits.
        version = max(written.get(branch, 0), graph.last_merge(branch, cap))
        if version:
            return branch, version
    return None


def merge_bases(
    graph: CommitGraph,
    reads: Writes,
    space: int,
    branches: Branches,
    *,
    left: Iterable[Point],
    right: Iterable[Point],
) -> list[Point]:
    """Return the maximal common ancestors of two sets of nodes, lowest version first."""
    walk = Descent(graph, branches, 2)
    for side, points in enumerate((left, right)):
        for point in points:
            walk.start(side, point)
    walk.down_to(0)
    ours, theirs = walk.reach
    common = tuple((branch, min(ours[branch], theirs[branch])) for branch in ours.keys() & theirs)
    written = reads.last_written(space, common)
    nodes = [
        (branch, max(written.get(branch, 0), graph.last_merge(branch, cap)))
        for branch, cap in common
    ]
    return _maximal(graph, branches, [node for node in nodes if node[1]])


def _maximal(graph: CommitGraph, branches: Branches, nodes: Sequence[Point]) -> list[Point]:
    """Return the nodes of which no other node is a descendant, lowest version first."""
    walk = Descent(graph, branches, 1)
    kept: list[Point] = []
    reach = walk.reach[0]
    for branch, version in sorted(nodes, key=lambda node: -node[1]):
        if reach.get(branch, 0) < version:
            # Most nodes are on the line of a kept one. For the others merges have to be passed.
            walk.down_to(version)
        if reach.get(branch, 0) < version:
            kept.append((branch, version))
            walk.start(0, (branch, version))
    return kept[::-1]

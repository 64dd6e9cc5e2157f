"""The base of each entity in a merge, also when the merge has several bases.

Two branches that have merged each other have two bases. Where both bases hold the same, that is the
base of the entity. Where they differ, the bases are merged first, by the same rule, with their own
bases; an entity that conflicts there has no base. This goes down by a loop with its own stack, not
by recursion, because branches may have merged each other very often.
"""

from collections.abc import Sequence

from msgspec import Struct

from rote.engines import Reader
from rote.kernel.log.branches import Branches
from rote.kernel.log.commit_graph import CommitGraph, Point, merge_bases
from rote.kernel.log.entries import ABSENT, Entry, load, same

# The base of an entity whose bases conflict. It is compared by identity and equals no entry.
NO_BASE = Entry.deleted()


class Ground(Struct, frozen=True):
    """The graph, rows and branches that a merge reads."""

    graph: CommitGraph
    reads: Reader
    space: int
    branches: Branches

    def entries(self, point: Point, ids: Sequence[str]) -> dict[str, Entry]:
        """Return the entries of those ids that were written up to a point."""
        return load(self.reads, self.space, ids, self.branches.line_of(*point))


class _Frame(Struct):
    """A merge of several bases, one after the other, for the ids where they differ."""

    bases: Sequence[Point]
    states: list[dict[str, Entry]]  # the entries at each base
    found: dict[str, Entry]  # by id: the base of the entity, or the merge so far
    ids: list[str]  # where the bases differ
    place: int = 1  # of the base that is merged next


def resolve(ground: Ground, bases: Sequence[Point], ids: Sequence[str]) -> dict[str, Entry]:
    """Return the base of each id; it may be ABSENT, or NO_BASE where the bases conflict."""
    stack = [_frame(ground, bases, ids)]
    while True:
        frame = stack[-1]
        if not frame.ids or frame.place >= len(frame.bases):
            stack.pop()
            if not stack:
                return frame.found
            _fold(stack[-1], frame.found)
            continue
        below = merge_bases(
            ground.graph,
            ground.reads,
            ground.space,
            ground.branches,
            left=frame.bases[: frame.place],
            right=[frame.bases[frame.place]],
        )
        stack.append(_frame(ground, below, frame.ids))


def _frame(ground: Ground, bases: Sequence[Point], ids: Sequence[str]) -> _Frame:
    states = [ground.entries(base, ids) for base in bases]
    found, differing = {}, []
    for id in ids:
        first = states[0].get(id, ABSENT) if states else ABSENT
        found[id] = first
        if not all(same(first, state.get(id, ABSENT)) for state in states):
            differing.append(id)
    return _Frame(bases, states, found, differing)


def _fold(frame: _Frame, below: dict[str, Entry]) -> None:
    """Merge the next base into the merge so far; `below` holds the bases of both."""
    state = frame.states[frame.place]
    for id in frame.ids:
        one, other, base = frame.found[id], state.get(id, ABSENT), below[id]
        if one is NO_BASE or same(one, other):
            continue
        if base is not NO_BASE and same(other, base):
            continue
        took = base is not NO_BASE and same(one, base)
        frame.found[id] = other if took else NO_BASE
    frame.place += 1

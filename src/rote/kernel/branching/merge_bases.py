"""The base of a merge, entity by entity, also where there are several.

When two branches have merged each other, they have two bases. Where those agree, that is the base.
Where they do not, they are merged themselves, by the same rule, with their own bases; what conflicts
there has no base. Going down is a loop with a stack of its own: histories may criss-cross for long.
"""

from collections.abc import Sequence

from msgspec import Struct

from rote.engines import Reader
from rote.kernel.log.branches import Branches
from rote.kernel.log.commit_graph import CommitGraph, Point, merge_bases
from rote.kernel.log.entries import ABSENT, Entry, load, same

# Where the bases conflict: absent, and equal to nothing.
NO_BASE = Entry(0, None, None, False)


class Ground(Struct, frozen=True):
    """What a merge stands on."""

    graph: CommitGraph
    reads: Reader
    space: int
    branches: Branches

    def entries(self, point: Point, ids: Sequence[str]) -> dict[str, Entry]:
        """The entries of those ids that were written up to a point."""
        return load(self.reads, self.space, ids, self.branches.line_of(*point))


class _Frame(Struct):
    """Several bases, being merged one after the other for the ids where they differ."""

    bases: Sequence[Point]
    states: list[dict[str, Entry]]  # of each base
    found: dict[str, Entry]  # by id: what is decided, then the merge so far
    ids: list[str]  # still to be merged
    place: int = 1  # the base that is next


def resolve(ground: Ground, bases: Sequence[Point], ids: Sequence[str]) -> dict[str, Entry]:
    """For each id its base, ABSENT included, or NO_BASE."""
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
    """Merge the next base into what is merged so far, with the base of both at hand."""
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

"""Directed graphs, and the cycles in them. Pure; nodes are numbers."""

from collections import deque
from collections.abc import Iterable

Edges = dict[int, dict[int, str]]  # from a node to others, with a word for the reason

# The search for a short cycle begins at so many nodes at most: any cycle of a knot is a finding.
_STARTS_MAX = 64


def knots(edges: Edges, nodes: Iterable[int]) -> list[list[int]]:
    """Return the sets of two or more nodes that all reach each other (Tarjan 1972, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter(edges.get(root, ())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, successors = work[-1]
            advanced = False
            for successor in successors:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    on_stack.add(successor)
                    work.append((successor, iter(edges.get(successor, ()))))
                    advanced = True
                    break
                if successor in on_stack:
                    low[node] = min(low[node], index[successor])
            if advanced:
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == index[node]:
                knot: list[int] = []
                while not knot or knot[-1] != node:
                    knot.append(stack.pop())
                    on_stack.discard(knot[-1])
                if len(knot) > 1:
                    found.append(sorted(knot))
    return found


def short_cycle(edges: Edges, knot: list[int]) -> list[int]:
    """Return a cycle inside a knot, the shortest through any of its first nodes."""
    inside = set(knot)
    cycles = [_cycle_through(edges, inside, start) for start in knot[:_STARTS_MAX]]
    return min(cycles, key=len)


def _cycle_through(edges: Edges, inside: set[int], start: int) -> list[int]:
    before: dict[int, int] = {}
    waiting = deque([start])
    while waiting:
        node = waiting.popleft()
        for successor in edges.get(node, ()):
            if successor == start:
                cycle = [node]
                while cycle[-1] != start:
                    cycle.append(before[cycle[-1]])
                return cycle[::-1]
            if successor in inside and successor not in before:
                before[successor] = node
                waiting.append(successor)
    raise ValueError(f"{start} is in no cycle")

"""The work that a schema can make: the number of times it is applied to one place of a value.

References make a short schema powerful. When two parts of a schema apply to the same member, and
both refer to the whole schema again, each level of a value doubles the work:

    {"oneOf": [{"properties": {"left": {"$ref": "#"}}},
               {"properties": {"left": {"$ref": "#"}}}]}

So before a schema is used, Rote counts for each depth how many schemas apply to the deepest place.
The count assumes that no evaluation stops early: it may be too high, and is never too low.
"""

from rote.schemas.document import Document, Key, Node
from rote.schemas.violations import Violated
from rote.values.limits import (
    DEPTH_MAX,
    SCHEMA_EVALUATIONS_MAX,
    SCHEMA_KEYS_MAX,
    SCHEMA_STEPS_MAX,
)

# Larger counts are cut to this one: counts of nodes that the root never reaches may grow forever.
_COUNT_MAX = SCHEMA_EVALUATIONS_MAX + 1


def evaluations(document: Document, *, weighted: bool = False) -> tuple[int, ...]:
    """Return, for each depth of a value, the most evaluations of one place, or their cost.

    A value that is deeper than the list is long must not be judged.
    """
    order = _inner_first(document)
    keys = _keys(order)
    counts = [0] * len(order)
    for node in order:
        own = node.weight if weighted else 1
        counts[node.number] = min(own + _sum(node.here, counts), _COUNT_MAX)
    if counts[0] > SCHEMA_EVALUATIONS_MAX:
        raise Violated("", "$ref", "its references repeat too much; say it with fewer")
    most = [counts[0]]
    for _ in range(DEPTH_MAX):
        deeper = _one_deeper(order, keys, counts)
        if deeper[0] > SCHEMA_EVALUATIONS_MAX:
            return tuple(most)
        most.append(max(most[-1], deeper[0]))
        if deeper == counts:
            break  # all deeper levels have the same count
        counts = deeper
    return tuple(most + most[-1:] * (DEPTH_MAX + 1 - len(most)))


def _inner_first(document: Document) -> list[Node]:
    """Return the nodes, each after the nodes that it applies to the same value.

    Refuses a schema that applies itself to the same value, because judging would never end.
    """
    order: list[Node] = []
    steps: dict[Node, int] = {}  # 0 while a node waits for the nodes that it applies
    for root in document.nodes:
        stack = [root]
        while stack:
            node = stack[-1]
            if node not in steps:
                steps[node] = 0
                for part in node.here:
                    if steps.get(part) == 0:
                        reason = "it leads back to itself without going into the value; take it out"
                        raise Violated(part.pointer, "$ref", reason)
                    if part not in steps:
                        stack.append(part)
                continue
            stack.pop()
            if steps[node] == 0:
                steps[node] = 1 + max((steps[part] for part in node.here), default=0)
                order.append(node)
            if steps[node] > SCHEMA_STEPS_MAX:
                reason = (
                    f"more than {SCHEMA_STEPS_MAX} schemas, one behind the other, for one value"
                )
                raise Violated(node.pointer, "$ref", reason)
    return order


def _keys(order: list[Node]) -> list[tuple[Key, ...]]:
    """Return, for each node, the members and elements that it or its applied nodes name."""
    found: list[tuple[Key, ...]] = [()] * len(order)
    room = SCHEMA_KEYS_MAX
    for node in order:
        keys = dict.fromkeys(node.keys)
        for part in node.here:
            keys.update(dict.fromkeys(found[part.number]))
        room -= len(keys)
        if room < 0:
            raise Violated(
                node.pointer, "$ref", "its parts name too many members; split the schema"
            )
        found[node.number] = tuple(keys)
    return found


_Spread = tuple[dict[Key, int], int, int]  # by key, any other member, any other element


def _one_deeper(order: list[Node], keys: list[tuple[Key, ...]], counts: list[int]) -> list[int]:
    """Return the counts one level deeper: the highest count of any member or element."""
    spreads: list[_Spread] = [({}, 0, 0)] * len(order)
    deeper = [0] * len(order)
    for node in order:
        member, element = _sum(node.any_member, counts), _sum(node.any_element, counts)
        parts = [spreads[part.number] for part in node.here]
        by_key = {}
        for key in keys[node.number]:
            is_member = type(key) is str
            own, other = node.keys.get(key), member if is_member else element
            count = other if own is None else _sum(own, counts)
            for named, any_member, any_element in parts:
                count += named.get(key, any_member if is_member else any_element)
            by_key[key] = min(count, _COUNT_MAX)
        member = min(member + sum(part[1] for part in parts), _COUNT_MAX)
        element = min(element + sum(part[2] for part in parts), _COUNT_MAX)
        spreads[node.number] = (by_key, member, element)
        deeper[node.number] = max(member, element, *by_key.values())
    return deeper


def _sum(nodes: list[Node], counts: list[int]) -> int:
    return sum(counts[node.number] for node in nodes)

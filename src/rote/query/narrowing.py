"""Schemas that decide which links a walk follows: narrowing, matching and schemas of members.

A narrowed schema is the set of the nodes that were narrowed with each other. Narrowing with a node
that is in the set does not change the set, so walks along cycles end.

    {}               true: every link is followed
    {node, …}        a link is followed if all nodes allow it
    {FALSE}          no link is followed
"""

from collections.abc import Collection, Iterable
from typing import Final

from rote.query.links import ABSENT, Absent
from rote.query.schemas import FALSE, TRUE, Node
from rote.values import Json, canonical
from rote.values.limits import ALTERNATIVES_MAX, EXPANSION_STEPS_FREE, EXPANSION_STEPS_MAX

Schema = frozenset[Node]

EVERYTHING: Final[Schema] = frozenset()
NOTHING: Final[Schema] = frozenset((FALSE,))


def schema_of(nodes: Iterable[Node]) -> Schema:
    """Narrow nodes with each other: false wins, true yields, disjoint types are false."""
    found = {_collapsed(node) for node in nodes}
    if FALSE in found:
        return NOTHING
    found.discard(TRUE)
    if not found:
        return EVERYTHING
    kinds: frozenset[str] | None = None
    for node in found:
        if not node.chain.ends:
            return NOTHING
        if node.chain.kinds is not None:
            kinds = node.chain.kinds if kinds is None else kinds & node.chain.kinds
    if kinds is not None and not kinds:
        return NOTHING
    return frozenset(found)


def narrowed(schema: Schema, node: Node) -> Schema:
    """Return the schema of a context, narrowed with the own schema of a link."""
    if node is TRUE or schema is NOTHING or node in schema:
        return schema
    return schema_of((*schema, node))


def combines(schema: Schema) -> bool:
    """Whether options decide if a link is followed at all."""
    return any(node.chain.combines for node in schema)


def _collapsed(node: Node) -> Node:
    """Return the target of a node that only refers, TRUE for one that says nothing, else the node."""
    plain = node.reference is not None and node.says_nothing() and not node.combines
    if plain and not node.has_default and node.reference is not None:
        return node.reference
    return TRUE if _is_open(node) else node


def _is_open(node: Node) -> bool:
    return (
        node.reference is None
        and not node.combines
        and node.says_nothing()
        and not node.has_default
        and node is not FALSE
    )


# -- members ---------------------------------------------------------------------------------------


def member(flat: Schema, name: str) -> Schema:
    """Return the schema of a member: of the nodes that declare it, else of additionalProperties."""
    declared = [
        node.properties[name]
        for node in flat
        if node.properties is not None and name in node.properties
    ]
    if declared:
        return schema_of(declared)
    others = []
    for node in flat:
        if node.additional is not None:
            others.append(node.additional)
        elif node.properties is not None:
            return NOTHING
    return schema_of(others)


def element(flat: Schema, index: int) -> Schema:
    """Return the schema of an array's element."""
    found = []
    for node in flat:
        if node.prefix is not None and index < len(node.prefix):
            found.append(node.prefix[index])
        elif node.items is not None:
            found.append(node.items)
        elif node.prefix is not None:
            return NOTHING
    return schema_of(found)


def default_of(node: Node) -> Json | Absent:
    """Return the default of a declared property, ABSENT when it has none."""
    return node.chain.default[0] if node.chain.default else ABSENT


def order_of(node: Node) -> tuple[bytes, int]:
    return node.order


def in_order(flats: list[Schema]) -> list[Schema]:
    """Return schemas in the same order in every run; sets of nodes have no order of their own."""
    return sorted(flats, key=lambda flat: sorted(map(order_of, flat)))


# -- matching --------------------------------------------------------------------------------------


def matches(schema: Schema, value: Json | Absent) -> bool:
    """Whether a value matches all nodes, by the keywords that need no look at its members."""
    return schema <= _matching(schema, _reachable(schema), value)


class Effort:
    """The number of steps that are left while one place is expanded."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = EXPANSION_STEPS_MAX

    @property
    def is_spent(self) -> bool:
        return self._left < 0

    def spend(self, steps: int) -> bool:
        """Take steps from what is left, the free ones aside; return False when none are left."""
        self._left -= max(steps - EXPANSION_STEPS_FREE, 0)
        return not self.is_spent


def alternatives(schema: Schema, value: Json, effort: Effort) -> tuple[list[Schema], bool]:
    """Return the sets of nodes to follow, and whether a bound has left some out.

    There is one set for each way to choose among options, and none when the value does not match.
    """
    if effort.is_spent:
        return [], True
    nodes = _reachable(schema)
    if not effort.spend(len(nodes)):
        return [], True
    matching = _matching(schema, nodes, value)
    if not schema <= matching:
        return [], False
    if not any(node.reference or node.combines for node in schema):
        return [schema], False
    found: dict[Schema, None] = {}
    # The nodes chosen so far; the nodes still to open, each with those opened on the way to it.
    waiting: list[tuple[Schema, tuple[tuple[Node, Schema], ...]]] = [
        (EVERYTHING, tuple((node, EVERYTHING) for node in sorted(schema, key=order_of)))
    ]
    steps = 0
    while waiting:
        steps += 1
        if len(found) >= ALTERNATIVES_MAX or steps > ALTERNATIVES_MAX * 16:
            return list(found), True
        chosen, pending = waiting.pop()
        if not pending:
            found[chosen] = None
            continue
        (node, opened), *rest = pending
        if not effort.spend(len(chosen) + len(rest) + len(opened)):
            return list(found), True
        if node in opened or node not in matching:
            continue  # a reference to itself, with nothing in between, never matches
        within = opened | {node}
        must = [] if node.reference is None else [(node.reference, within)]
        ways: list[list[tuple[Node, Schema]]] = [must]
        for options in [*node.any_of, *([node.all_of] if node.all_of else [])]:
            ways = [[*way, (option, within)] for way in ways for option in options]
            if len(ways) > ALTERNATIVES_MAX:
                return list(found), True
        own = chosen if node is TRUE else chosen | {node}
        waiting += [(own, (*way, *rest)) for way in ways]
    return list(found), False


def _matching(schema: Schema, nodes: Collection[Node], value: Json | Absent) -> set[Node]:
    """Return the nodes that match, among those of a schema and those their options lead to.

    Nodes may lead to themselves. So it starts with nodes that depend on no other node and goes on to
    the nodes that depend on them.
    """
    text = _Text(value)
    able = {node for node in nodes if _matches_itself(node, value, text)}
    if nodes is schema:
        return able
    asks = {node: _asked_by(node) for node in able}
    askers: dict[Node, list[tuple[Node, int]]] = {}
    for node, groups in asks.items():
        for number, group in enumerate(groups):
            for other in group:
                askers.setdefault(other, []).append((node, number))
    unmet = {node: set(range(len(groups))) for node, groups in asks.items()}
    waiting = [node for node in able if not unmet[node]]
    found: set[Node] = set(waiting)
    while waiting:
        for node, number in askers.get(waiting.pop(), ()):
            unmet[node].discard(number)
            if not unmet[node] and node not in found:
                found.add(node)
                waiting.append(node)
    return found


def _asked_by(node: Node) -> list[list[Node]]:
    """Return groups of nodes; in each of them one node must match."""
    groups = [*node.any_of, *([option] for option in node.all_of)]
    return groups if node.reference is None else [*groups, [node.reference]]


def _reachable(schema: Schema) -> Collection[Node]:
    if not any(node.reference or node.combines for node in schema):
        return schema
    found: dict[Node, None] = {}
    waiting = list(schema)
    while waiting:
        node = waiting.pop()
        if node in found:
            continue
        found[node] = None
        if node.reference is not None:
            waiting.append(node.reference)
        waiting += node.all_of
        for options in node.any_of:
            waiting += options
    return found


def reach(schema: Schema) -> int:
    """Return the number of nodes that deciding whether a value matches may look at."""
    return len(_reachable(schema))


class _Text:
    """The canonical form of a value, made at its first use."""

    def __init__(self, value: Json | Absent) -> None:
        self._value = value
        self._text: bytes | None = None

    def is_in(self, allowed: frozenset[bytes]) -> bool:
        if self._text is None:
            assert not isinstance(self._value, Absent)
            self._text = canonical(self._value)
        return self._text in allowed


def _matches_itself(node: Node, value: Json | Absent, text: _Text) -> bool:
    """Whether a node matches by its own keywords, without options and references.

    A value that is missing matches only a node that says nothing.
    """
    if node is FALSE:
        return False
    if value is ABSENT:
        return node.says_nothing()
    assert not isinstance(value, Absent)
    if node.kinds is not None and kind_of(value) not in node.kinds:
        return False
    if node.required and type(value) is dict and not all(name in value for name in node.required):
        return False
    return node.allowed is None or text.is_in(node.allowed)


_SCALARS: dict[type, str] = {
    str: "string", bool: "boolean", int: "integer", dict: "object", list: "array", type(None): "null",
}  # fmt: skip


def kind_of(value: Json) -> str:
    if type(value) is float:
        return "integer" if value.is_integer() else "fraction"
    return _SCALARS[type(value)]

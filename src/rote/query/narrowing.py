"""What a schema lets a walk follow: narrowing, matching and the schemas of members.

A narrowed schema is the set of the nodes that were narrowed with each other. A set does not grow by
narrowing with what is in it, so walks along cycles end.

    {}               true: every link
    {node, …}        all of them at once
    {FALSE}          nothing
"""

from collections.abc import Iterable
from typing import Final

from rote.query.links import ABSENT, Absent
from rote.query.schemas import FALSE, TRUE, Node
from rote.values import Json, canonical
from rote.values.limits import ALTERNATIVES_MAX

Schema = frozenset[Node]

EVERYTHING: Final[Schema] = frozenset()
NOTHING: Final[Schema] = frozenset((FALSE,))


def schema_of(nodes: Iterable[Node]) -> Schema:
    """Nodes narrowed with each other: false wins, true yields, disjoint types are false."""
    found = {_collapsed(node) for node in nodes}
    if FALSE in found:
        return NOTHING
    found.discard(TRUE)
    if not found:
        return EVERYTHING
    kinds: frozenset[str] | None = None
    for node in found:
        for part in _chain(node):
            if part is FALSE:
                return NOTHING
            if part.kinds is not None:
                kinds = part.kinds if kinds is None else kinds & part.kinds
    if kinds is not None and not kinds:
        return NOTHING
    return frozenset(found)


def narrowed(schema: Schema, node: Node) -> Schema:
    """The schema of a context at a link with a schema of its own."""
    if node is TRUE or schema is NOTHING or node in schema:
        return schema
    return schema_of((*schema, node))


def combines(schema: Schema) -> bool:
    """Whether options decide if a link is followed at all."""
    return any(part.combines for node in schema for part in _chain(node))


def _collapsed(node: Node) -> Node:
    """A reference with nothing beside it is what it refers to."""
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


def _chain(node: Node) -> list[Node]:
    """A node and what it refers to, options left aside; FALSE ends a chain that would never end."""
    found = [node]
    while node.reference is not None:
        node = FALSE if node.reference in found else node.reference
        found.append(node)
    return found


# -- members ---------------------------------------------------------------------------------------


def member(flat: Schema, name: str) -> Schema:
    """The schema of an object's member: those that declare it; none does: what all say of others."""
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
    """The schema of an array's element."""
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
    """What stands for a declared property that is missing."""
    return next((part.default for part in _chain(node) if part.has_default), ABSENT)


def order_of(node: Node) -> tuple[bytes, int]:
    return node.order


def in_order(flats: list[Schema]) -> list[Schema]:
    """The same in every run: sets of nodes have no order of their own."""
    return sorted(flats, key=lambda flat: sorted(map(order_of, flat)))


# -- matching --------------------------------------------------------------------------------------


def matches(schema: Schema, value: Json | Absent) -> bool:
    """Whether a value, looked at from outside, is what all nodes ask for."""
    return schema <= _matching(schema, value)


def alternatives(schema: Schema, value: Json) -> tuple[list[Schema], bool]:
    """The sets of nodes to follow by, one for each way to choose among options; none when the value
    does not match. And whether there were more than are bearable."""
    matching = _matching(schema, value)
    if not schema <= matching:
        return [], False
    if not any(node.reference or node.combines for node in schema):
        return [schema], False
    found: dict[Schema, None] = {}
    # What is chosen so far, what is to be opened, and what was opened to get there.
    waiting: list[tuple[Schema, tuple[tuple[Node, Schema], ...]]] = [
        (EVERYTHING, tuple((node, EVERYTHING) for node in schema))
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


def _matching(schema: Schema, value: Json | Absent) -> set[Node]:
    """Of the nodes of a schema and all that their options lead to, those that match.

    Nodes may lead to themselves, so it starts with none and adds until nothing changes.
    """
    nodes = _reachable(schema)
    able = [node for node in nodes if _matches_itself(node, value)]
    found: set[Node] = set()
    grows = True
    while grows:
        grows = False
        for node in able:
            if node not in found and _holds(node, found):
                found.add(node)
                grows = True
    return found


def _reachable(schema: Schema) -> Iterable[Node]:
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


def _holds(node: Node, matching: set[Node]) -> bool:
    return (
        (node.reference is None or node.reference in matching)
        and all(option in matching for option in node.all_of)
        and all(any(option in matching for option in options) for options in node.any_of)
    )


def _matches_itself(node: Node, value: Json | Absent) -> bool:
    """By its own keywords, options and references left aside. What is missing matches true alone."""
    if node is FALSE:
        return False
    if value is ABSENT:
        return node.says_nothing()
    assert not isinstance(value, Absent)
    if node.kinds is not None and kind_of(value) not in node.kinds:
        return False
    if node.required and type(value) is dict and not all(name in value for name in node.required):
        return False
    return node.allowed is None or canonical(value) in node.allowed


_SCALARS: dict[type, str] = {
    str: "string", bool: "boolean", int: "integer", dict: "object", list: "array", type(None): "null",
}  # fmt: skip


def kind_of(value: Json) -> str:
    if type(value) is float:
        return "integer" if value.is_integer() else "fraction"
    return _SCALARS[type(value)]

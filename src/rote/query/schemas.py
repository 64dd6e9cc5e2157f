"""Schemas as a walk uses them: the keywords that choose links, as nodes that may form cycles.

Each schema of a document becomes one node. Nodes are compared by identity and a document is read
once, so a walk has finitely many places, also when schemas refer to each other in cycles.
"""

from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

from msgspec import Struct

from rote.errors import InvalidInput, InvalidValue
from rote.patch.pointer import format_pointer, parse_pointer
from rote.values import Json, canonical
from rote.values.limits import SCHEMA_NODES_MAX

# The kinds of values that a type names. An integer is a number, and nothing else overlaps.
_KINDS: dict[str, frozenset[str]] = {
    "null": frozenset(("null",)),
    "boolean": frozenset(("boolean",)),
    "integer": frozenset(("integer",)),
    "number": frozenset(("integer", "fraction")),
    "string": frozenset(("string",)),
    "array": frozenset(("array",)),
    "object": frozenset(("object",)),
}
_ANY_OF = ("anyOf", "oneOf")
_DEFINITIONS = "#/$defs/"

_Tokens = tuple[str | int, ...]


class _Chain(Struct, frozen=True, gc=False):
    """The rules of a node and of the nodes that it refers to, one after the other, together.

    Options are not part of it.
    """

    ends: bool = True  # False when the references lead to false, or back to the node
    kinds: frozenset[str] | None = None  # the kinds that all nodes allow
    combines: bool = False
    default: tuple[Json, ...] = ()  # the default of the first node that has one


class Node:
    """One schema; a keyword that was not written is None."""

    __slots__ = (
        "additional", "all_of", "allowed", "any_of", "chain", "default", "has_default", "items",
        "kinds", "order", "prefix", "properties", "reference", "required",
    )  # fmt: skip

    def __init__(self) -> None:
        self.kinds: frozenset[str] | None = None  # type
        self.allowed: frozenset[bytes] | None = None  # enum and const, canonical
        self.required: tuple[str, ...] = ()
        self.properties: dict[str, Node] | None = None
        self.additional: Node | None = None  # additionalProperties
        self.prefix: list[Node] | None = None  # prefixItems
        self.items: Node | None = None
        self.any_of: list[list[Node]] = []  # anyOf and oneOf: the options of each
        self.all_of: list[Node] = []
        self.reference: Node | None = None  # $ref
        self.default: Json = None
        self.has_default = False
        self.order: tuple[bytes, int] = (b"", 0)  # its document, and its place in it
        self.chain = _Chain()

    @property
    def combines(self) -> bool:
        return bool(self.any_of or self.all_of)

    def says_nothing(self) -> bool:
        """Whether it is like true, apart from its options and its reference."""
        return (
            self.kinds is None
            and self.allowed is None
            and not self.required
            and self.properties is None
            and self.additional is None
            and self.prefix is None
            and self.items is None
        )


TRUE = Node()
FALSE = Node()
FALSE.chain = _Chain(ends=False)


class Schemas:
    """The documents of one walk, each read once."""

    def __init__(self) -> None:
        self._documents: dict[bytes, Node] = {}

    def __len__(self) -> int:
        return len(self._documents)

    def read(self, document: Json) -> Node:
        """Return the node of a whole document; InvalidInput when it is no schema."""
        if document is True:
            return TRUE
        if document is False:
            return FALSE
        try:
            key = canonical(document)
        except InvalidValue as error:
            raise InvalidInput(f"not a schema: {error}") from None
        node = self._documents.get(key)
        if node is None:
            node = self._documents[key] = _Document(document, key).read()
        return node

    def read_link(self, document: Json) -> Node:
        """Return the node of a schema in a link; an invalid schema gives TRUE."""
        try:
            return self.read(document)
        except InvalidInput:
            return TRUE


class _Document:
    def __init__(self, root: Json, text: bytes) -> None:
        self._root = root
        self._text = text
        self._nodes: dict[int, Node] = {}  # by the identity of the raw schema
        self._waiting: list[tuple[dict[str, Any], Node, _Tokens]] = []
        self._references: list[tuple[Node, str]] = []

    def read(self) -> Node:
        top = self._node(self._root, ())
        while self._waiting:
            self._fill(*self._waiting.pop())
        for node, reference in self._references:
            node.reference = self._resolve(reference)
        ends: dict[Node, Node] = {}
        for node in self._nodes.values():
            node.reference = None if node.reference is None else _end_of(node.reference, ends)
        _chain_up(self._nodes.values())
        return _end_of(top, ends)

    def _node(self, raw: Any, place: _Tokens) -> Node:
        if type(raw) is bool:
            return TRUE if raw else FALSE
        if type(raw) is not dict:
            raise _invalid(place, "a schema is an object, true or false")
        if not raw:
            self._nodes[id(raw)] = TRUE
            return TRUE
        node = self._nodes.get(id(raw))
        if node is None:
            if len(self._nodes) >= SCHEMA_NODES_MAX:
                raise _invalid(place, f"there are more than {SCHEMA_NODES_MAX:,} schemas in it")
            node = self._nodes[id(raw)] = Node()
            node.order = (self._text, len(self._nodes))
            self._waiting.append((raw, node, place))
        return node

    def _fill(self, raw: dict[str, Any], node: Node, place: _Tokens) -> None:
        node.kinds = _kinds(raw, place)
        node.allowed = _allowed(raw, place)
        node.required = tuple(_texts(raw, "required", place))
        if "properties" in raw:
            node.properties = self._members(raw, "properties", place)
        if "additionalProperties" in raw:
            node.additional = self._node(
                raw["additionalProperties"], (*place, "additionalProperties")
            )
        if "prefixItems" in raw:
            node.prefix = self._list(raw, "prefixItems", place)
        if "items" in raw:
            node.items = self._node(raw["items"], (*place, "items"))
        node.any_of = [self._list(raw, name, place, size_min=1) for name in _ANY_OF if name in raw]
        node.all_of = self._list(raw, "allOf", place, size_min=1) if "allOf" in raw else []
        if "$defs" in raw:
            self._members(raw, "$defs", place)
        if "$ref" in raw:
            if type(raw["$ref"]) is not str:
                raise _invalid((*place, "$ref"), "a reference is text")
            self._references.append((node, raw["$ref"]))
        node.has_default, node.default = "default" in raw, raw.get("default")

    def _members(self, raw: dict[str, Any], name: str, place: _Tokens) -> dict[str, Node]:
        members = raw[name]
        if type(members) is not dict:
            raise _invalid((*place, name), "it is an object of schemas")
        return {key: self._node(member, (*place, name, key)) for key, member in members.items()}

    def _list(
        self, raw: dict[str, Any], name: str, place: _Tokens, *, size_min: int = 0
    ) -> list[Node]:
        options = raw[name]
        if type(options) is not list or len(options) < size_min:
            raise _invalid((*place, name), "it is a list of schemas")
        return [self._node(option, (*place, name, index)) for index, option in enumerate(options)]

    def _resolve(self, reference: str) -> Node:
        """Return the node that a reference leads to, FALSE when it leads nowhere."""
        if not reference.startswith(_DEFINITIONS):
            return FALSE
        try:
            tokens = parse_pointer(unquote(reference[1:]))
        except InvalidInput:
            return FALSE
        raw: Any = self._root
        for token in tokens:
            if type(raw) is dict and token in raw:
                raw = raw[token]
            elif type(raw) is list and token.isdecimal() and int(token[:9]) < len(raw):
                raw = raw[int(token[:9])]
            else:
                return FALSE
        if type(raw) is bool:
            return TRUE if raw else FALSE
        return self._nodes.get(id(raw), FALSE)


def _end_of(node: Node, ends: dict[Node, Node]) -> Node:
    """Return the end of a chain of nodes that only refer, FALSE when it has no end.

    `ends` keeps the ends that were found.
    """
    met: dict[Node, None] = {}
    while node not in ends and node not in met and _only_refers(node):
        met[node] = None
        assert node.reference is not None
        node = node.reference
    end = FALSE if node in met else ends.get(node, node)
    ends.update(dict.fromkeys(met, end))
    return end


def _only_refers(node: Node) -> bool:
    return (
        node.reference is not None
        and node.says_nothing()
        and not node.combines
        and not node.has_default
    )


def _chain_up(nodes: Iterable[Node]) -> None:
    """Give every node the rules of itself and the nodes that it refers to, together."""
    done: set[Node] = {TRUE, FALSE}
    for node in nodes:
        met: dict[Node, None] = {}
        last: Node | None = node
        while last is not None and last not in done and last not in met:
            met[last] = None
            last = last.reference
        # A node whose references lead back to it allows nothing.
        below = _Chain() if last is None else last.chain if last in done else FALSE.chain
        for each in reversed(met):
            below = each.chain = _chained(each, below)
        done.update(met)


def _chained(node: Node, below: _Chain) -> _Chain:
    kinds = node.kinds if below.kinds is None else below.kinds
    if node.kinds is not None and below.kinds is not None:
        kinds = node.kinds & below.kinds
    return _Chain(
        ends=below.ends,
        kinds=kinds,
        combines=node.combines or below.combines,
        default=(node.default,) if node.has_default else below.default,
    )


def _kinds(raw: dict[str, Any], place: _Tokens) -> frozenset[str] | None:
    if "type" not in raw:
        return None
    names = raw["type"] if type(raw["type"]) is list else [raw["type"]]
    if not names or not all(type(name) is str and name in _KINDS for name in names):
        raise _invalid((*place, "type"), f"it is one of {', '.join(_KINDS)}, or a list of them")
    return frozenset().union(*(_KINDS[name] for name in names))


def _allowed(raw: dict[str, Any], place: _Tokens) -> frozenset[bytes] | None:
    allowed = None
    if "enum" in raw:
        if type(raw["enum"]) is not list:
            raise _invalid((*place, "enum"), "it is a list of values")
        allowed = frozenset(map(canonical, raw["enum"]))
    if "const" in raw:
        const = frozenset((canonical(raw["const"]),))
        allowed = const if allowed is None else allowed & const
    return allowed


def _texts(raw: dict[str, Any], name: str, place: _Tokens) -> list[str]:
    texts: list[str] = raw.get(name, [])
    if type(texts) is not list or not all(type(text) is str for text in texts):
        raise _invalid((*place, name), "it is a list of texts")
    return texts


def _invalid(place: _Tokens, reason: str) -> InvalidInput:
    pointer = format_pointer(place)
    return InvalidInput(f"not a schema at {pointer or 'its top'}: {reason}", pointer=pointer)

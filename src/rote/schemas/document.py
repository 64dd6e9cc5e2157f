"""A schema document: the schemas in it, the parts of a value they apply to, and their references.

A document must stand alone: references stay within it, and no part of it has an address of its own.
The caller has checked the document against the metaschema.
"""

from typing import Any
from urllib.parse import unquote

from rote.errors import InvalidInput
from rote.patch.pointer import format_pointer, parse_pointer
from rote.schemas.violations import Violated

DIALECT = "https://json-schema.org/draft/2020-12/schema"

# Keywords that hold schemas, by what those apply to (JSON Schema core, sections 8 and 10).
_HERE = ("not", "if", "then", "else")
_HERE_LISTS = ("allOf", "anyOf", "oneOf")
_HERE_MAPS = ("dependentSchemas", "dependencies")
_OTHER_MEMBERS = ("additionalProperties", "unevaluatedProperties")
_OTHER_ELEMENTS = ("items", "unevaluatedItems")
_APART = ("contentSchema",)
_APART_MAPS = ("$defs", "definitions")
_REFERENCES = ("$ref", "$dynamicRef")
_ANCHORS = ("$anchor", "$dynamicAnchor")

# Lists that every evaluation reads to the end, and the cost of one of their members. The library
# compares a value with the members of an enum one by one, and slowly.
_WEIGHTS = {"enum": 16, "required": 1, "patternProperties": 1, "dependentRequired": 1}

_Tokens = tuple[str, ...]
Key = str | int  # a member, or an element


class Node:
    """One schema, and the schemas that it applies to the value or to its parts."""

    __slots__ = ("any_element", "any_member", "here", "keys", "number", "tokens", "weight")

    def __init__(self, number: int, tokens: _Tokens) -> None:
        self.number = number
        self.tokens = tokens
        self.weight = 1  # of one evaluation
        self.here: list[Node] = []  # to the same value
        self.keys: dict[Key, list[Node]] = {}  # to a certain member or element
        self.any_member: list[Node] = []  # to a member that is not in `keys`
        self.any_element: list[Node] = []  # to an element that is not in `keys`

    @property
    def pointer(self) -> str:
        return format_pointer(self.tokens)


class Document:
    """The nodes of a document, the root first."""

    def __init__(self, root: Any) -> None:
        self.nodes: list[Node] = []
        self.has_options = False  # anyOf or oneOf
        self._by_place: dict[_Tokens, Node] = {}
        self._anchors: dict[str, Node] = {}
        self._waiting: list[tuple[Any, Node]] = []
        self._references: list[tuple[Node, str, str]] = []
        self._node(root, ())
        while self._waiting:
            self._fill(*self._waiting.pop())
        for node, keyword, reference in self._references:
            node.here.append(self._resolve(node, keyword, reference))

    def _node(self, raw: Any, tokens: _Tokens) -> Node:
        node = self._by_place[tokens] = Node(len(self.nodes), tokens)
        self.nodes.append(node)
        if type(raw) is dict:
            self._waiting.append((raw, node))
        return node

    def _fill(self, raw: dict[str, Any], node: Node) -> None:
        self._note_names(raw, node)
        node.weight += sum(
            _WEIGHTS[keyword] * len(raw[keyword]) for keyword in _WEIGHTS.keys() & raw
        )
        self.has_options = self.has_options or "anyOf" in raw or "oneOf" in raw
        node.here = (
            self._single(raw, node, *_HERE)
            + [option for keyword in _HERE_LISTS for option in self._list(raw, node, keyword)]
            + [part for keyword in _HERE_MAPS for part in self._map(raw, node, keyword).values()]
        )
        patterns = list(self._map(raw, node, "patternProperties").values())
        every_member = patterns + self._single(raw, node, "propertyNames")
        for name, member in self._map(raw, node, "properties").items():
            node.keys[name] = [member, *every_member]
        node.any_member = self._single(raw, node, *_OTHER_MEMBERS) + every_member
        every_element = self._single(raw, node, "contains")
        for index, element in enumerate(self._list(raw, node, "prefixItems")):
            node.keys[index] = [element, *every_element]
        node.any_element = self._single(raw, node, *_OTHER_ELEMENTS) + every_element
        self._single(raw, node, *_APART)
        for keyword in _APART_MAPS:
            self._map(raw, node, keyword)

    def _note_names(self, raw: dict[str, Any], node: Node) -> None:
        if node.tokens:
            for keyword in ("$id", "$schema"):
                if keyword in raw:
                    raise _violated(node, keyword, "only the top of a schema may have one")
        for keyword in _ANCHORS:
            if keyword in raw and self._anchors.setdefault(raw[keyword], node) is not node:
                raise _violated(node, keyword, f"there is another anchor {raw[keyword]!r:.80}")
        self._references += [
            (node, keyword, raw[keyword]) for keyword in _REFERENCES if keyword in raw
        ]

    def _single(self, raw: dict[str, Any], node: Node, *keywords: str) -> list[Node]:
        return [
            self._node(raw[keyword], (*node.tokens, keyword))
            for keyword in keywords
            if keyword in raw
        ]

    def _list(self, raw: dict[str, Any], node: Node, keyword: str) -> list[Node]:
        return [
            self._node(part, (*node.tokens, keyword, str(index)))
            for index, part in enumerate(raw.get(keyword, ()))
        ]

    def _map(self, raw: dict[str, Any], node: Node, keyword: str) -> dict[str, Node]:
        return {
            name: self._node(part, (*node.tokens, keyword, name))
            for name, part in raw.get(keyword, {}).items()
            if type(part) in (dict, bool)  # `dependencies` may also hold lists of names
        }

    def _resolve(self, node: Node, keyword: str, reference: str) -> Node:
        if not reference.startswith("#"):
            raise _violated(node, keyword, "a schema refers to itself alone, as '#/$defs/…'")
        fragment = unquote(reference[1:])
        if fragment and not fragment.startswith("/"):
            target = self._anchors.get(fragment)
        else:
            try:
                target = self._by_place.get(parse_pointer(fragment))
            except InvalidInput:
                target = None
        if target is None:
            raise _violated(node, keyword, f"there is no schema at {reference!r:.80}")
        return target


def _violated(node: Node, keyword: str, reason: str) -> Violated:
    return Violated(format_pointer((*node.tokens, keyword)), keyword, reason)

"""A naive query, written word for word from the contract. It is recursive, re-reads everything and
remembers little.

It shares nothing with rote.query. A narrowed schema is a set of (schema, document) texts.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from rote.contract import State
from rote.errors import InvalidInput
from rote.values import Json, canonical, check_entity_id, decode
from rote.values.limits import LOOK_THROUGH_MAX

_MISSING = object()
_KEYWORDS = {
    "type", "enum", "const", "required", "properties", "additionalProperties", "prefixItems", "items",
}  # fmt: skip
_COMBINATORS = ("anyOf", "oneOf", "allOf")

_Rule = tuple[bytes, bytes]  # a schema, and the document that its references are about
_Rules = frozenset[_Rule]
_Spot = tuple[str, tuple[str, ...], _Rules]
_TRUE: _Rules = frozenset()
_FALSE: _Rules = frozenset([(b"false", b"false")])


@dataclass
class Answer:
    """One page of a query's result, without versions and cursors."""

    facts: dict[str, State]
    missing: set[str]
    truncated: dict[str, str] | None
    selected: set[str]  # the selected entities of the page that were not left out


class NaiveQuery:
    """Queries on one state, given as the states of all entities that were ever written."""

    def __init__(self, states: dict[str, State]) -> None:
        self._states = states

    def pages(self, query: dict[str, Any]) -> list[Answer]:
        """Return all pages, until every selected entity is in one."""
        roots = self._roots(query)
        left = sorted({spot[0] for spot in roots})
        pages: list[Answer] = []
        while left or not pages:
            turn = left[: query.get("limit", 1000)]
            pages.append(self._page(query, {spot for spot in roots if spot[0] in turn}))
            left = [id for id in left if id not in pages[-1].selected]
        return pages

    def _page(self, query: dict[str, Any], level: set[_Spot]) -> Answer:
        found = Answer({}, set(), None, set())
        seen: set[_Spot] = set()
        depth, depth_max = 0, query.get("max_depth", 10)
        entities_max = query.get("max_entities", 1000)
        while level:
            level = {spot for spot in level if spot not in seen}
            for spot in sorted(level, key=lambda spot: spot[0]):
                id = spot[0]
                state = self._read(id)
                if depth > depth_max:
                    if self._adds(found, spot):
                        found.truncated = {"reason": "max_depth", "at": id}
                        return found
                    continue
                shown = state.exists or (id in query["select"] and state.version > 0)
                if not shown:
                    found.missing.add(id)
                elif id not in found.facts and len(found.facts) == entities_max:
                    found.truncated = {"reason": "max_entities", "at": id}
                    return found
                else:
                    found.facts[id] = state
                if depth == 0:
                    found.selected.add(id)
            seen |= level
            level = {target for spot in level for target in self._targets(spot)}
            depth += 1
        return found

    def _adds(self, found: Answer, spot: _Spot) -> bool:
        id, path, rules = spot
        if id in found.facts:
            return found.facts[id].exists and (path != () or rules != _FALSE)
        return id not in found.missing

    def _roots(self, query: dict[str, Any]) -> set[_Spot]:
        roots: set[_Spot] = set()
        for selector, body in query["select"].items():
            schema = body.get("schema", False)
            rules = _meet([(canonical(schema), canonical(schema))])
            for id in self._selected(selector):
                roots.add((id, tuple(body.get("path", ())), rules))
        return roots

    def _selected(self, selector: str) -> list[str]:
        if not selector.endswith("*"):
            return [selector]
        return [
            id
            for id, state in self._states.items()
            if state.exists and id.startswith(selector[:-1])
        ]

    def _read(self, id: str) -> State:
        return self._states.get(id, State(id, None, False, 0, None))

    # -- following ---------------------------------------------------------------------------------

    def _targets(self, spot: _Spot) -> Iterator[_Spot]:
        id, path, rules = spot
        state = self._read(id)
        if not state.exists:
            return
        met = _along(state.value, path)
        if met is None:
            return
        value, rest = met
        link = _link(value)
        if link is not None and path:
            inner = tuple(link.get("path", ()))
            yield (link["id"], inner + rest, rules if rest else _at_link(rules, link))
            return
        for link, context in _links(rules, value):
            target = _at_link(context, link)
            place = (link["id"], tuple(link.get("path", ())))
            if not _has_options(target) or self._agrees(target, place):
                yield (*place, target)

    def _agrees(self, rules: _Rules, place: tuple[str, tuple[str, ...]]) -> bool:
        value = self._look(place, set())
        return all(_ways(rule, value, ()) for rule in rules)

    def _look(self, place: tuple[str, tuple[str, ...]], looked: set[Any]) -> Any:
        """Return the value behind links."""
        state = self._read(place[0])
        if place in looked or len(looked) == LOOK_THROUGH_MAX or not state.exists:
            return _MISSING
        met = _along(state.value, place[1])
        if met is None:
            return _MISSING
        value, rest = met
        link = _link(value)
        if link is None:
            return value
        return self._look((link["id"], tuple(link.get("path", ())) + rest), looked | {place})


def _along(value: Json, path: tuple[str, ...]) -> tuple[Json, tuple[str, ...]] | None:
    """Return the value where a path ends, or the link that it meets, and the rest of the path."""
    if not path or _link(value) is not None:
        return value, path
    step, rest = path[0], path[1:]
    if isinstance(value, dict) and step in value:
        return _along(value[step], rest)
    if isinstance(value, list) and step in [str(index) for index in range(len(value))]:
        return _along(value[int(step)], rest)
    return None


def _link(value: Any) -> dict[str, Any] | None:
    match value:
        case {"/": {"link@1": {"id": str() as id, **more} as inner, **beside}, **around}:
            path = inner.get("path", [])
            plain = isinstance(path, list) and all(isinstance(step, str) for step in path)
            if beside or around or more.keys() - {"path", "schema"} or not plain:
                return None
            try:
                check_entity_id(id)
            except InvalidInput:
                return None
            return dict(inner)
    return None


def _links(rules: _Rules, value: Json) -> Iterator[tuple[dict[str, Any], _Rules]]:
    if rules == _FALSE:
        return
    link = _link(value)
    if link is not None:
        yield link, rules
        return
    for way in _product([_ways(rule, value, ()) for rule in rules]):
        if isinstance(value, dict):
            for name, child in value.items():
                yield from _links(_member(way, name), child)
        elif isinstance(value, list):
            for index, child in enumerate(value):
                yield from _links(_element(way, index), child)


def _member(way: Iterable[_Rule], name: str) -> _Rules:
    schemas = [(decode(schema), root) for schema, root in way]
    known = [
        (canonical(schema["properties"][name]), root)
        for schema, root in schemas
        if name in schema.get("properties", {})
    ]
    if known:
        return _meet(known)
    others = []
    for schema, root in schemas:
        if "additionalProperties" in schema:
            others.append((canonical(schema["additionalProperties"]), root))
        elif "properties" in schema:
            return _FALSE
    return _meet(others)


def _element(way: Iterable[_Rule], index: int) -> _Rules:
    found = []
    for text, root in way:
        schema = decode(text)
        prefix = schema.get("prefixItems", [])
        if index < len(prefix):
            found.append((canonical(prefix[index]), root))
        elif "items" in schema:
            found.append((canonical(schema["items"]), root))
        elif "prefixItems" in schema:
            return _FALSE
    return _meet(found)


# -- schemas ---------------------------------------------------------------------------------------


def _meet(rules: Iterable[_Rule]) -> _Rules:
    resolved = [_resolved(rule, ()) for rule in rules]
    kept = frozenset(rule for rule in resolved if not _is_true(decode(rule[0])))
    if any(rule[0] == b"false" for rule in kept):
        return _FALSE
    allowed = {"null", "boolean", "integer", "fraction", "string", "array", "object"}
    for rule in kept:
        allowed &= _types(rule, ())
    return kept if allowed else _FALSE


def _resolved(rule: _Rule, trail: tuple[_Rule, ...]) -> _Rule:
    """Return the target of a reference that has nothing beside it."""
    schema = decode(rule[0])
    if isinstance(schema, bool) or schema.keys() & {*_KEYWORDS, *_COMBINATORS, "$ref"} != {"$ref"}:
        return rule
    return (b"false", b"false") if rule in trail else _resolved(_referred(rule), (*trail, rule))


def _is_true(schema: Json) -> bool:
    return schema is True or (
        isinstance(schema, dict) and not schema.keys() & {*_KEYWORDS, *_COMBINATORS, "$ref"}
    )


def _types(rule: _Rule, trail: tuple[_Rule, ...]) -> set[str]:
    schema = decode(rule[0])
    everything = {"null", "boolean", "integer", "fraction", "string", "array", "object"}
    if schema is False or rule in trail:
        return set()
    if schema is True:
        return everything
    names = schema.get("type", list(everything))
    allowed = set(names if isinstance(names, list) else [names])
    allowed |= {"integer", "fraction"} if "number" in allowed else set()
    if "$ref" in schema:
        allowed &= _types(_referred(rule), (*trail, rule))
    return allowed


def _referred(rule: _Rule) -> _Rule:
    schema, document = decode(rule[0]), decode(rule[1])
    at: Any = document
    for token in schema["$ref"].removeprefix("#/").split("/"):
        at = at.get(token) if isinstance(at, dict) else None
    is_schema = isinstance(at, dict | bool) and schema["$ref"].startswith("#/$defs/")
    return (canonical(at), rule[1]) if is_schema else (b"false", b"false")


def _at_link(rules: _Rules, link: dict[str, Any]) -> _Rules:
    if "schema" not in link or rules == _FALSE or not _is_schema(link["schema"]):
        return rules
    return _meet([*rules, (canonical(link["schema"]), canonical(link["schema"]))])


def _is_schema(schema: Any) -> bool:
    """Whether it is a schema; the only others drawn are plain values and the type `nonsense`."""
    if isinstance(schema, dict):
        return schema.get("type") != "nonsense"
    return isinstance(schema, bool)


def _has_options(rules: _Rules) -> bool:
    return any(_has_option(rule, ()) for rule in rules)


def _has_option(rule: _Rule, trail: tuple[_Rule, ...]) -> bool:
    schema = decode(rule[0])
    if isinstance(schema, bool) or rule in trail:
        return False
    if any(name in schema for name in _COMBINATORS):
        return True
    return "$ref" in schema and _has_option(_referred(rule), (*trail, rule))


def _ways(rule: _Rule, value: Any, trail: tuple[_Rule, ...]) -> list[frozenset[_Rule]]:
    """Return the ways to choose among the matching options of a schema; none when it does not match."""
    schema = decode(rule[0])
    if isinstance(schema, bool):
        return [frozenset()] if schema else []
    if rule in trail or not _fits(schema, value):
        return []
    ways = [frozenset([rule])]
    inner = (*trail, rule)
    if "$ref" in schema:
        ways = _product([ways, _ways(_referred(rule), value, inner)])
    for name in _COMBINATORS:
        if name in schema:
            each = [_ways((canonical(option), rule[1]), value, inner) for option in schema[name]]
            if name == "allOf" and not all(each):
                return []
            ways = _product([ways, [way for options in each for way in options]])
    return ways


def _product(parts: list[list[frozenset[_Rule]]]) -> list[frozenset[_Rule]]:
    return [frozenset().union(*way) for way in product(*parts)]


def _fits(schema: dict[str, Any], value: Any) -> bool:
    if value is _MISSING:
        return not schema.keys() & _KEYWORDS
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(_is_of(value, name) for name in names):
            return False
    if "enum" in schema and canonical(value) not in [canonical(one) for one in schema["enum"]]:
        return False
    if "const" in schema and canonical(value) != canonical(schema["const"]):
        return False
    return not isinstance(value, dict) or all(name in value for name in schema.get("required", []))


def _is_of(value: Any, name: str) -> bool:
    if isinstance(value, bool) or value is None:
        return name == ("null" if value is None else "boolean")
    if isinstance(value, int | float):
        return name == "number" or (name == "integer" and value == int(value))
    return name == {"str": "string", "list": "array", "dict": "object"}[type(value).__name__]

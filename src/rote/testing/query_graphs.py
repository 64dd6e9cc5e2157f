"""Random graphs of linked entities, their histories, and queries on them.

Few entities and few names, so that links meet each other and schemas meet the members they name.
"""

from random import Random
from typing import Any

from rote.contract import State
from rote.space import Space
from rote.testing.naive_query import NaiveQuery
from rote.values import Json

_TYPES = ("object", "array", "string", "integer", "number", "null", "boolean")
_NAMES = ("a", "b", "c")
_SCALARS: tuple[Json, ...] = (None, True, 0, 1, 2.5, "x", "y")


class Graphs:
    """Draws everything from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.ids = [f"urn:{kind}:{number}" for kind in "en" for number in range(4)]

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    # -- values ------------------------------------------------------------------------------------

    def value(self, depth: int = 3) -> Json:
        draw = self.random.random()
        if draw < 0.4:
            return self.link()
        if depth == 0 or draw < 0.5:
            return self.random.choice(_SCALARS)
        if draw < 0.65:
            return [self.value(depth - 1) for _ in range(self.random.randint(0, 3))]
        names = self.random.sample(_NAMES, self.random.randint(1, 3))
        return {name: self.value(depth - 1) for name in names}

    def document(self) -> Json:
        """Return the value of an entity: mostly an object."""
        names = self.random.sample(_NAMES, self.random.randint(1, 3))
        return {name: self.value() for name in names} if self.chance(0.85) else self.value()

    def link(self) -> Json:
        inner: dict[str, Any] = {"id": self.random.choice([*self.ids, "urn:e:never"])}
        if self.chance(0.25):
            inner["path"] = self.path()
        if self.chance(0.3):
            inner["schema"] = self.schema()
        if self.chance(0.03):
            inner["more"] = 1  # then it is no link
        return {"/": {"link@1": inner}}

    def path(self) -> list[str]:
        steps = [*_NAMES, "0", "1"]
        return [self.random.choice(steps) for _ in range(self.random.randint(1, 3))]

    # -- schemas -----------------------------------------------------------------------------------

    def schema(self) -> Json:
        draw = self.random.random()
        if draw < 0.25:
            return self.random.choice([True, {}, False, {"title": "t"}])
        if draw < 0.3:
            return self.random.choice([5, {"type": "nonsense"}, "true"])
        return self.valid_schema()

    def valid_schema(self) -> Json:
        schema = self._node(3)
        if isinstance(schema, dict):
            schema["$defs"] = {name: self._node(2) for name in "st"}
        return schema

    def _node(self, depth: int) -> Json:
        if depth == 0 or self.chance(0.2):
            return self.random.choice([True, True, True, {}, False, {"type": "object"}])
        if self.chance(0.3):
            return {"$ref": self.random.choice(["#/$defs/s", "#/$defs/t", "#/$defs/s/properties/a",
                                                "#/$defs/none", "urn:x"])}  # fmt: skip
        schema: dict[str, Any] = {}
        if self.chance(0.35):
            schema["type"] = self.random.choice([*_TYPES, "object", "object", ["object", "array"]])
        if self.chance(0.15):
            schema["required"] = self.random.sample(_NAMES, 1)
        if self.chance(0.05):
            schema["enum"] = [{}, "x", 1]
        if self.chance(0.05):
            schema["const"] = self.random.choice(_SCALARS)
        if self.chance(0.5):
            schema["properties"] = {
                name: self._node(depth - 1) for name in self.random.sample(_NAMES, 2)
            }
        if self.chance(0.25):
            schema["additionalProperties"] = self._node(depth - 1)
        if self.chance(0.15):
            schema["prefixItems"] = [self._node(depth - 1)]
        if self.chance(0.25):
            schema["items"] = self._node(depth - 1)
        if self.chance(0.1):
            schema["$ref"] = "#/$defs/" + self.random.choice("st")
        for name in ("anyOf", "oneOf", "allOf"):
            if self.chance(0.12):
                schema[name] = [self._node(depth - 1) for _ in range(self.random.randint(1, 3))]
        return schema

    # -- histories and queries ---------------------------------------------------------------------

    def write(self, space: Space, commits: int) -> None:
        """Write some commits, on main and on branches of it."""
        for _ in range(commits):
            names = [branch.name for branch in space.branches()]
            if len(names) < 3 and self.chance(0.1):
                at = self.random.randint(0, space.version)
                parent = space.on(self.random.choice(names))
                parent.create_branch(f"b{len(names)}", at=at)
                continue
            self.commit(space.on(self.random.choice(names)))

    def commit(self, space: Space) -> None:
        ids = self.random.sample(self.ids, self.random.randint(1, 6))
        operations: list[dict[str, Any]] = [
            {"op": "delete", "id": id}
            if self.chance(0.2) and space.read(id).exists
            else {"op": "set", "id": id, "value": self.document()}
            for id in ids
        ]
        space.transact(operations)

    def query(self) -> dict[str, Any]:
        selectors = [*self.ids, "urn:e:never", "urn:e:*", "urn:n:*", "*"]
        query: dict[str, Any] = {"select": {}}
        for selector in self.random.sample(selectors, self.random.randint(1, 2)):
            body: dict[str, Any] = {}
            if self.chance(0.3):
                body["path"] = self.path()
            if self.chance(0.9):
                body["schema"] = True if self.chance(0.2) else self.valid_schema()
            query["select"][selector] = body
        if self.chance(0.2):
            query["max_depth"] = self.random.randint(0, 3)
        if self.chance(0.2):
            query["max_entities"] = self.random.randint(1, 5)
        return query

    def paged_query(self) -> dict[str, Any]:
        limit = {"limit": self.random.randint(1, 5)} if self.chance(0.3) else {}
        return {**self.query(), **limit}


def pages_of(view: Space, query: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all pages of a query on a view; of a cursor only whether there is one."""
    pages = [view.query(query)]
    while pages[-1]["cursor"] is not None:
        pages.append(view.query({**query, "cursor": pages[-1]["cursor"]}))
    return [{**page, "cursor": page["cursor"] is not None} for page in pages]


def naive_pages(view: Space, ids: list[str], query: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the pages that the naive query gives."""
    states: dict[str, State] = {state.id: state for state in view.scan()}
    states |= {id: view.read(id) for id in ids}
    answers = NaiveQuery(states).pages(query)
    return [
        {
            "version": view.version,
            "facts": {id: _fact(answer.facts[id]) for id in sorted(answer.facts)},
            "missing": sorted(answer.missing),
            "truncated": answer.truncated,
            "cursor": number < len(answers),
        }
        for number, answer in enumerate(answers, start=1)
    ]


def _fact(state: State) -> dict[str, Json]:
    what: dict[str, Json] = {"value": state.value} if state.exists else {"deleted": True}
    return {**what, "version": state.version, "hash": state.hash}

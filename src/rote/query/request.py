"""A checked query: selectors, limits, and the cursor that continues it."""

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from rote.errors import InvalidInput, InvalidValue, LimitExceeded
from rote.query.expansion import Place
from rote.query.links import Path, is_path
from rote.query.narrowing import NOTHING, Schema, schema_of
from rote.query.schemas import Schemas
from rote.values import (
    Json,
    canonical,
    check_branch_name,
    check_entity_id,
    decode,
    parse_time,
    sha256_hex,
)
from rote.values.limits import (
    INTEGER_MAX,
    QUERY_DEPTH_DEFAULT,
    QUERY_DEPTH_MAX,
    QUERY_ENTITIES_DEFAULT,
    QUERY_ENTITIES_MAX,
    QUERY_LIMIT_DEFAULT,
    QUERY_LIMIT_MAX,
    SELECTORS_MAX,
)

_SELECTOR_KEYS = ("path", "schema")
_NOT_WATCHED = ("at", "since", "limit", "cursor")
_KEYS = ("select", "branch", *_NOT_WATCHED, "max_depth", "max_entities")


class Selector(Struct, frozen=True, gc=False):
    """One member of `select`."""

    text: str  # an id, or a prefix without its `*`
    is_prefix: bool
    path: Path
    schema: Schema

    def place(self, id: str) -> Place:
        return (id, self.path, self.schema)


class Cursor(Struct, frozen=True, gc=False):
    """The state of a page, and the id that the page ended with."""

    space: str  # its did
    branch: str
    version: int
    after: str


class Query(Struct, frozen=True, gc=False):
    """A query that was checked."""

    named: dict[str, Selector]
    prefixes: tuple[Selector, ...]  # in the order of their prefixes
    branch: str | None
    at: int | str | None  # a version, or a time as RFC 3339 text
    since: int | None
    limit: int
    max_depth: int
    max_entities: int
    digest: str  # of the query, to recognise its cursors
    cursor: Cursor | None

    def selectors(self, id: str) -> list[Selector]:
        """Return the selectors that select an id, the most specific one first."""
        found = [selector for selector in self.prefixes if id.startswith(selector.text)]
        found.reverse()
        if id in self.named:
            found.insert(0, self.named[id])
        return found

    def places(self, id: str) -> frozenset[Place]:
        return frozenset(selector.place(id) for selector in self.selectors(id))

    def matches_prefix(self, id: str) -> bool:
        return any(id.startswith(selector.text) for selector in self.prefixes)

    def ranges(self) -> list[str]:
        """Return the prefixes that no other prefix covers, in order."""
        found: list[str] = []
        for selector in self.prefixes:
            if not found or not selector.text.startswith(found[-1]):
                found.append(selector.text)
        return found

    def continue_at(self, cursor: Cursor) -> str:
        """Return the text of a cursor of this query."""
        return _text_of([self.digest, cursor.space, cursor.branch, cursor.version, cursor.after])


def parse_query(raw: Any, schemas: Schemas, *, is_watch: bool = False) -> Query:
    """Return the checked query; raise InvalidInput for its first fault."""
    if not isinstance(raw, Mapping):
        raise InvalidInput("a query is an object with `select`", key="select")
    for key in raw:
        if key not in _KEYS:
            shown = str(key)[:80]
            raise InvalidInput(f"a query has no {shown!r}; it has {', '.join(_KEYS)}", key=shown)
        if is_watch and key in _NOT_WATCHED:
            raise InvalidInput(
                f"{key}: a watch shows the result as it is now, up to max_entities; leave it out",
                key=key,
            )
    if "select" not in raw:
        raise InvalidInput("select: say which entities, as in {'urn:user:*': {}}", key="select")
    selectors = _selectors(raw["select"], schemas)
    branch = raw.get("branch")
    if branch is not None:
        _named("branch", check_branch_name, branch)
    digest = _digest(raw)
    return Query(
        named={selector.text: selector for selector in selectors if not selector.is_prefix},
        prefixes=tuple(
            sorted(
                (selector for selector in selectors if selector.is_prefix),
                key=lambda selector: selector.text,
            )
        ),
        branch=branch,
        at=_at(raw.get("at")),
        since=_number(raw, "since", low=0, high=INTEGER_MAX),
        limit=_bound(raw, "limit", QUERY_LIMIT_DEFAULT, low=1, high=QUERY_LIMIT_MAX),
        max_depth=_bound(raw, "max_depth", QUERY_DEPTH_DEFAULT, low=0, high=QUERY_DEPTH_MAX),
        max_entities=_bound(
            raw, "max_entities", QUERY_ENTITIES_DEFAULT, low=1, high=QUERY_ENTITIES_MAX
        ),
        digest=digest,
        cursor=_cursor(raw.get("cursor"), digest),
    )


def _selectors(raw: Any, schemas: Schemas) -> list[Selector]:
    if type(raw) is not dict:
        raise InvalidInput("select: it is an object of ids, prefixes with * and *", key="select")
    if len(raw) > SELECTORS_MAX:
        raise LimitExceeded("the number of selectors", size=len(raw), limit=SELECTORS_MAX)
    return [_selector(text, body, schemas) for text, body in raw.items()]


def _selector(text: Any, raw: Any, schemas: Schemas) -> Selector:
    is_prefix = type(text) is str and text.endswith("*")
    if not is_prefix:
        _named("select", check_entity_id, text)
    else:
        _named("select", canonical, text)
    if type(raw) is not dict:
        raise InvalidInput(
            f"select: {text!r:.120} takes an object with path and schema, both optional",
            key="select",
        )
    for key in raw:
        if key not in _SELECTOR_KEYS:
            shown = str(key)[:80]
            raise InvalidInput(
                f"select: {text!r:.120} has no {shown!r}; it has {', '.join(_SELECTOR_KEYS)}",
                key="select", unknown=shown,
            )  # fmt: skip
    path = raw.get("path", [])
    if not is_path(path):
        raise InvalidInput(f"path: that of {text!r:.120} must be a list of texts", key="path")
    schema = NOTHING
    if "schema" in raw:
        try:
            schema = schema_of((schemas.read(raw["schema"]),))
        except InvalidInput as error:
            raise InvalidInput(
                f"schema: that of {text!r:.120} is {error}", **{**error.details, "key": "schema"}
            ) from None
    return Selector(text[:-1] if is_prefix else text, is_prefix, tuple(path), schema)


def _named(key: str, check: Any, value: Any) -> None:
    """Run a check; its error names the key of the query."""
    try:
        check(value)
    except InvalidInput as error:
        raise InvalidInput(f"{key}: {error}", **{**error.details, "key": key}) from None


def _bound(raw: Mapping[str, Any], key: str, default: int, *, low: int, high: int) -> int:
    value = _number(raw, key, low=low, high=high)
    return default if value is None else value


def _number(raw: Mapping[str, Any], key: str, *, low: int, high: int) -> int | None:
    value = raw.get(key)
    if value is None:
        return None
    if type(value) is not int or not low <= value <= high:
        raise InvalidInput(f"{key}: it is an integer from {low} to {high}", key=key)
    return value


def _at(value: Any) -> int | str | None:
    if type(value) is str:
        _named("at", parse_time, value)
        return value
    if value is not None and (type(value) is not int or not 0 <= value <= INTEGER_MAX):
        raise InvalidInput("at: it is a version, or an RFC 3339 time", key="at")
    return value


def _digest(raw: Mapping[str, Any]) -> str:
    asked: Json = {key: value for key, value in raw.items() if key != "cursor"}
    try:
        return sha256_hex(canonical(asked))
    except InvalidValue as error:
        key = error.details["pointer"].split("/")[1] if error.details["pointer"] else "select"
        raise InvalidInput(f"{key}: {error}", key=key) from None


def _cursor(raw: Any, digest: str) -> Cursor | None:
    if raw is None:
        return None
    try:
        query, space, branch, version, after = _parts(raw)
    except (TypeError, ValueError, InvalidInput):
        query, space, branch, version, after = None, None, None, None, None
    kinds = [type(part) for part in (query, space, branch, version, after)]
    if type(raw) is not str or kinds != [str, str, str, int, str]:
        raise InvalidInput("cursor: take it from the page before, as it is", key="cursor")
    if query != digest:
        raise foreign_cursor()
    return Cursor(space, branch, version, after)


def place_of(cursor: str) -> str:
    """Return the id after which a cursor goes on, whatever state it is of."""
    *_, after = _parts(cursor)
    return str(after)


def moved(cursor: str, version: int) -> str:
    """Return the cursor that goes on at the same place in another state."""
    query, space, branch, _, after = _parts(cursor)
    return _text_of([query, space, branch, version, after])


def _parts(cursor: str) -> list[Any]:
    parts: Any = decode(b64decode(cursor, altchars=b"-_", validate=True))
    return list(parts)


def _text_of(parts: list[Any]) -> str:
    return urlsafe_b64encode(canonical(parts)).decode()


def foreign_cursor() -> InvalidInput:
    return InvalidInput(
        "cursor: it belongs to another query; repeat that one exactly, or leave the cursor out",
        key="cursor",
    )

"""Results: the answers to a query, from any source that shows one state.

A source is a branch of a space at a version, or such a state with writes laid over it.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol

from msgspec import structs

from rote.contract import State
from rote.query.filling import Filling
from rote.query.links import Absent
from rote.query.request import Cursor, Query
from rote.query.schemas import Schemas
from rote.query.walk import Root, Walk, is_deleted
from rote.values import Json
from rote.values.limits import PAGE_MAX


class Source(Protocol):
    """One state; all that is asked of it is answered from that."""

    @property
    def name(self) -> str:
        """The name of the state's space; of a state with writes over it another one for each."""
        ...

    @property
    def branch(self) -> str: ...

    @property
    def version(self) -> int: ...

    def fetch(self, ids: Sequence[str], /) -> Mapping[str, State]:
        """Return the states of `ids`, absent entities too."""
        ...

    def scan(self, prefix: str, after: str | None, /) -> Iterator[State]:
        """Yield existing entities in id order."""
        ...

    def written(self, since: int, /) -> list[str]:
        """Return the ids of entities that were written or erased above a version, in order."""
        ...


def query_result(asked: Query, schemas: Schemas, source: Source) -> dict[str, Json]:
    roots, is_last = page_of(asked, source)
    walk = walk_of(asked, schemas, source)
    walk.run(roots)
    return {
        "version": source.version,
        "facts": {id: fact_of(walk.facts[id]) for id in sorted(walk.facts)},
        "missing": sorted(walk.missing),
        "truncated": None if walk.truncated is None else walk.truncated.to_dict(),
        "cursor": _cursor_after(asked, source, roots, walk, is_last=is_last),
    }


def values_result(asked: Query, schemas: Schemas, source: Source) -> dict[str, Json]:
    found, is_last = page_of(asked, source)
    # When several selectors match an entity, the most specific one decides which value is shown.
    places = {
        root.state.id: asked.selectors(root.state.id)[0].place(root.state.id) for root in found
    }
    roots = [
        Root(root.state, frozenset((places[root.state.id],)), root.shows_deleted) for root in found
    ]
    walk = walk_of(asked, schemas, source)
    walk.run(roots)
    filling = Filling(schemas, walk.facts, walk.seen)
    filled = {id: filling.fill(place) for id, place in places.items()}
    truncated = walk.truncated or filling.truncated
    return {
        "version": source.version,
        "values": {id: value for id, value in filled.items() if not isinstance(value, Absent)},
        "missing": sorted(walk.missing),
        "truncated": None if truncated is None else truncated.to_dict(),
        "cursor": _cursor_after(asked, source, roots, walk, is_last=is_last),
    }


def walk_of(asked: Query, schemas: Schemas, source: Source) -> Walk:
    """Return a walk within the limits of a query."""
    return Walk(
        source.fetch,
        schemas,
        depth_max=asked.max_depth,
        entities_max=asked.max_entities,
        named=asked.named,
    )


def fact_of(state: State) -> dict[str, Json]:
    """Return an entity as results and frames show it."""
    what: dict[str, Json] = {"value": state.value} if state.exists else {"deleted": True}
    return {**what, "version": state.version, "hash": state.hash}


# -- selected entities -----------------------------------------------------------------------------


def page_of(asked: Query, source: Source) -> tuple[list[Root], bool]:
    """Return the selected entities of one page, in id order, and whether they are the last ones."""
    after = None if asked.cursor is None else asked.cursor.after
    found = roots_of(asked, source, after=after, limit=asked.limit + 1)
    return found[: asked.limit], len(found) <= asked.limit


def _cursor_after(
    asked: Query, source: Source, roots: Sequence[Root], walk: Walk, *, is_last: bool
) -> str | None:
    """Return the cursor of the next page, None at the end.

    The next page begins above the last root that was visited. All roots of a page are visited, unless
    a limit ended the walk; the first one always is.
    """
    visited = [root for root in roots if walk.has_visited(root.state.id)]
    if is_last and len(visited) == len(roots):
        return None
    cursor = Cursor(source.name, source.branch, source.version, visited[-1].state.id)
    return asked.continue_at(cursor)


def roots_of(asked: Query, source: Source, *, after: str | None, limit: int) -> list[Root]:
    """Return the first `limit` selected entities above an id."""
    names = sorted(id for id in asked.named if after is None or id > after)[:limit]
    states = dict(source.fetch(names)) if names else {}
    shows_deleted = set(names)
    for state in islice(_matches(asked, source, after), limit):
        states.setdefault(state.id, state)
        if asked.since is not None:
            shows_deleted.add(state.id)
    return [
        Root(states[id], asked.places(id), id in shows_deleted) for id in sorted(states)[:limit]
    ]


def _matches(asked: Query, source: Source, after: str | None) -> Iterator[State]:
    """Yield the entities that the prefixes select, in id order."""
    if asked.since is None:
        for prefix in asked.ranges():
            yield from source.scan(prefix, after)
        return
    ids = [
        id
        for id in (source.written(asked.since) if asked.prefixes else ())
        if asked.matches_prefix(id) and (after is None or id > after)
    ]
    for start in range(0, len(ids), PAGE_MAX):
        for state in source.fetch(ids[start : start + PAGE_MAX]).values():
            if state.erased and state.version > asked.since:
                state = structs.replace(state, erased=False)  # one more way to be deleted
            if state.exists or is_deleted(state):
                yield state

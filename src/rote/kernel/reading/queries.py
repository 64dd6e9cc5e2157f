"""Queries on a space: find the state that a query means, select entities, and read them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import structs

from rote.access.paths import within
from rote.contract import State, View, commands
from rote.errors import InvalidInput, VersionNotFound
from rote.kernel.log.entries import ABSENT, Entry, state_of
from rote.kernel.log.events import erasures
from rote.kernel.reading import history, scans
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader
from rote.query import (
    Absent,
    Cursor,
    Filling,
    Query,
    Root,
    Schemas,
    Walk,
    foreign_cursor,
    is_deleted,
    parse_query,
)
from rote.values import Json, parse_time
from rote.values.limits import PAGE_MAX
from rote.values.ranges import prefix_end


class Pinned:
    """One state of a space: a branch at a version, or the part of it within a path."""

    def __init__(
        self, reads: SpaceReader, branch: str, version: int, path: str | None = None
    ) -> None:
        self._reads = reads
        self._path = path
        self._line = reads.line(branch, version)
        self.space = reads.space.did
        self.branch = branch
        self.version = version

    def fetch(self, ids: Sequence[str]) -> Mapping[str, State]:
        """Return the states of `ids`; those that are not remembered are read together."""
        entries: dict[str, Entry | None] = {
            id: self._reads.space.remembered(self.branch, id, self.version)
            for id in ids
            if self._path is None or within(id, self._path)
        }
        unknown = [id for id, entry in entries.items() if entry is None]
        if unknown and self.version == self._reads.space.known:
            # This puts them into the cache, where other watchers of the same commits find them.
            newest = self._reads.newest(self.branch, unknown)
            entries |= {id: new for id, new in newest.items() if new.version <= self.version}
            unknown = [id for id in unknown if entries[id] is None]  # others were faster
        if unknown:
            entries |= self._reads.entries_at(self.branch, unknown, self.version)
        return {id: state_of(id, entries.get(id) or ABSENT) for id in ids}

    def scan(self, prefix: str, after: str | None) -> Iterator[State]:
        """Yield existing entities in id order."""
        view, end = View(self.branch, self.version), prefix_end(prefix)
        while True:
            page = scans.page_of(self._reads, commands.Scan(prefix, end, after, PAGE_MAX, view))
            yield from page.states
            if page.next is None:
                return
            after = page.next

    def written(self, since: int) -> list[str]:
        """Return the ids of entities that were written or erased above a version, in order."""
        rows, space = self._reads.rows, self._reads.number
        spans = [(branch, since, cap) for branch, cap in self._line if cap > since]
        erased = [
            id for version, id in erasures(rows, space, after=since) if version <= self.version
        ]
        return sorted({*rows.written(space, spans), *erased})


def query(space: OpenSpace, command: commands.Query) -> dict[str, Json]:
    """Return the selected entities, and those that their links lead to."""
    return _answer(space, command, _query)


def values(space: OpenSpace, command: commands.Values) -> dict[str, Json]:
    """Return the values of the selected entities, with the linked values in the places of links."""
    return _answer(space, command, _values)


def _answer(
    space: OpenSpace,
    command: commands.Query | commands.Values,
    read: Callable[[Query, Schemas, Pinned], dict[str, Json]],
) -> dict[str, Json]:
    schemas, reads = Schemas(), space.reader()
    asked = parse_query(command.query, schemas)
    return reads.steadily(None, lambda _: read(asked, schemas, pin(reads, asked, command)))


def _query(asked: Query, schemas: Schemas, pinned: Pinned) -> dict[str, Json]:
    roots, is_last = page_of(asked, pinned)
    walk = walk_of(asked, schemas, pinned)
    walk.run(roots)
    return {
        "version": pinned.version,
        "facts": {id: fact_of(walk.facts[id]) for id in sorted(walk.facts)},
        "missing": sorted(walk.missing),
        "truncated": None if walk.truncated is None else walk.truncated.to_dict(),
        "cursor": _cursor_after(asked, pinned, roots, walk, is_last=is_last),
    }


def _values(asked: Query, schemas: Schemas, pinned: Pinned) -> dict[str, Json]:
    found, is_last = page_of(asked, pinned)
    # When several selectors match an entity, the most specific one decides which value is shown.
    places = {
        root.state.id: asked.selectors(root.state.id)[0].place(root.state.id) for root in found
    }
    roots = [
        Root(root.state, frozenset((places[root.state.id],)), root.shows_deleted) for root in found
    ]
    walk = walk_of(asked, schemas, pinned)
    walk.run(roots)
    filling = Filling(schemas, walk.facts, walk.seen)
    filled = {id: filling.fill(place) for id, place in places.items()}
    truncated = walk.truncated or filling.truncated
    return {
        "version": pinned.version,
        "values": {id: value for id, value in filled.items() if not isinstance(value, Absent)},
        "missing": sorted(walk.missing),
        "truncated": None if truncated is None else truncated.to_dict(),
        "cursor": _cursor_after(asked, pinned, roots, walk, is_last=is_last),
    }


def walk_of(asked: Query, schemas: Schemas, pinned: Pinned) -> Walk:
    """Return a walk within the limits of a query."""
    return Walk(
        pinned.fetch,
        schemas,
        depth_max=asked.max_depth,
        entities_max=asked.max_entities,
        named=asked.named,
    )


def fact_of(state: State) -> dict[str, Json]:
    """Return an entity as results and frames show it."""
    what: dict[str, Json] = {"value": state.value} if state.exists else {"deleted": True}
    return {**what, "version": state.version, "hash": state.hash}


# -- the state that is meant -----------------------------------------------------------------------


def pin(reads: SpaceReader, asked: Query, command: commands.Query | commands.Values) -> Pinned:
    """Return the state that a query means; InvalidInput when it is not that of a pinned view."""
    view = command.view
    branch = view.branch if asked.branch is None else asked.branch
    if view.version is not None and branch != view.branch:
        raise InvalidInput(
            f"branch: this view is pinned on {view.branch!r}; ask the space it came from",
            key="branch",
        )
    version = _version(reads, asked, view)
    reads.check_version(version)
    newest = reads.resolve(None)
    if asked.since is not None and asked.since > newest:
        raise not_found("since", asked.since, newest)
    return Pinned(reads, branch, version, command.path)


def _version(reads: SpaceReader, asked: Query, view: View) -> int:
    newest = reads.resolve(None)
    version = newest if view.version is None else view.version
    if asked.at is not None:
        version = (
            asked.at
            if isinstance(asked.at, int)
            else history.head_at(reads, version=None, at=parse_time(asked.at)).version
        )
        if version > newest:
            raise not_found("at", version, newest)
        if view.version is not None and version != view.version:
            raise InvalidInput(
                f"at: this view is pinned at version {view.version}; ask the space it came from",
                key="at",
            )
    if asked.cursor is None:
        return version
    branch = view.branch if asked.branch is None else asked.branch
    is_fixed = view.version is not None or asked.at is not None
    if (
        asked.cursor.space != reads.space.did
        or asked.cursor.branch != branch
        or not 0 <= asked.cursor.version <= newest
        or (is_fixed and asked.cursor.version != version)
    ):
        raise foreign_cursor()
    return asked.cursor.version


def not_found(key: str, version: int, newest: int) -> VersionNotFound:
    error = VersionNotFound(version, newest=newest)
    error.args = (f"{key}: {error}",)
    error.details["key"] = key
    return error


# -- selected entities -----------------------------------------------------------------------------


def page_of(asked: Query, pinned: Pinned) -> tuple[list[Root], bool]:
    """Return the selected entities of one page, in id order, and whether they are the last ones."""
    after = None if asked.cursor is None else asked.cursor.after
    found = roots_of(asked, pinned, after=after, limit=asked.limit + 1)
    return found[: asked.limit], len(found) <= asked.limit


def _cursor_after(
    asked: Query, pinned: Pinned, roots: Sequence[Root], walk: Walk, *, is_last: bool
) -> str | None:
    """Return the cursor of the next page, None at the end.

    The next page begins above the last root that was visited. All roots of a page are visited, unless
    a limit ended the walk; the first one always is.
    """
    visited = [root for root in roots if walk.has_visited(root.state.id)]
    if is_last and len(visited) == len(roots):
        return None
    cursor = Cursor(pinned.space, pinned.branch, pinned.version, visited[-1].state.id)
    return asked.continue_at(cursor)


def roots_of(asked: Query, pinned: Pinned, *, after: str | None, limit: int) -> list[Root]:
    """Return the first `limit` selected entities above an id."""
    names = sorted(id for id in asked.named if after is None or id > after)[:limit]
    states = dict(pinned.fetch(names)) if names else {}
    shows_deleted = set(names)
    for state in islice(_matches(asked, pinned, after), limit):
        states.setdefault(state.id, state)
        if asked.since is not None:
            shows_deleted.add(state.id)
    return [
        Root(states[id], asked.places(id), id in shows_deleted) for id in sorted(states)[:limit]
    ]


def _matches(asked: Query, pinned: Pinned, after: str | None) -> Iterator[State]:
    """Yield the entities that the prefixes select, in id order."""
    if asked.since is None:
        for prefix in asked.ranges():
            yield from pinned.scan(prefix, after)
        return
    ids = [
        id
        for id in (pinned.written(asked.since) if asked.prefixes else ())
        if asked.matches_prefix(id) and (after is None or id > after)
    ]
    for start in range(0, len(ids), PAGE_MAX):
        for state in pinned.fetch(ids[start : start + PAGE_MAX]).values():
            if state.erased and state.version > asked.since:
                state = structs.replace(state, erased=False)  # one more way to be deleted
            if state.exists or is_deleted(state):
                yield state

"""Queries on a space: find the state that a query means, select entities, and read them."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from rote.access.paths import within
from rote.contract import State, View, commands
from rote.errors import InvalidInput, VersionNotFound
from rote.kernel.log.entries import ABSENT, Entry, state_of
from rote.kernel.log.events import erasures
from rote.kernel.reading import history, scans
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader
from rote.query import (
    Query,
    Schemas,
    foreign_cursor,
    parse_query,
    query_result,
    values_result,
)
from rote.values import Json, parse_time
from rote.values.limits import PAGE_MAX
from rote.values.ranges import prefix_end


class Pinned:
    """One state of a space: a branch at a version, or the part of it within a path.

    Implements query.Source.
    """

    def __init__(
        self, reads: SpaceReader, branch: str, version: int, path: str | None = None
    ) -> None:
        self._reads = reads
        self._path = path
        self._line = reads.line(branch, version)
        self.name = reads.space.did
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
    return _answer(space, command, query_result)


def values(space: OpenSpace, command: commands.Values) -> dict[str, Json]:
    """Return the values of the selected entities, with the linked values in the places of links."""
    return _answer(space, command, values_result)


def _answer(
    space: OpenSpace,
    command: commands.Query | commands.Values,
    read: Callable[[Query, Schemas, Pinned], dict[str, Json]],
) -> dict[str, Json]:
    schemas, reads = Schemas(), space.reader()
    asked = parse_query(command.query, schemas)
    return reads.steadily(None, lambda _: read(asked, schemas, pin(reads, asked, command)))


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

"""Sources of answers to queries: a state that a port of a session shows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rote.contract import Port, State, View
from rote.contract.commands import Query, Read, Scan, Values
from rote.errors import InvalidInput, VersionNotFound
from rote.query import Query as Asked
from rote.query import Schemas, foreign_cursor, parse_query, query_result, values_result
from rote.values import Json
from rote.values.limits import PAGE_MAX, QUERY_LIMIT_MAX
from rote.values.ranges import prefix_end


class PortSource:
    """A branch at a version, as a port shows it. Implements query.Source."""

    def __init__(
        self, port: Port, space: str, view: View, *, name: str, own: Sequence[str], below: Port
    ) -> None:
        """name   of the space, and of what is written over it
        own    entities that were written over the state
        below  the port to the state itself
        """
        assert view.version is not None
        self.name = name
        self.branch = view.branch
        self.version = view.version
        self._port = port
        self._space = space
        self._view = view
        self._own = own
        self._below = below

    def fetch(self, ids: Sequence[str], /) -> Mapping[str, State]:
        if not ids:
            return {}
        states = self._port.answer(self._space, Read(tuple(ids), self._view))
        return {state.id: state for state in states}

    def scan(self, prefix: str, after: str | None, /) -> Iterator[State]:
        while True:
            command = Scan(prefix, prefix_end(prefix), after, PAGE_MAX, self._view)
            page = self._port.answer(self._space, command)
            yield from page.states
            if page.next is None:
                return
            after = page.next

    def written(self, since: int, /) -> list[str]:
        query: dict[str, Any] = {"select": {"*": {}}, "since": since, "limit": QUERY_LIMIT_MAX}
        found: set[str] = set(self._own)
        while True:
            page = self._below.answer(self._space, Query(query, self._view))
            found.update(page["facts"])
            if page["cursor"] is None:
                return sorted(found)
            query = {**query, "cursor": page["cursor"]}


def answer_query(source: PortSource, command: Query | Values) -> dict[str, Json]:
    """Return the result of a query in the state of a source; InvalidInput when it asks for another."""
    schemas = Schemas()
    asked = parse_query(command.query, schemas)
    _check_state(asked, source)
    read = query_result if isinstance(command, Query) else values_result
    return read(asked, schemas, source)


def _check_state(asked: Asked, source: PortSource) -> None:
    if asked.branch not in (None, source.branch):
        raise InvalidInput(
            f"branch: this view is on {source.branch!r}; ask session.on({asked.branch!r})",
            key="branch",
        )
    if asked.at not in (None, source.version):
        raise InvalidInput(
            f"at: this view is at version {source.version}; ask session.at() for another",
            key="at",
        )
    if asked.since is not None and asked.since > source.version:
        raise VersionNotFound(asked.since, newest=source.version)
    cursor = asked.cursor
    if cursor is not None and (cursor.space, cursor.branch, cursor.version) != (
        source.name, source.branch, source.version,
    ):  # fmt: skip
        raise foreign_cursor()

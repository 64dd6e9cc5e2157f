"""Held states: what the watches of a session show, folded from steps. They can be read offline.

a watch that selects `urn:plan:*`     holds every entity below it, and knows which are not there
a watch that follows links            holds what they lead to, too
a watch that was cut by its limits    holds what it shows, and knows of nothing else
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from rote.contract import ScanPage, State
from rote.contract.commands import Scan
from rote.contract.sync import Sync, unreadable
from rote.errors import InvalidInput, RoteError
from rote.query import Query, Schemas, parse_query
from rote.space.scan_pages import first_id
from rote.values import canonical, decode, decode_canonical
from rote.values.limits import DEPTH_MAX, MESSAGE_BYTES_MAX
from rote.values.names import check_text
from rote.values.ranges import prefix_end
from rote.values.sync_limits import SYNC_WATCHES_MAX

ONE = "watch"  # the name of a query that was given without one
_FORM = "watch is a query, as in {'select': {'urn:plan:*': {}}}, or {name: query}"


class HeldWatch(Struct, frozen=True):
    """One watch, as of a step."""

    query: Query
    branch: str
    shown: Mapping[str, State] = {}
    is_whole: bool = False  # it has had a step, and was not cut

    def state(self, id: str) -> State | None:
        """Return the state of an entity; None when this watch does not know it."""
        found = self.shown.get(id)
        if found is None and self.is_whole and self._selects(id):
            return State(id, None, False, 0, None)
        return found

    def _selects(self, id: str) -> bool:
        return id in self.query.named or self.query.matches_prefix(id)

    def covers(self, start: str, end: str | None) -> bool:
        """Whether it knows every entity in a range of ids."""
        return self.is_whole and any(
            start.startswith(prefix) and _ends_before(end, prefix_end(prefix))
            for prefix in self.query.ranges()
        )


def _ends_before(end: str | None, bound: str | None) -> bool:
    return bound is None or (end is not None and end <= bound)


class Held:
    """The states that all watches of a session show at one step. It never changes."""

    def __init__(
        self, watches: Mapping[str, HeldWatch], written: Sequence[tuple[str, State]] = ()
    ) -> None:
        """written  (branch, state) of what is known to have been written by the last step"""
        self.watches = watches
        self.written = written
        self._ids: dict[str, list[str]] = {}  # by watch, in order

    def state(self, branch: str, id: str) -> State | None:
        """Return the state of an entity; None when no watch knows it."""
        for watch in self.watches.values():
            if watch.branch == branch and (found := watch.state(id)) is not None:
                return found
        return None

    def covers(self, branch: str, start: str, end: str | None) -> bool:
        """Whether one watch knows every entity in a range of ids."""
        return self._covering(branch, start, end) is not None

    def page(self, branch: str, command: Scan, version: int) -> ScanPage | None:
        """Return a page of a scan; None when no watch knows all of it."""
        start = first_id(command) if not command.descending else command.start
        name = self._covering(branch, start, command.end)
        if name is None:
            return None
        shown = self.watches[name].shown
        ids = self._ids.setdefault(name, sorted(shown))
        end = command.end
        if command.descending and command.after is not None:
            end = command.after if end is None else min(end, command.after)
        found = ids[bisect_left(ids, start) : None if end is None else bisect_left(ids, end)]
        if command.descending:
            found.reverse()
        states = [state for id in found if (state := shown[id]).exists]
        page = states[: command.limit]
        return ScanPage(tuple(page), version, page[-1].id if len(states) > len(page) else None)

    def _covering(self, branch: str, start: str, end: str | None) -> str | None:
        for name, watch in self.watches.items():
            if watch.branch == branch and watch.covers(start, end):
                return name
        return None

    def after(self, step: Sync) -> "Held":
        """Return what is held after a whole step; Unavailable for one that cannot be read."""
        try:
            return self._after(step, [_state_of(bytes(state)) for state in step.states])
        except (LookupError, TypeError, RoteError) as error:
            raise unreadable(error) from None

    def _after(self, step: Sync, states: list[State]) -> "Held":
        watches = dict(self.watches)
        written: list[tuple[str, State]] = []
        for name, part in step.watches.items():
            watch = watches.get(name)
            if watch is None:
                continue
            shown = {} if part.start is None else dict(watch.shown)
            for id in part.removes:
                shown.pop(id, None)
            shown |= {states[place].id: states[place] for place in part.upserts}
            if part.start is not None:
                written += [(watch.branch, states[place]) for place in part.upserts]
            watches[name] = HeldWatch(watch.query, watch.branch, shown, part.truncated is None)
        return Held(watches, written)


def _state_of(data: bytes) -> State:
    # A value may be as deep and as large as any, and stands in the state.
    told: Any = decode(data, size_bytes_max=MESSAGE_BYTES_MAX, depth_max=DEPTH_MAX + 1)
    if type(told["id"]) is not str or type(told["version"]) is not int:
        raise TypeError("a state without an id or a version")
    exists = "deleted" not in told
    return State(
        told["id"], told["value"] if exists else None, exists, told["version"], told["hash"]
    )


def parse_watches(watch: Any, branch: str) -> dict[str, Any]:
    """Return the queries that a session holds, by name: of one query, or of {name: query}."""
    if watch is None:
        return {}
    if not isinstance(watch, Mapping):
        raise InvalidInput(_FORM, argument="watch")
    named: Mapping[str, Any] = {ONE: watch} if "select" in watch else watch
    if len(named) > SYNC_WATCHES_MAX:
        raise InvalidInput(
            f"a session watches at most {SYNC_WATCHES_MAX} queries", argument="watch"
        )
    queries: dict[str, Any] = {}
    for name, query in named.items():
        check_text(name, "the name of a query")
        if not isinstance(query, Mapping) or "select" not in query:
            raise InvalidInput(
                f"{name!r} of watch is no query with `select`; {_FORM}", argument="watch"
            )
        parse_query(query, Schemas(), is_watch=True)
        kept = decode_canonical(canonical(dict(query)))  # whatever the caller changes later
        queries[name] = kept if branch == "main" or "branch" in kept else {**kept, "branch": branch}
    return queries


def held_by(queries: Mapping[str, Any]) -> Held:
    """Return what watches hold before their first step: nothing."""
    watches: dict[str, HeldWatch] = {}
    for name, query in queries.items():
        parsed = parse_query(query, Schemas(), is_watch=True)
        watches[name] = HeldWatch(parsed, parsed.branch or "main")
    return Held(watches)

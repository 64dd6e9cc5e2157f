"""Watches: the result of a query as frames, each from the last shown version to a newer one.

A watcher remembers what it has shown and reads the log at its own pace. Nothing is queued for it. So
a slow watcher costs writers nothing, and its memory is bounded by the limits of its query.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from threading import TIMEOUT_MAX
from typing import Any

from rote.contract import State
from rote.contract.commands import Watch
from rote.errors import Compacted, InvalidInput, Unavailable
from rote.kernel.log.events import erasures
from rote.kernel.log.nonsense import NONSENSE, unreadable
from rote.kernel.reading.queries import Pinned, not_found
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.watching.turns import Turns
from rote.kernel.watching.wakeups import Wakeups
from rote.query import (
    Overflow,
    Place,
    ResultGraph,
    Root,
    Schemas,
    Truncated,
    batches,
    fact_of,
    parse_query,
    roots_of,
    walk_of,
)
from rote.values import Json, canonical, decode
from rote.values.limits import (
    INTEGER_MAX,
    WATCH_PAUSE_SECONDS,
    WATCH_SCHEMAS_MAX,
)

Frame = dict[str, Any]


def watch(space: OpenSpace, command: Watch) -> "SpaceWatching":
    """Begin a watch; raise at once when the command is wrong."""
    since = command.since
    if command.view.version is not None:
        raise InvalidInput("a pinned view never changes; watch the space it came from")
    if since is not None and (type(since) is not int or not 0 <= since <= INTEGER_MAX):
        raise InvalidInput("since: it is a version, or None for everything", key="since")
    watcher = Watcher(space, command)
    if since is not None:
        newest = watcher.look()
        if since > newest:
            raise not_found("since", since, newest)
        space.reader().check_version(since)
    return SpaceWatching(space, watcher, since)


class SpaceWatching:
    """The implementation of contract.Watching."""

    def __init__(self, space: OpenSpace, watcher: "Watcher", since: int | None) -> None:
        self._wakeups = space.part(Wakeups)
        self._turns = space.part(Turns)
        self._watcher = watcher
        self._since = since
        self._has_begun = self._is_closed = False
        self._woken, self._took = 0.0, 0.0

    def next(self, timeout: float | None = None) -> Frame | None:
        """Wait for the next frame; None when none came in time."""
        # `not timeout >= 0` instead of `timeout < 0`, to refuse NaN too.
        if timeout is not None and (type(timeout) not in (int, float) or not timeout >= 0):
            raise InvalidInput("timeout: it is a number of seconds from 0 on", key="timeout")
        try:
            return self._next(timeout)
        except NONSENSE as error:
            raise unreadable(error) from error

    def _next(self, timeout: float | None) -> Frame | None:
        if self._is_closed:
            return None
        if not self._has_begun:
            frame = self._watcher.start(self._since)
            self._has_begun, self._woken = True, time.monotonic()
            return frame
        # A timeout above what the system can wait counts as none.
        is_for_ever = timeout is None or timeout > TIMEOUT_MAX
        return self._wait(None if is_for_ever else time.monotonic() + (timeout or 0.0))

    def advance(self, version: int) -> Frame | None:
        """Go on to a version without waiting; None when nothing has changed."""
        try:
            return self._advance(version)
        except NONSENSE as error:
            raise unreadable(error) from error

    def _advance(self, version: int) -> Frame | None:
        watcher = self._watcher
        if self._is_closed:
            return None
        watcher.check_usable()
        if not self._has_begun:
            frame = watcher.start(self._since, version)
            self._has_begun = True
            return frame
        if version <= watcher.version:
            return None
        with self._turns.turn(None):
            return watcher.advance_to(version)

    def close(self) -> None:
        """End the watch: no frame comes any more. Nothing is held between two frames."""
        self._is_closed = True

    def _wait(self, deadline: float | None) -> Frame | None:
        watcher, wakeups = self._watcher, self._wakeups
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            is_over = left is not None and left <= 0
            seen, newest = watcher.version, wakeups.newest
            # When another watcher has seen a newer version, all advance to that same version. But
            # it may have looked a while ago: so a watcher looks itself before its time is over.
            if newest <= seen or is_over:
                newest = watcher.look()
            if newest <= seen and is_over:
                return None
            if newest <= seen:
                newest = wakeups.wait(seen, left, watcher.look)
            if newest <= seen:
                continue
            frame = self._work(newest, deadline)
            if frame is not None:
                return frame
            if is_over and watcher.version > seen:
                return None  # others keep writing, and the result has not changed

    def _work(self, newest: int, deadline: float | None) -> Frame | None:
        # A watcher that worked long rests in proportion, so that many watchers leave writers time.
        due = self._woken + max(WATCH_PAUSE_SECONDS, 2 * self._took)
        time.sleep(max(0.0, due - time.monotonic()))
        # Before the turn begins, so that all watchers in the queue advance to the same version.
        newest = max(newest, self._wakeups.newest)
        self._watcher.check_usable()
        with self._turns.turn(deadline):
            self._woken = time.monotonic()
            frame = self._watcher.advance(newest)
            self._took = time.monotonic() - self._woken
        return frame


class Watcher:
    """The shown result of one watch; it computes the next frame."""

    def __init__(self, space: OpenSpace, command: Watch) -> None:
        raw, view = command.query, command.view
        self._space = space
        self._path = command.path
        self._wakeups = space.part(Wakeups)
        self._schemas = Schemas()
        self._query = parse_query(raw, self._schemas, is_watch=True)
        self._text = canonical(dict(raw))
        self._branch = view.branch if self._query.branch is None else self._query.branch
        self._graph: ResultGraph | None = None  # None while the result is above the limits
        self._shown: dict[str, tuple[int, str | None]] = {}  # version and hash of what was sent
        self._sent: int | None = None  # the version of the last frame
        self._truncated: Truncated | None = None  # why the result at `version` is not complete
        self.version = 0  # the version of the shown result
        self._losses = space.losses
        self._pinned(self.look())  # raises at once for a branch that does not exist

    def look(self) -> int:
        """Return the newest version."""
        head = self._space.reader().sync()
        newest = 0 if head is None else head.version
        self._check_log()
        return newest

    def check_usable(self) -> None:
        """Raise in a forked process, before it waits for a lock that nobody would release there."""
        self._space.engine.reader()

    def _check_log(self) -> None:
        if self._space.losses != self._losses and self.version > 0:
            raise Unavailable(
                f"the log went up to version {self.version} and has lost its last commits since;"
                " watch again from the start"
            )

    def start(self, since: int | None, version: int | None = None) -> Frame:
        """Return the frame that leads from a version to now, or from nothing.

        It leads from nothing without a version, and when the result at the version is not known any
        more.

        version  to lead to, instead of now
        """
        return self._space.reader().steadily(None, lambda _: self._start(since, version))

    def _start(self, since: int | None, version: int | None) -> Frame:
        # For the other watchers too: the version they saw may be of a log that has lost commits.
        newest = self._wakeups.newest = self.look()
        self.version = newest if version is None else version
        self._losses = self._space.losses
        self._shown, self._sent = {}, None
        if since is not None:
            graph, facts, _ = self._result(self._pinned(since))
            if not self._is_lost(since, graph):
                self._shown = {id: (state.version, state.hash) for id, state in facts.items()}
                self._sent = since
        frame = self._frame(self._rebuild())
        self._sent = self.version
        return frame

    def _is_lost(self, since: int, graph: ResultGraph | None) -> bool:
        """Whether the result that was shown at a version is not known any more.

        An erased entity is now absent at every version. If the query had met it, nobody knows which
        entities it led to, or which it kept out of the limits. This is asked after the result was
        read, so that no erasure can come in between.
        """
        erased = {id for _, id in self._erasures(since)}
        if graph is None:
            return bool(erased)
        return any(graph.concerns(id) or self._query.matches_prefix(id) for id in erased)

    def advance(self, version: int) -> Frame | None:
        """Return the frame that leads to a version; None when the result has not changed."""
        before = self.version
        try:
            return self.advance_to(version)
        except Compacted:
            # A compaction has moved the horizon above that version: go on to a newer one.
            self.version, self._graph = before, None
            self._wakeups.newest = max(self._wakeups.newest, self.look())
            return None

    def advance_to(self, version: int) -> Frame | None:
        """Return the frame that leads to exactly this version; Compacted when it is gone."""
        self._check_log()
        before, self.version = self.version, version
        truncated = self._truncated
        changed = self._wakeups.changes(
            (self._branch, self._losses, before, version), lambda: self._changed(before)
        )
        frame = self._frame(self._touched(changed))
        if not frame["upserts"] and not frame["removes"] and self._truncated == truncated:
            return None
        self._sent = self.version
        return frame

    def _frame(self, touched: Mapping[str, State | None]) -> Frame:
        """Return the frame of entities that differ from what was shown, and remember them as shown.

        In `touched` None stands for an entity that is not shown.
        """
        upserts: list[Json] = []
        removes: list[Json] = []
        for id in sorted(touched):
            state, before = touched[id], self._shown.get(id)
            if state is None:
                if before is not None:
                    removes.append(id)
                    del self._shown[id]
            elif before != (state.version, state.hash):
                upserts.append({"id": id, **fact_of(state)})
                self._shown[id] = (state.version, state.hash)
        frame: Frame = {
            "from": self._sent,
            "to": self.version,
            "upserts": upserts,
            "removes": removes,
        }
        if self._truncated is not None:
            frame["truncated"] = self._truncated.to_dict()
        return frame

    # -- changes of the result ---------------------------------------------------------------------

    def _changed(self, before: int) -> frozenset[str]:
        """Return the ids that were written on the branch itself, or erased anywhere, above a version.

        The forks from its ancestors were made before the watch began, so their facts do not change.
        """
        rows = self._space.engine.reader()
        number = self._space.branches.number(self._branch)
        written = rows.written(self._space.number, [(number, before, self.version)])
        erased = {id for version, id in self._erasures(before) if version <= self.version}
        return frozenset(erased.union(written))

    def _erasures(self, since: int) -> Iterator[tuple[int, str]]:
        return erasures(self._space.engine.reader(), self._space.number, after=since)

    def _touched(self, changed: Iterable[str]) -> Mapping[str, State | None]:
        """Return the states that may be shown differently after changes of these entities."""
        graph, query = self._graph, self._query
        if graph is None or len(self._schemas) > WATCH_SCHEMAS_MAX:
            return self._rebuild()
        ids = [id for id in changed if graph.concerns(id) or query.matches_prefix(id)]
        if len(ids) > query.max_entities:
            return self._rebuild()
        if not ids:
            return {}
        pinned = self._pinned(self.version)
        states: dict[str, State] = {}
        for batch in batches(ids):
            states.update(pinned.fetch(batch))
        added: list[Place] = []
        removed: list[Place] = []
        for id, state in states.items():
            for selector in query.selectors(id):
                is_root = state.exists or not selector.is_prefix
                (added if is_root else removed).append(selector.place(id))
        try:
            touched = graph.update(pinned.fetch, states, added=added, removed=removed)
        except Overflow:
            return self._rebuild()
        self._truncated = graph.truncated
        return {id: state if graph.shows(id) else None for id, state in touched.items()}

    def _rebuild(self) -> Mapping[str, State | None]:
        """Return the whole result, computed anew, with None for shown entities that are not in it."""
        if len(self._schemas) > WATCH_SCHEMAS_MAX:
            self._schemas = Schemas()
            self._query = parse_query(decode(self._text), self._schemas, is_watch=True)
        self._graph, facts, self._truncated = self._result(self._pinned(self.version))
        return {**dict.fromkeys(self._shown), **facts}

    def _result(
        self, pinned: Pinned
    ) -> tuple[ResultGraph | None, Mapping[str, State], Truncated | None]:
        """Return the graph (None above the limits), the entities that are shown, and the truncation."""
        graph, facts = self._build(pinned)
        return (graph, facts, graph.truncated) if graph is not None else (None, *self._walk(pinned))

    def _build(self, pinned: Pinned) -> tuple[ResultGraph | None, Mapping[str, State]]:
        query = self._query
        graph = ResultGraph(
            self._schemas,
            depth_max=query.max_depth,
            entities_max=query.max_entities,
            shows_deleted=query.named.__contains__,
        )
        roots = self._roots(pinned)
        states = {root.state.id: root.state for root in roots}
        places = [place for root in roots for place in root.places]
        try:
            touched = graph.update(pinned.fetch, states, added=places)
        except Overflow:
            return None, {}
        return graph, {
            id: state for id, state in touched.items() if state is not None and graph.shows(id)
        }

    def _walk(self, pinned: Pinned) -> tuple[Mapping[str, State], Truncated | None]:
        walk = walk_of(self._query, self._schemas, pinned)
        walk.run(self._roots(pinned))
        return walk.facts, walk.truncated

    def _roots(self, pinned: Pinned) -> list[Root]:
        """Return all selected entities, or one more than can ever be shown."""
        limit = self._query.max_entities + len(self._query.named) + 1
        return roots_of(self._query, pinned, after=None, limit=limit)

    def _pinned(self, version: int) -> Pinned:
        return Pinned(self._space.reader(), self._branch, version, self._path)

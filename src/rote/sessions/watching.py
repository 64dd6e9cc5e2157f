"""Watches of a view: frames of what a query shows, with own writes in it."""

import time
from collections.abc import Callable
from typing import Any

from rote.contract import State
from rote.errors import InvalidInput
from rote.query import Schemas, Walk, fact_of, parse_query, roots_of, walk_of
from rote.sessions.deadlines import deadline_of
from rote.sessions.layers import Fold
from rote.sessions.replica import Replica
from rote.values import canonical, decode_canonical

_Mark = tuple[bool, int, str | None, bytes | None]


class ViewWatching:
    """Implements contract.Watching and Ringing on a view of a session."""

    def __init__(self, replica: Replica, branch: str, query: Any) -> None:
        self._replica = replica
        asked = parse_query(query, Schemas(), is_watch=True)
        self._text = canonical(dict(query))  # what the caller changes later does not matter
        self._branch = branch if asked.branch is None else asked.branch
        self._seen: tuple[Fold, int] | None = None
        self._shown: dict[str, _Mark] = {}
        self._truncated: dict[str, Any] | None = None  # why that is not all
        self._version: int | None = None  # that the last frame led to
        self._is_closed = False
        self._leave: Callable[[], None] = lambda: None  # ends the ringing

    def next(self, timeout: float | None = None) -> dict[str, Any] | None:
        deadline = deadline_of(timeout)
        while self._await_change(deadline):
            frame = self._frame()
            if frame is not None:
                return frame
        return None

    @property
    def is_over(self) -> bool:
        return self._is_closed or self._replica.state == "ended"

    def listen(self, ring: Callable[[], None] | None) -> None:
        self._leave()
        if ring is not None:
            self._leave = self._replica.changed.listen(self._is_to_look, ring)

    def take(self) -> dict[str, Any] | None:
        return self.next(0)

    def advance(self, version: int) -> dict[str, Any] | None:
        raise InvalidInput("a view of a session goes by the steps of its session")

    def close(self) -> None:
        self._is_closed = True
        if self._replica.is_forked:
            return
        with self._replica.changed:
            self._replica.changed.notify_all()

    def _await_change(self, deadline: float | None) -> bool:
        """Wait until the view is another one; return whether it is."""
        replica = self._replica
        replica.check_process()
        with replica.changed:
            while not self._is_closed:
                if self._has_moved():
                    return True
                left = None if deadline is None else deadline - time.monotonic()
                if replica.state == "ended" or (left is not None and left <= 0):
                    return False
                replica.changed.wait(left)
            return False

    def _has_moved(self) -> bool:
        stack = self._replica.stack
        return self._seen != (stack.fold(self._branch), stack.made)

    def _is_to_look(self) -> bool:
        return self.is_over or self._has_moved()

    def _frame(self) -> dict[str, Any] | None:
        """Return what the view shows otherwise than the last frame; None when that is nothing."""
        view = self._replica.view(self._branch)
        self._seen = view.fold, view.until
        walk = self._walk(view)
        facts = dict(walk.facts)
        before, self._shown = self._shown, {id: _mark_of(facts[id]) for id in facts}
        upserts = [
            {"id": id, **fact_of(facts[id])}
            for id in sorted(facts)
            if before.get(id) != self._shown[id]
        ]
        removes = sorted(before.keys() - facts.keys())
        truncated = None if walk.truncated is None else walk.truncated.to_dict()
        is_cut_otherwise, self._truncated = truncated != self._truncated, truncated
        is_first = self._version is None
        if not (upserts or removes or is_cut_otherwise or is_first):
            return None
        frame: dict[str, Any] = {
            "from": self._version, "to": view.version, "upserts": upserts, "removes": removes,
        }  # fmt: skip
        self._version = view.version
        if truncated is not None:
            frame["truncated"] = truncated
        return frame

    def _walk(self, view: Any) -> Walk:
        schemas = Schemas()
        asked = parse_query(decode_canonical(self._text), schemas, is_watch=True)
        source = view.source()
        limit = asked.max_entities + len(asked.named) + 1
        walk = walk_of(asked, schemas, source)
        walk.run(roots_of(asked, source, after=None, limit=limit))
        return walk


def _mark_of(state: State) -> _Mark:
    """Return what tells a state from another one: what an own commit wrote has no hash. As text, because
    in Python 1 is True."""
    text = canonical(state.value) if state.hash is None else None
    return state.exists, state.version, state.hash, text

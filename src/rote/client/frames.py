"""Frames that wait for their reader: what has come since the last one that was taken is one frame.

So a reader that never reads holds the result of its query once, and holds up no other watch of its line.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.json import Decoder

from rote.contract.sync import WatchPart, unreadable


class _StateHead(Struct):
    """The state of an entity, without its value."""

    branch: str
    id: str
    version: int
    hash: str | None


_head_of = Decoder(_StateHead).decode
_value_of = Decoder(dict[str, Any]).decode


class WaitingFrame:
    """Changes that a watch has not shown yet."""

    def __init__(self, since: int | None = None) -> None:
        """since  the version that its reader holds; what that shows is not known here"""
        self.to: int | None = since  # of the last frame that was taken
        self._shown: dict[str, tuple[int, str | None]] = {}
        self._states: dict[str, Raw | None] = {}  # what has changed; None: it is not shown any more
        self._is_all_known = since is None
        self._is_due = True  # a first frame always comes
        self._starts_over = False
        self._came_to: int | None = None
        self._truncated: Any = None
        self._told_truncated: Any = None

    @property
    def has_begun(self) -> bool:
        """Whether a first frame has come from the server."""
        return self._came_to is not None

    def take_in(self, to: int, part: WatchPart, states: list[Raw]) -> None:
        """Take in a frame of the server: the share of a watch in a step."""
        try:
            upserts = [(_head_of(states[place]).id, states[place]) for place in part.upserts]
        except (msgspec.MsgspecError, IndexError) as error:
            raise unreadable(error) from None
        if part.start is None:
            self._states, self._starts_over, self._is_all_known = {}, True, True
        for id in part.removes:
            self._states[id] = None
        self._states.update(upserts)
        self._truncated = part.truncated
        self._came_to = to

    def frame(self, reached: int) -> dict[str, Any] | None:
        """Return all that waits as one frame; None when nothing has changed.

        reached  a version up to which nothing else is to be shown
        """
        if self._came_to is None:
            return None
        start = None if self._starts_over else self.to
        if self._starts_over:
            self._shown = {}
        upserts: list[dict[str, Any]] = []
        removes: list[str] = []
        for id in sorted(self._states):
            data = self._states[id]
            if data is None:
                if self._shown.pop(id, None) is not None or not self._is_all_known:
                    removes.append(id)
                continue
            head = _head_of(data)
            if self._shown.get(id) != (head.version, head.hash):
                self._shown[id] = (head.version, head.hash)
                upserts.append(_upsert(data))
        is_due = self._is_due or self._starts_over
        is_same = self._truncated == self._told_truncated
        self._states, self._is_due, self._starts_over = {}, False, False
        self._told_truncated = self._truncated
        if not (is_due or upserts or removes or not is_same):
            return None
        self.to = max(self._came_to, reached)
        frame = {"from": start, "to": self.to, "upserts": upserts, "removes": removes}
        if self._truncated is not None:
            frame["truncated"] = self._truncated
        return frame


def _upsert(data: Raw) -> dict[str, Any]:
    try:
        state = _value_of(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise unreadable(error) from None
    del state["branch"]
    return state

"""Moves: what steps have shown to be written while transactions were open.

So a transaction whose reads were overtaken is a conflict at its end, and need not be sent.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rote.contract import State
from rote.errors import ReadConflict
from rote.values.ranges import prefix_end
from rote.values.session_limits import SESSION_MOVES_MAX


class Moves:
    """The newest known write of each entity that steps have shown; its replica holds a lock."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, str], State] = {}  # by branch and entity
        self._own: dict[int, int] = {}  # locals of own commits by their versions

    def accepted(self, local: int, version: int) -> None:
        self._own[version] = local

    def step(self, written: Sequence[tuple[str, State]], version: int, *, is_read: bool) -> None:
        """Note what a step to a version has shown.

        is_read  whether any transaction is open
        """
        if not is_read or len(self._newest) + len(written) > SESSION_MOVES_MAX:
            self._newest.clear()  # nothing is sure then; the store decides
        if not is_read:
            self._own = {own: local for own, local in self._own.items() if own > version}
        else:
            self._newest |= {(branch, state.id): state for branch, state in written}

    def conflict(self, read: Mapping[str, Any], branch: str, until: int) -> ReadConflict | None:
        """Return the conflict of a read that is not true any more; None where the store has to decide.

        until  the last own commit that the reader has seen
        """
        if read.get("path"):
            return None  # the write may have been beside it
        for (where, id), state in self._newest.items():
            own = self._own.get(state.version)
            is_seen = own is not None and own <= until
            if (
                where == branch
                and state.version > read["version"]
                and not is_seen
                and _reads(read, id)
            ):
                return ReadConflict(
                    read.get("id"), read.get("prefix"), read.get("from"), read.get("to"), branch,
                    read["version"], state.version, state.hash,
                )  # fmt: skip
        return None


def _reads(read: Mapping[str, Any], id: str) -> bool:
    if "id" in read:
        return bool(read["id"] == id)
    if "prefix" in read:
        start, end = read["prefix"], prefix_end(read["prefix"])
    else:
        start, end = read["from"], read.get("to")
    return bool(id >= start and (end is None or id < end))

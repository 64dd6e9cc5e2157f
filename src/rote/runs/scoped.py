"""The part of a run that a scope of a host uses; tiers know it by the protocol in tiers/runs.py.

Memory and store are the run's own. What the queue and the agent tier write in a buffered run joins its
commit, together with guards on the rows that they claim.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import structs

from rote.contract import Glance, Guard
from rote.contract.run_modes import Mode
from rote.records.memory import Memory
from rote.runs.adapter_calls import AdapterCalls
from rote.runs.modes import BUFFERED
from rote.space import Space
from rote.space.buffer import Buffer

Check = Callable[[], None]


class Scoped:
    """A run as the scopes of hosts see it. Any thread may use it."""

    def __init__(
        self,
        *,
        did: str,
        branch: str,
        mode: Mode,
        is_replay: bool,
        buffer: Buffer,
        memory_of: Callable[..., Memory],
        faces: Callable[[], tuple[Space, Space]],
        calls: Callable[[], AdapterCalls],
        check_read: Check,
        check_write: Check,
    ) -> None:
        """Wire it.

        faces  returns the space that is read, and the one that is written
        calls  returns the calls of a run that goes on, and raises for another one
        """
        self.did = did
        self.branch = branch
        self.is_buffered = mode == BUFFERED
        self.is_replay = is_replay
        self.memory_of = memory_of
        self.calls = calls
        self.turn = buffer.lock  # for callers that look first and then write
        self.guards: dict[tuple[str, str], Guard] = {}  # of the commit, by kind and key
        self._faces = faces
        self._check_read = check_read
        self._check_write = check_write

    def check(self, *, writes: bool) -> None:
        """Raise Denied where the mode of the run does not allow to read or write."""
        self._check_read()
        if writes:
            self._check_write()

    def faces(self) -> tuple[Space, Space]:
        """Return the space that is read, and the one that is written."""
        return self._faces()

    # -- what joins the commit ---------------------------------------------------------------------

    def glance(self, id: str, *, values: Sequence[str] = (), is_noted: bool = False) -> Glance:
        """Return parts of an entity at the snapshot, with the run's own writes."""
        return self._faces()[1].glance(id, values=values, is_noted=is_noted)

    def write(self, operation: Mapping[str, Any], *, guard: Guard | None = None) -> None:
        """Let an operation join the commit, and a guard with it."""
        with self.turn:
            self._faces()[1].transact([operation])
            if guard is not None:
                self.guards[guard.kind, guard.key] = guard

    def follow(self, kind: str, key: str, *, before: int, after: int) -> None:
        """Let a guard follow its row, which the run itself has moved."""
        with self.turn:
            guard = self.guards.get((kind, key))
            if guard is not None and guard.fence == before:
                self.guards[kind, key] = structs.replace(guard, fence=after)

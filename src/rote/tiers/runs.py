"""The seam to runs, which are a neighbour: what a scope of a host needs of the run that it is in."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from rote.contract import Glance, Guard
from rote.recordings.adapter_calls import AdapterCall
from rote.recordings.redaction import Redaction
from rote.records.memory import Memory
from rote.space import Space
from rote.values import Json


class RunCalls(Protocol):
    """The way of calls to their adapters, or to the recording of a run."""

    def call(
        self,
        call: AdapterCall,
        perform: Callable[[], Json],
        *,
        is_line: bool,
        writes: bool,
        again: Callable[[Json], None],
    ) -> Json:
        """Make a call, or let the recording answer it.

        is_line  whether recordings have it; otherwise it is made again in a replay
        again    does what joins the commit, for the result that the recording gave
        """

    @property
    def redaction(self) -> Redaction:
        """The redaction of all names that hosts have brought into the run so far."""

    def redact(self, names: frozenset[str], draw: Callable[[], bytes]) -> None:
        """Hide the values of some names from now on, in all calls of the run; `draw` gives the salt of a
        new recording."""


class ScopedRun(Protocol):
    """A run as the scopes of hosts see it."""

    did: str
    branch: str
    is_buffered: bool  # its writes are kept back and become one commit
    is_replay: bool
    memory_of: Callable[..., Memory]  # by the settings that rote.Memory takes

    def calls(self) -> RunCalls:
        """Return the calls of a run that goes on; InvalidInput for another one."""

    @property
    def turn(self) -> AbstractContextManager[Any]:
        """The time in which nobody else writes in the run."""

    def check(self, *, writes: bool) -> None:
        """Raise Denied where the mode of the run does not allow to read or write."""

    def faces(self) -> tuple[Space, Space]:
        """Return the space that is read, and the one that is written."""

    def glance(self, id: str, *, values: Sequence[str] = (), is_noted: bool = False) -> Glance:
        """Return parts of an entity at the snapshot, with the run's own writes."""

    def write(self, operation: Mapping[str, Any], *, guard: Guard | None = None) -> None:
        """Let an operation join the commit, and a guard with it."""

    def follow(self, kind: str, key: str, *, before: int, after: int) -> None:
        """Let a guard follow its row, which the run itself has moved."""


@runtime_checkable
class RunOfScope(Protocol):
    """A run that scopes can be in: the one that space.run returned."""

    @property
    def scoped(self) -> ScopedRun: ...

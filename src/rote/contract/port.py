"""The Port: the one interface to a store, local or remote.

The kernel answers in process, a client over the wire; both pass the same suite. Every answer is
atomic and sees one committed state. Reads may be repeated freely, a commit only with its key. All
errors are those of rote.errors. A layer wraps a port with a few lines around `answer`.
"""

from collections.abc import Callable
from copy import copy
from typing import Any, Protocol, TypeVar, runtime_checkable

from msgspec import Struct

from rote.contract.commands import Command, Watch, Work
from rote.contract.open_store import OpenStore

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

Tell = Callable[[str, int, int], None]  # (name of the phase, steps done, steps in total)


class Caller(Struct, frozen=True):
    """The caller of a port. It is bound to a port once, and is not an argument of every call."""

    author: str | None = None  # noted in every commit
    # Whether it is a part of Rote that asks for the spaces with reserved names. It sees only these, and
    # all others see none of them.
    is_library: bool = False


class Task(Protocol[R_co]):
    """Long work that was begun. The thread that calls `result` does it."""

    def result(self, tell: Tell | None = None) -> R_co:
        """Do the work, report progress to `tell`, and return the answer.

        An exception that `tell` raises ends the work.
        """
        ...

    def cancel(self) -> None:
        """End the work at its next step: `result` raises Unavailable with the code `cancelled`."""
        ...


class Watching(Protocol):
    """A watch that was begun."""

    def next(self, timeout: float | None = None) -> dict[str, Any] | None:
        """Wait for the next frame and return it; None when none came within `timeout` seconds."""
        ...

    def advance(self, version: int) -> dict[str, Any] | None:
        """Go on to a version, and return the frame that leads there; None when nothing has changed.

        Nothing waits. So several watches of a space can show it at one version. Compacted when the
        version has gone meanwhile; the watch is over then.
        """
        ...

    def close(self) -> None: ...


@runtime_checkable
class Ringing(Protocol):
    """A watch to which frames come by themselves."""

    @property
    def is_over(self) -> bool:
        """Whether nothing comes any more but what `take` says now."""
        ...

    def listen(self, ring: Callable[[], None] | None) -> None:
        """Have a function called, on any thread, when `take` may have something to say."""
        ...

    def take(self) -> dict[str, Any] | None:
        """Return what has come as one frame; None when nothing has. Nothing waits."""
        ...


class Port(Protocol):
    """A store of spaces. A space is named by its did, the store as a whole by the empty text."""

    @property
    def open_store(self) -> OpenStore:
        """The same for all ports to the store, and for no other store."""
        ...

    def answer(self, space: str, command: Command[R], /) -> R: ...

    def begin(self, space: str, command: Work[R], /) -> Task[R]: ...

    def watch(self, space: str, command: Watch, /) -> Watching: ...

    def for_caller(self, caller: Caller, /) -> "Port":
        """Return a port to the same store, bound to another caller."""
        ...

    def close(self) -> None: ...


class PortLayer:
    """A port that passes every call on to another port. A layer overrides what it answers itself."""

    def __init__(self, port: Port) -> None:
        self._port = port

    @property
    def open_store(self) -> OpenStore:
        return self._port.open_store

    def answer(self, space: str, command: Command[R], /) -> R:
        return self._port.answer(space, command)

    def begin(self, space: str, command: Work[R], /) -> Task[R]:
        return self._port.begin(space, command)

    def watch(self, space: str, command: Watch, /) -> Watching:
        return self._port.watch(space, command)

    def for_caller(self, caller: Caller, /) -> Port:
        bound = copy(self)
        bound._port = self._port.for_caller(caller)
        return bound

    def close(self) -> None:
        self._port.close()

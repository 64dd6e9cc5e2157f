"""The Port: the one door to a store, whoever answers.

The kernel answers in process, a client over the wire; both pass the same suite. Every answer is
atomic and sees one committed state. Reads may be repeated freely, a commit with its key. Errors are
those of rote.errors, nothing else. Layers may wrap a port: each is a few lines around `answer`.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from rote.contract.commands import Command, Watch, Work

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

Tell = Callable[[str, int, int], None]  # (what is being done, how far, of how much)


class Caller(Struct, frozen=True):
    """Who asks. Bound to a port once, not an argument of every call."""

    author: str | None = None  # noted in every commit


class Task(Protocol[R_co]):
    """Long work that was begun. It is done by the thread that asks for its result."""

    def result(self, tell: Tell | None = None) -> R_co:
        """Do the work, telling how far it is, and return its answer. What `tell` raises ends it."""
        ...

    def cancel(self) -> None:
        """End the work at its next step: whoever waits for the result gets Unavailable, `cancelled`."""
        ...


class Watching(Protocol):
    """A watch that was begun."""

    def next(self, timeout: float | None = None) -> dict[str, Any] | None:
        """Wait for the next frame and return it; None when that many seconds brought none."""
        ...

    def close(self) -> None: ...


class Port(Protocol):
    """A store of spaces. A space is named by its did, the store as a whole by the empty text."""

    def answer(self, space: str, command: Command[R], /) -> R: ...

    def begin(self, space: str, command: Work[R], /) -> Task[R]: ...

    def watch(self, space: str, command: Watch, /) -> Watching: ...

    def for_caller(self, caller: Caller, /) -> "Port":
        """The same store, asked by someone else."""
        ...

    def close(self) -> None: ...


class PortLayer:
    """A port around another one; a layer says what it answers otherwise."""

    def __init__(self, port: Port) -> None:
        self._port = port

    def answer(self, space: str, command: Command[R], /) -> R:
        return self._port.answer(space, command)

    def begin(self, space: str, command: Work[R], /) -> Task[R]:
        return self._port.begin(space, command)

    def watch(self, space: str, command: Watch, /) -> Watching:
        return self._port.watch(space, command)

    def for_caller(self, caller: Caller, /) -> Port:
        return self._port.for_caller(caller)

    def close(self) -> None:
        self._port.close()

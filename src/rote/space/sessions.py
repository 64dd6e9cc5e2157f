"""The seam to sessions, which are a layer above: rote.open gives a store the object that begins them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rote.errors import Unavailable

if TYPE_CHECKING:
    from rote.sessions.session import Session
    from rote.space.space import Space

T = TypeVar("T")


class Transacting(ABC):
    """Runs calls on transactions of its own, one for each call: a session, for layers above a space."""

    space: "Space"

    @abstractmethod
    def _transact_each(self, call: "Callable[[Space], T]") -> T:
        """Return the answer of a call that reads and writes a space, which is a transaction; it is
        called again when another thread of the session has overtaken it."""


def transact_each(session: Transacting, call: "Callable[[Space], T]") -> T:
    return session._transact_each(call)


class Sessions(Protocol):
    """The sessions of one store."""

    def begin(
        self,
        space: "Space",
        *,
        watch: Mapping[str, Any] | None,
        journal: str | PathLike[str] | None,
        timeout: float,
    ) -> "Session": ...

    def close(self) -> None:
        """End the sessions that are open; what they have not decided stays undecided."""
        ...


def check_sessions(sessions: Sessions | None) -> Sessions:
    if sessions is None:
        raise Unavailable("this store was wired without sessions; open it with rote.open")
    return sessions

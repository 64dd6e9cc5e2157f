"""The seam to sessions, which are a layer above: rote.open gives a store the object that begins them."""

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol

from rote.errors import Unavailable

if TYPE_CHECKING:
    from rote.sessions.session import Session
    from rote.space.space import Space


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

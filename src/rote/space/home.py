"""The home of a space: what layers above have to know of its store, and no command tells."""

from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from rote.contract import IdSource
from rote.space.sessions import Sessions


class Verbs(Protocol):
    """Answers whole verbs of the layers above, as a server does: in one request."""

    def call(self, space: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a verb; the space is named by its did, the store by the empty text."""
        ...


class Home(Struct, frozen=True):
    """Facts about a store that are known where it was opened."""

    ids: IdSource | None = None  # its randomness; None where it has none that can be asked
    file: Path | None = None  # of a store that is one file
    verbs: Verbs | None = None  # who answers verbs; None: they run here
    sessions: Sessions | None = None  # who begins sessions

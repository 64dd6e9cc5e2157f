"""Answers commands for principals. It knows nothing of HTTP: a session's call is answered by it too."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from rote.access.principals import Principal
from rote.contract import Port, Tell
from rote.contract.commands import GetHead
from rote.contract.wire import Message, decode_command
from rote.errors import InvalidInput, NotFound
from rote.server.admission import Admission
from rote.server.messages import Pieces
from rote.server.rows import Asked, ServerRow
from rote.server.settings import Settings
from rote.server.table import TABLE
from rote.space import Store
from rote.space.sources import port_of_store
from rote.values import canonical


class Answered(Struct, frozen=True):
    """The answer to a command, and what its headers say of the space."""

    body: bytes | Pieces
    version: int | None = None  # the answer was made at this head, or later
    erased: int | None = None  # the version of the newest erasure


class Service:
    """The store as principals see it."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.port: Port = port_of_store(store)
        self.admission = Admission(self.port)

    def answer(
        self,
        principal: Principal,
        space: str,
        name: str,
        arguments: bytes | Mapping[str, Any],
        *,
        tell: Tell | None = None,
    ) -> Answered:
        """Answer a command by its name; runs on a thread of the pool.

        space      a name or a did; empty for a command to the store
        arguments  one JSON object, as it came or decoded
        """
        row = TABLE.get(name)
        if row is None:
            raise NotFound(f"there is no command {name!r:.80}")
        data = arguments if isinstance(arguments, bytes) else canonical(dict(arguments))
        admitted = self.admission.admit(principal, row, space)
        version, erased = self.seen(admitted.port, admitted.space)
        asked = Asked(principal, admitted.port, admitted.space, made(row, data), self, tell)
        return Answered(row.answer(asked), version, erased)

    def seen(self, port: Port, space: str) -> tuple[int | None, int | None]:
        """Return the head and the newest erasure of a space."""
        if not space:
            return None, None
        return port.answer(space, GetHead()).version, 0


def made(row: ServerRow, data: bytes) -> Any:
    """Return the arguments of a command."""
    if row.kernel is None:
        raise InvalidInput("no arguments")
    return decode_command(row.kernel.command, Message(data or b"{}"))

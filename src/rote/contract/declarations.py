"""Declarations: what the layers above have to tell the kernel, once, when a store is wired."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from rote.contract.requests import AnswerRead, SideRow
from rote.errors import Busy
from rote.values import Json

if TYPE_CHECKING:
    from rote.contract.port import Port


class Questions(Protocol):
    """Asks questions again that a commit relies on."""

    def digest(self, port: "Port", space: str, read: AnswerRead, version: int, /) -> str:
        """Return the digest of the answer that a question gets at a version. Errors count as another
        answer, but for Unavailable."""
        ...


class SideRule(Protocol):
    """Says what becomes of side rows of one kind when history goes."""

    kind: str
    travels: bool  # whether rows of this kind are copied with their space

    def erased(
        self, row: SideRow, id: str, *, at: str, has_written: Callable[[int], bool]
    ) -> Json | None:
        """Return the body that a row has after an entity was erased; None when it stays as it is.
        `has_written` tells whether the commit of a version wrote the entity, or may have."""
        ...

    def pinning(
        self,
        row: SideRow,
        *,
        before: int,
        now: int,
        side: Callable[[str, str], SideRow | None],
    ) -> Busy | None:
        """Return why history below a version must not go while the row is as it is, or None."""
        ...

"""Declarations: rules that the layers above give the kernel once, when a store is wired."""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Protocol

from rote.contract.requests import AnswerRead, SideRow
from rote.errors import Busy
from rote.values import Json

if TYPE_CHECKING:
    from rote.contract.port import Port


class Questions(Protocol):
    """Ask the questions again that a commit relies on."""

    def digest(self, port: "Port", space: str, read: AnswerRead, version: int, /) -> str:
        """Return the digest of the answer that a question gets at a version.

        An error counts as a different answer, except Unavailable, which is raised.
        """
        ...


class SideRule(Protocol):
    """Decide what erasures, compactions and copies do about the side rows of one kind."""

    kind: str
    travels: bool  # whether rows of this kind are copied with their space

    def erased(
        self, row: SideRow, ids: Collection[str], *, at: str, has_written: Callable[[int], bool]
    ) -> Json | None:
        """Return the body that a row has after entities were erased; None when it stays as it is.

        `has_written(version)` is true when that commit wrote one of them, or may have written it.
        """
        ...

    def pinning(
        self,
        row: SideRow,
        *,
        before: int,
        now: int,
        side: Callable[[str, str], SideRow | None],
    ) -> Busy | None:
        """Return the error for a row that still needs history below `before`, or None."""
        ...

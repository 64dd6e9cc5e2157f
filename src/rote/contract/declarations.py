"""Declarations: rules that the layers above give the kernel once, when a store is wired."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from rote.contract.requests import AnswerRead, SideRow
from rote.errors import Busy
from rote.values import Encoded, Json

if TYPE_CHECKING:
    from rote.contract.port import Port


class Questions(Protocol):
    """Ask the questions again that a commit relies on."""

    def digest(self, port: "Port", space: str, read: AnswerRead, version: int, /) -> str:
        """Return the digest of the answer that a question gets at a version.

        An error counts as a different answer, except Unavailable, which is raised.
        """
        ...


class ContentRule(Protocol):
    """Decide what entities whose ids have a prefix may hold, and how two of their values merge."""

    prefix: str

    def fault(self, id: str, value: Json | Encoded, /) -> str | None:
        """Return why an entity may not hold a value, or None when it may.

        It is asked at each write, also of a small patch to a large value: it must not walk the value.
        """
        ...

    def reconciled(self, base: Json, ours: Json, theirs: Json, /) -> tuple[Json, Json]:
        """Return both sides of a merge by path, with equal values in members that both may change.

        `base` is None when there was nothing. No argument is changed.
        """
        ...


class SideRule(Protocol):
    """Decide what erasures, compactions and copies do about the side rows of one kind."""

    kind: str
    travels: bool  # whether rows of this kind are copied with their space

    def erased(
        self, row: SideRow, id: str, *, at: str, has_written: Callable[[int], bool]
    ) -> Json | None:
        """Return the body that a row has after an entity was erased; None when it stays as it is.

        `has_written(version)` is true when that commit wrote the entity, or may have written it.
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

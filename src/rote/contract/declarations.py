"""Declarations: rules that the layers above give the kernel once, when a store is wired."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

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


class Conditions(Struct, frozen=True):
    """Conditions on entities that were ever written: an entity meets them by its id and a value."""

    id: Callable[[str], bool]
    value: Callable[[str, Json], bool] | None = None  # of an id and a value; None: any value does


class Matcher(Protocol):
    """Read the conditions by which a layer above selects entities below its prefix."""

    prefix: str  # of the ids that it knows about

    def read(self, where: Json, /) -> Conditions:
        """Return the conditions that a command has sent; InvalidInput when they are malformed."""
        ...


class Erased(Struct, frozen=True):
    """An erasure, as the rules for side rows have to know it."""

    ids: frozenset[str]  # of the entities
    at: str  # the time of its commit
    since: int  # when the first of them was first written, microseconds; MICROS_MIN if unknown
    has_written: Callable[[int], bool]  # whether a commit wrote one of them, or may have


class ContentRule(Protocol):
    """Decide what entities whose ids have a prefix may hold, and how two of their values merge."""

    prefix: str

    def fault(self, id: str, value: Json | Encoded, /) -> str | None:
        """Return why an entity may not hold a value, or None when it may.

        It is asked at each write, also of a small patch to a large value: it must not walk the value.
        """
        ...

    def reconciled(
        self, base: Json, ours: Json, theirs: Json, /, *, has_base: bool
    ) -> tuple[Json, Json]:
        """Return both sides of a merge by path, with equal values in members that both may change.

        `base` is None when there was nothing. Without `has_base` nobody knows what there was: the
        bases of the merge conflict. No argument is changed.
        """
        ...


class TextRule(Protocol):
    """Find the texts in values that an embedder may have made vectors of."""

    prefix: str  # of the ids whose values have such texts

    def texts(self, id: str, value: Json, /) -> Iterable[str]: ...


class SideRule(Protocol):
    """Decide what erasures, compactions and copies do about the side rows of one kind."""

    kind: str
    travels: bool  # whether rows of this kind are copied with their space
    is_final: bool  # whether only an erasure changes them; then it also does in a copy

    def erased(self, row: SideRow, erased: Erased) -> Json | None:
        """Return the body that a row has after entities were erased; None when it stays as it is."""
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

    def is_over(
        self, row: SideRow, *, now: int, side: Callable[[str, str], SideRow | None]
    ) -> bool:
        """Whether the collection of garbage drops a row."""
        ...

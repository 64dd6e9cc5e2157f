"""A derived index: rows that the kernel keeps beside the log, to find entities by term."""

from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from rote.values import Json


class Index(Protocol):
    """Declare an index. `terms` must be pure: the same id and value always give the same terms."""

    name: str  # changes whenever `terms` changes meaning, so old rows are not mistaken for new ones
    prefix: (
        str  # only entities whose ids start with it are looked at; writes of others cost nothing
    )

    def terms(self, id: str, value: Json, /) -> Iterable[str]: ...


class Hit(Struct, frozen=True):
    """One entity that an index lists under a term."""

    term: str
    id: str

"""The seam to searches, which are a layer above: rote.open gives a store the object that answers them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from rote.errors import Unavailable

if TYPE_CHECKING:
    from rote.space.space import Space


class Searching(Protocol):
    """Answers questions to the memory records of a space."""

    def search(
        self, space: "Space", request: Mapping[str, Any], included: Sequence[str]
    ) -> dict[str, Any]:
        """Return the memories that answer a request, each with the included members of its record.

        The request is one of retrieval, without the paths of stores. Nothing is written.
        """
        ...


def check_searching(searching: Searching | None) -> Searching:
    if searching is None:
        raise Unavailable("this store was wired without searches; open it with rote.open")
    return searching

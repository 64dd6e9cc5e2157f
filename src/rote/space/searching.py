"""The seam to searches, which are a layer above: rote.open gives a store the object that answers them."""

from collections.abc import Callable, Mapping, Sequence
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

    def embed(
        self,
        space: "Space",
        embedder: Any,
        namespaces: Sequence[str] | None,
        tell: Callable[[int, int], None],
    ) -> dict[str, int]:
        """Make and store the vectors that the texts of a state do not have yet.

        `namespaces` are those whose texts count, None for all. `tell` gets the number of texts that
        have their vector, and of all.
        """
        ...


def check_searching(searching: Searching | None) -> Searching:
    if searching is None:
        raise Unavailable("this store was wired without searches; open it with rote.open")
    return searching

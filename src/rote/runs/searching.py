"""Searches in a run: each is a retrieval that the trace has, and that is asked again at the commit."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from rote.errors import InvalidInput
from rote.questions import SPACE_SCHEME
from rote.retrieval.retrieving import Examined
from rote.retrieval.searching import items_of
from rote.space import Space

# Asks a request in a run; returns the answer, and the version of the run's state that it was asked at.
Ask = Callable[[Mapping[str, Any], str | None], tuple[Examined, int]]


class RunSearching:
    """Implements space.searching.Searching. A search leaves no receipt, as outside of a run."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def search(
        self, space: Space, request: Mapping[str, Any], included: Sequence[str]
    ) -> dict[str, Any]:
        path = f"{SPACE_SCHEME}{space.did}@{space.branch}"
        if space.is_pinned:
            path += f":{space.version}"
        found, version = self._ask({**request, "store_paths": [path]}, None)
        return items_of(found, space if space.is_pinned else space.at(version), included)

    def embed(self, *_: Any) -> NoReturn:
        raise InvalidInput(
            "a run does not tend its store; call embed() on a memory of the space, outside of it"
        )

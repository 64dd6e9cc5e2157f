"""The memories of one store, as the policies of ranking see them."""

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from rote.questions import Filters, Request
from rote.retrieval.order import Column, Drop
from rote.retrieval.ranking.scores import Scores
from rote.retrieval.ranking.scoring import Frequencies, Telling


class Memories(Protocol):
    """Memories as rows, however they are read."""

    @property
    def invalid(self) -> Sequence[tuple[str, str, str]]:
        """Return path, memory id and hash of each text that is no record."""
        ...

    # The first three are only there for rows that were loaded.
    @property
    def texts(self) -> Column[str]: ...
    @property
    def hashes(self) -> Column[str]: ...
    @property
    def tags(self) -> Column[tuple[str, ...]]: ...
    @property
    def ids(self) -> Column[str]: ...
    @property
    def paths(self) -> Column[str]: ...
    @property
    def instants(self) -> Column[int]: ...

    def __len__(self) -> int: ...

    def rows(self) -> Iterable[int]:
        """Return all rows, in the order of reading."""
        ...

    def load(self, rows: Collection[int], /) -> None:
        """Read the texts of some rows, which are then asked for."""
        ...

    def frequencies(self, language: str, /) -> Frequencies: ...

    def filtered(self, filters: Filters, denied: Collection[int], /) -> list[int]:
        """Return the rows that filters leave out, other than denied ones."""
        ...

    def scores(self, request: Request, telling: Telling, excluded: Collection[int], /) -> Scores:
        """Return the scores of all rows that are not excluded, without recency."""
        ...

    def rank_key(self, row: int, /) -> tuple[int, str, str, str]:
        """Return the key by which rows of equal score rank."""
        ...

    def drops(self, rows: Sequence[int], reason: str, /) -> list[Drop]: ...

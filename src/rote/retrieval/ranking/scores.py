"""Scores of the memories of one store, in millionths; only of those that have one."""

from collections.abc import Callable, Mapping
from typing import Protocol


class Scores(Protocol):
    """The scores of rows."""

    def __len__(self) -> int:
        """Return how many rows have one."""
        ...

    def best(self, count: int, /) -> list[tuple[int, int]]:
        """Return score and row of at least the best so many, in no order.

        A row that scores like one of these is among them, too.
        """
        ...

    def count_from(self, least: int, /) -> int:
        """Return how many are no less than a score."""
        ...

    def raised(self, more: Callable[[int], int], /) -> "Scores":
        """Return the scores of the same rows, each with what `more` says of the row."""
        ...


class RowScores:
    """Implements Scores by a mapping."""

    def __init__(self, by_row: Mapping[int, int]) -> None:
        self.by_row = by_row

    def __len__(self) -> int:
        return len(self.by_row)

    def best(self, _: int) -> list[tuple[int, int]]:
        return [(score, row) for row, score in self.by_row.items()]

    def count_from(self, least: int) -> int:
        return sum(score >= least for score in self.by_row.values())

    def raised(self, more: Callable[[int], int]) -> "RowScores":
        return RowScores({row: score + more(row) for row, score in self.by_row.items()})

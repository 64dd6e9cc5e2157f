"""The room of a page: what does not fit is left out, and counted."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from rote.inspector.html import Html, joined, p

Item = TypeVar("Item")


class Room:
    """The bytes that a page may still take. The last part that is made may go beyond them."""

    def __init__(self, size_bytes: int) -> None:
        self._left = size_bytes

    @property
    def is_full(self) -> bool:
        return self._left <= 0

    def take(self, part: Html) -> Html:
        """Count a part, and return it."""
        self._left -= len(part.markup.encode())
        return part

    def halves(self) -> tuple["Room", "Room"]:
        """Return what is left in two equal parts."""
        return Room(self._left // 2), Room(self._left - self._left // 2)

    def fill(
        self,
        items: Sequence[Item],
        make: Callable[[Item], Html],
        *,
        most: int,
        noun: str,
        more: int = 0,
    ) -> tuple[Html, Html | None]:
        """Return the parts of as many items as there is room for, and a line about the others.

        more  the number of items that are not even listed
        """
        made: list[Html] = []
        for item in items[:most]:
            if self.is_full:
                break
            made.append(self.take(make(item)))
        return joined(made), left_out(len(items) + more - len(made), noun)


def left_out(count: int, noun: str) -> Html | None:
    """Return a line that says how many are not shown; none when all are."""
    if not count:
        return None
    return p(f"{counted(count, f'more {noun}')} not shown", class_="cut")


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"

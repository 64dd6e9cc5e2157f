"""An open store in this process: one object for all ports to it, that tells when content must go."""

from collections import Counter
from collections.abc import Callable

# Called with the store, and the did of a space or None for all of them.
Forget = Callable[["OpenStore", str | None], None]


class OpenStore:
    """Stands for an open store. Layers that keep its content in memory register here.

    Two stores are never the same, even if one is a copy of the other.
    """

    def __init__(self, mark: Callable[[], bytes | None] = lambda: None) -> None:
        """mark  tells the state of the store, as `mark` does"""
        self._mark = mark
        self._forgets: dict[Forget, None] = {}
        self._counts: Counter[str | None] = Counter()

    def mark(self) -> bytes | None:
        """Return a value that changes with every commit of any process, side rows included.

        What was read after it was taken is current as long as it is the same. None where only a look
        at the store can tell.
        """
        return self._mark()

    def register(self, forget: Forget) -> None:
        """Have a function called whenever content must go. It must not ask the store."""
        self._forgets[forget] = None

    def count(self, space: str) -> int:
        """Return a number that grows whenever content of a space must go, before it goes."""
        return self._counts[space] + self._counts[None]

    def forget(self, space: str | None) -> None:
        """Have content of a space forgotten, because some was erased; None when the store closes."""
        self._counts[space] += 1
        for forget in tuple(self._forgets):
            forget(self, space)

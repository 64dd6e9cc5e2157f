"""The home of an open store: one object for all ports to it, that tells when its content must go."""

from collections.abc import Callable

# Called with the home, and the did of a space or None for all of them.
Forget = Callable[["Home", str | None], None]


class Home:
    """Stands for an open store in this process. Layers that keep its content in memory register here.

    Two stores are never the same home, even if one is a copy of the other.
    """

    def __init__(self) -> None:
        self._listeners: dict[Forget, None] = {}

    def register(self, forget: Forget) -> None:
        """Have a function called whenever content must go. It must not ask the store."""
        self._listeners[forget] = None

    def forget(self, space: str | None) -> None:
        """Have content of a space forgotten, because some was erased; None when the store closes."""
        for forget in tuple(self._listeners):
            forget(self, space)

"""A served store for tests of routes: the server, a wire to it, and the same space embedded."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from urllib.parse import urlencode

import rote
from rote.server.serving import Serving
from rote.space import Space, Store
from rote.testing.serving import serving
from tests.wires import Reply, Wire


class Served:
    """A space that is reached both ways."""

    _numbers = count(1)

    def __init__(self, store: Store, server: Serving, wire: Wire) -> None:
        self.store = store
        self.server = server
        self.wire = wire
        self.first = self.new_space()

    def new_space(self) -> Space:
        """Take another, empty space, so that tests share a server and nothing else."""
        self.space = self.store.space(f"s{next(self._numbers)}")
        return self.space

    def ask(
        self, method: str, route: str, body: Any = None, *,
        query: Any = None, **headers: Any,
    ) -> Reply:  # fmt: skip
        """Ask a route of the space."""
        text = "" if not query else "?" + urlencode(query, safe=":")
        target = f"/v1/spaces/{self.space.name}/{route}{text}"
        return self.wire.ask(method, target, body, **headers)

    def command(self, name: str, arguments: Any = None, **headers: Any) -> Reply:
        return self.wire.command(name, arguments, space=self.space.name, **headers)

    def another(self) -> Wire:
        """Open a second connection."""
        return Wire(self.server.url, self.server.token)


@contextmanager
def served(url: str = ":memory:", **options: Any) -> Iterator[Served]:
    with (
        rote.open(url) as store,
        serving(store, **options) as server,
        Wire(server.url, server.token) as wire,
    ):
        yield Served(store, server, wire)

"""Watches on a line that takes no byte: they end when their time is over, or their store is closed."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import rote
from rote.errors import Unavailable
from rote.space import Store
from rote.testing.serving import serving
from tests.unit.sessions.test_stalled_lines import relaying

SECONDS = 30
NOTES: Any = {"select": {"urn:n:*": {}}}
LARGE: Any = {"select": {f"urn:{number}:{'x' * 900}": {} for number in range(13_000)}}


class Stuck:
    """A space whose line takes nothing, and a thread that sends more than fits."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._space = store.space("s")
        self._first = self._space.watch(NOTES)
        next(self._first)
        self._raised: list[Exception] = []
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def begin(self) -> None:
        self._thread.start()
        line = self.line
        while len(line._watches) < 2:
            pass

    @property
    def line(self) -> Any:
        port: Any = self.store._port
        (line,) = port._watches._lines[self._space.did]
        return line

    def _watch(self) -> None:
        try:
            next(self._space.watch(LARGE))
        except Exception as error:
            self._raised.append(error)

    def raised(self) -> Exception | None:
        self._thread.join(SECONDS)
        return self._raised[0] if self._raised else None


@contextmanager
def stuck(timeout: float) -> Iterator[Stuck]:
    with ExitStack() as ending:
        relay = ending.enter_context(relaying())
        here = ending.enter_context(rote.open(":memory:"))
        server = ending.enter_context(serving(here, allow_hosts=(relay.address,)))
        host, port = server.url.removeprefix("http://").rsplit(":", 1)
        relay.upstream = (host, int(port))
        store = rote.open(f"http://{relay.address}", token=server.token, timeout=timeout)
        ending.callback(store.close)
        ending.callback(relay.flows.set)
        found = Stuck(store)
        relay.flows.clear()
        found.begin()
        yield found


def test_a_send_that_stalls_fails_in_time() -> None:
    with stuck(1) as found:
        assert isinstance(found.raised(), Unavailable)


def test_closing_a_store_ends_a_send_that_stalls() -> None:
    with stuck(10 * SECONDS) as found:
        ender = threading.Thread(target=found.store.close, daemon=True)
        ender.start()
        ender.join(10)
        assert not ender.is_alive()
        assert isinstance(found.raised(), Unavailable)

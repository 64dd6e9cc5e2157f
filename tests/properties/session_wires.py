"""The schedules of session_lines over real lines: two servers on one store, and sockets that break.

    client ── WireLink ── BreakingSocket ── TCP ──> one of two servers ──> one store

A socket breaks after so many bytes, in the middle of a frame as a rule, in either direction; or it holds
back what is sent, which arrives when the client has long gone on elsewhere.
"""

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from itertools import count
from random import Random

from rote.client.address import address_of
from rote.client.calls import Calls
from rote.client.credentials import Token
from rote.client.links import WireLink, WireLinker
from rote.client.pool import Pool
from rote.contract.links import Link, Linker
from rote.contract.sync import OpenSession, Transact
from rote.errors import Busy, Unavailable
from rote.opening import open as open_store
from rote.opening.sources import SystemIds
from rote.space import Space, Store
from rote.testing.serving import serving
from rote.values.sync_limits import SYNC_WINDOW
from tests.properties.session_histories import IDS, CrashingPort
from tests.properties.session_lines import FORMER, LineClient, LineSchedule

CALL_SECONDS = 20.0
ANSWER_SECONDS = 2.0  # until an answer must have come, or the line has ended
THREADS = 4
# A frame of a schedule has 60 to 600 bytes: so a line is cut within the next few.
CUT_BYTES_MAX = 800
OPENING_BYTES_MAX = 900
SOON_BYTES_MAX = 6_000


class BreakingSocket(socket.socket):
    """A connection that can be told to break after so many bytes, or to hold back what is sent."""

    def __init__(self, made: socket.socket) -> None:
        super().__init__(fileno=made.detach())
        self._mutex = threading.Lock()
        self._left_up: int | None = None  # bytes that it still sends; None: all
        self._left_down: int | None = None
        self._held: list[bytes] | None = None

    def break_after(self, *, up: int | None = None, down: int | None = None) -> None:
        with self._mutex:
            self._left_up, self._left_down = up, down

    def hold(self) -> None:
        """Let what is sent from now on wait."""
        with self._mutex:
            self._held = []

    def let_go(self) -> None:
        """Send what has waited."""
        with self._mutex:
            held, self._held = self._held or [], None
        with suppress(OSError):
            super().sendall(b"".join(held))

    def cut(self) -> None:
        with suppress(OSError):
            super().shutdown(socket.SHUT_RDWR)

    def sendall(self, data, flags: int = 0, /) -> None:  # type: ignore[no-untyped-def]
        with self._mutex:
            if self._held is not None:
                self._held.append(bytes(data))
                return
            passed, self._left_up = _passed(self._left_up, bytes(data))
        super().sendall(passed, flags)
        if self._left_up == 0:
            self.cut()

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        data = super().recv(size, flags)
        with self._mutex:
            passed, self._left_down = _passed(self._left_down, data)
        if self._left_down == 0:
            self.cut()
        return passed


def _passed(left: int | None, data: bytes) -> tuple[bytes, int | None]:
    """Return what of some bytes passes, and how many more may."""
    if left is None:
        return data, None
    return data[:left], max(left - len(data), 0)


class BreakingPool(Pool):
    """Makes connections that can break."""

    next_bytes: int | None = None  # the next one breaks when so many bytes have come
    _random: Random | None = None

    def break_some(self, random: Random) -> None:
        """Let one in three break, somewhere."""
        self._random = random

    def connect(self, deadline: float) -> socket.socket:
        made = BreakingSocket(super().connect(deadline))
        made.break_after(down=self.next_bytes)
        self.next_bytes = None
        if self._random is not None and self._random.random() < 0.3:
            up, down = (self._random.randrange(SOON_BYTES_MAX) for _ in range(2))
            made.break_after(up=up, down=down)
        return made


class BreakingLinker(WireLinker):
    """A linker whose lines can break."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url, self.token = url, token
        self.pool = BreakingPool(address_of(url), now=time.monotonic)
        super().__init__(
            Calls(
                self.pool,
                credentials=Token(token),
                ids=SystemIds(),
                seconds=CALL_SECONDS,
                now=time.monotonic,
            )
        )


class Ground:
    """Two servers on one store, for many schedules: each has a space of its own."""

    def __init__(self, store: Store, port: CrashingPort, linkers: list[BreakingLinker]) -> None:
        self.store = store
        self.port = port
        self.linkers = linkers
        self._seeds = count()

    def begin_with(self, seed: int) -> None:
        """Let seeds begin with another one."""
        self._seeds = count(seed)

    def next_seed(self) -> int:
        return next(self._seeds)


@contextmanager
def ground() -> Iterator[Ground]:
    with open_store(":memory:", durability="os") as store, ExitStack() as ending:
        served = copy(store)
        served._port = port = CrashingPort(store._port)
        servers = [
            ending.enter_context(serving(served, threads=THREADS, principal_rate=1_000_000))
            for _ in range(2)
        ]
        linkers = [BreakingLinker(server.url, server.token) for server in servers]
        yield Ground(store, port, linkers)
        for linker in linkers:
            linker.pool.close()


class WireSchedule(LineSchedule):
    """One random history of several sessions on breaking lines."""

    def __init__(self, seed: int, counts: Counter[str], on: Ground) -> None:
        self._ground = on
        self._openings: dict[Link, int] = {}  # in their order
        self._is_resting = False
        super().__init__(seed, counts)
        self.port = on.port

    def _open(self) -> tuple[Store, Space]:
        store = self._ground.store
        return store, store.space(f"s{self.seed}")

    def _linkers(self) -> list[Linker]:
        return [*self._ground.linkers]

    def _end(self) -> None:
        self._stop_crashing()
        for link in self._openings:
            _socket_of(link).cut()
            link.close()

    # -- lines -------------------------------------------------------------------------------------

    def _connect(self, opening: OpenSession) -> Link:
        linker = self.random.choice(self._ground.linkers)
        if self.random.random() < 0.1:
            self.counts["cuts in openings"] += 1
            linker.pool.next_bytes = self.random.randrange(OPENING_BYTES_MAX)
        link = linker.connect(opening)
        _socket_of(link).break_after()
        self._openings[link] = len(self._openings)
        return link

    def _patience(self, client: LineClient) -> float:
        """Wait for an answer when there is one to come; at rest, for a step as well."""
        if self._is_resting:
            is_told = len(client.verdicts) == len(client.sent)
            is_shown = self._is_shown(client, self.space.version)
            is_behind = not is_shown and len(client.unacked) < SYNC_WINDOW
            is_due = bool(client.flying) or (is_told and is_behind)
        else:
            is_due = bool(client.flying) and self.random.random() < 0.7
        return ANSWER_SECONDS if is_due else 0.0

    def _cut(self, client: LineClient) -> None:
        """Let the line of a client break soon, or be so slow that the client goes on elsewhere."""
        if client.link is None:
            return
        self.counts["cuts"] += 1
        line = _socket_of(client.link)
        how = self.random.random()
        if how < 0.3:
            line.break_after(up=self.random.randrange(CUT_BYTES_MAX))
        elif how < 0.6:
            line.break_after(down=self.random.randrange(CUT_BYTES_MAX))
        else:
            line.hold()
            self._send_some(client)
            if client.link is not None:
                self.counts["delays"] += 1
                self._lose(client)

    def _leave(self, client: LineClient, link: Link) -> None:
        client.former_links.append(link)
        if len(client.former_links) > FORMER:
            former = client.former_links.pop(0)
            _socket_of(former).cut()
            former.close()

    def _late(self, client: LineClient) -> None:
        """Let what lines from before have held back arrive, and let their holders go on: it decides
        nothing any more."""
        if client.link is None:
            return
        for link in client.former_links:
            _socket_of(link).let_go()
            if self._openings[link] > self._openings[client.link]:
                continue  # an opening that came late: it has the session now
            self.counts["takeovers"] += 1
            stale = Transact(
                len(client.verdicts) + 1, 0, [{"op": "delete", "id": IDS[0]}], meta="stale"
            )
            with suppress(Busy, Unavailable):
                link.send(stale)

    def _judge_hashes(self) -> None:
        """Nothing: the ids of the store are those of other schedules, too."""

    def _come_to_rest(self, client: LineClient) -> None:
        self._is_resting = True
        super()._come_to_rest(client)


def _socket_of(link: Link) -> BreakingSocket:
    assert isinstance(link, WireLink)
    made = link._socket.socket
    assert isinstance(made, BreakingSocket)
    return made

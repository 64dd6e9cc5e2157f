"""Servers that are killed while sessions write through them: nothing that was answered is lost, and
nothing is made twice.

Two servers serve one store. Sessions send more than one commit at a time, a server is killed in the
middle, and they go on with either. What was decided is judged by the log, as in tests/properties.
"""

import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import rote
from tests.lanes import examples, until_enough
from tests.properties.session_histories import CrashingPort
from tests.properties.session_wires import BreakingLinker, Ground, WireSchedule
from tests.server_processes import ServerProcess

KILLS = examples(5, 300)
KILLS_OF_SCHEDULE = 15  # a log that is too long takes long to judge
ACTS_BETWEEN = 12
# What happens in a server between two kills.
BURST_SECONDS_MAX = 0.006
# What ten kills have at least.
LEAST = {"verdicts": 20, "told in openings": 4, "resumes": 10, "unanswered": 50, "rejections": 4}


class Servers:
    """Two servers of one store, on ports that stay."""

    def __init__(self, path: Path, ending: ExitStack) -> None:
        self._path, self._ending = path, ending
        self._token_file = path.with_name("token")
        self._running = [self._start(0) for _ in range(2)]
        self._ports = [int(each.url.rpartition(":")[2]) for each in self._running]
        self._starting = ending.enter_context(ThreadPoolExecutor(1))
        self._next: tuple[int, Future[ServerProcess]] | None = None
        self.token = self._token_file.read_text().strip()

    @property
    def urls(self) -> list[str]:
        return [each.url for each in self._running]

    def _start(self, port: int) -> ServerProcess:
        options = ("--token-file", str(self._token_file), "--durability", "os")
        server = ServerProcess(self._path, *options, "--limit", "principal_rate=1000000", port=port)
        return self._ending.enter_context(server)

    def kill(self, place: int) -> None:
        """Kill a server, and start it again while the other one goes on alone."""
        self.await_both()
        self._running[place].kill()
        self._next = place, self._starting.submit(self._start, self._ports[place])

    def await_both(self) -> None:
        if self._next is not None:
            place, starting = self._next
            self._running[place], self._next = starting.result(), None


class KillSchedule(WireSchedule):
    """One random history of several sessions on servers that are killed."""

    def __init__(self, seed: int, counts: Counter[str], on: Ground, servers: Servers) -> None:
        super().__init__(seed, counts, on)
        self._servers = servers

    def _maybe_crash(self) -> None:
        """The servers are other processes: they crash by themselves."""

    def kill_some(self, kills: int) -> None:
        acts = (
            [self._queue] * 5 + [self._send_some] * 6 + [self._take_some] * 8
            + [self._acknowledge_some] * 2 + [self._foreign, self._abandon_last, self._erase, self._cut]
        )  # fmt: skip
        try:
            for _ in range(kills):
                for _ in range(ACTS_BETWEEN):
                    self.random.choice(acts)(self.random.choice(self.clients))
                self._servers.await_both()
                self._burst()
                self._servers.kill(self.random.randrange(2))
            for client in self.clients:
                self._come_to_rest(client)
            self._judge()
            for client in self.clients:
                self._judge_steps(client)
        finally:
            self._end()

    def _burst(self) -> None:
        """Send what all clients have, and do not wait for it."""
        for client in self.clients:
            self._queue(client)
            self._queue(client)
            self._send_some(client)
            self.counts["unanswered"] += len(client.flying)
        until = time.monotonic() + self.random.uniform(0, BURST_SECONDS_MAX)
        while time.monotonic() < until:
            pass


def test_a_killed_server_loses_nothing_of_a_session_and_makes_nothing_twice(
    store_path: Path,
) -> None:
    with ExitStack() as ending:
        store = ending.enter_context(rote.open(store_path, durability="os"))
        servers = Servers(store_path, ending)
        linkers = [BreakingLinker(url, servers.token) for url in servers.urls]
        on = Ground(store, CrashingPort(store._port), linkers)

        def kill_all(counts: Counter[str]) -> None:
            left = KILLS
            while left > 0:
                kills = min(left, KILLS_OF_SCHEDULE)
                schedule = KillSchedule(on.next_seed(), counts, on, servers)
                schedule.kill_some(kills)
                assert schedule.space.verify().ok
                left -= kills

        until_enough(kill_all, {name: least * KILLS // 10 for name, least in LEAST.items()})

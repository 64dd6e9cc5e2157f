"""Servers that are killed or stopped under clients that write.

Each client writes under a key or an attempt of its own, and sends a write again until it is answered,
to whoever serves the store then. In the end every answered write is there once, and nothing twice.
"""

import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

import rote
from rote.testing.postgres import database_url
from tests.lanes import examples
from tests.server_processes import ServerProcess
from tests.wires import Closed, Reply, Wire

CLIENTS = 16
KILLS = examples(3, 200)
POSTGRES_KILLS = examples(1, 50)
# Commits that are answered between two kills.
ANSWERED_BETWEEN = 40


class Crowd:
    """Clients that write until they are told to stop. `servers` are those that they may ask."""

    def __init__(self, servers: list[ServerProcess]) -> None:
        self.servers = servers
        self.answered: dict[str, int] = {}  # version by the id that was written
        self.statuses: Counter[int] = Counter()
        self.cut = 0  # requests on a connection that had been answered before, and were not
        self._changed = threading.Condition()
        self._is_over = False
        self._faults: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._write, args=[number]) for number in range(CLIENTS)
        ]
        for thread in self._threads:
            thread.start()

    def await_answers(self, count: int) -> None:
        """Return when so many writes more were answered."""
        with self._changed:
            until = len(self.answered) + count
            done = self._changed.wait_for(
                lambda: len(self.answered) >= until or bool(self._faults), timeout=120
            )
        assert done and not self._faults, (len(self.answered), self._faults, self.statuses)

    def end(self) -> None:
        """Let the clients stop: each after its answer, or when nobody serves."""
        self._is_over = True
        for thread in self._threads:
            thread.join(120)
        assert not self._faults, self._faults

    def _write(self, number: int) -> None:
        try:
            with ExitStack() as stack:
                wires: dict[str, Wire] = {}
                for count in self._numbers():
                    self._write_once(f"urn:client:{number}:{count}", wires, stack)
        except BaseException as error:
            with self._changed:
                self._faults.append(error)
                self._changed.notify_all()

    def _numbers(self) -> Iterator[int]:
        count = 0
        while not self._is_over:
            yield count
            count += 1

    def _write_once(self, id: str, wires: dict[str, Wire], stack: ExitStack) -> None:
        """Send one write until it is answered, with the same key or attempt each time."""
        commit = {"operations": [{"op": "set", "id": id, "value": {"id": id}}]}
        draw = Random(id)
        once = {"key": id} if draw.random() < 0.5 else {"attempt": draw.randbytes(16).hex()}
        while True:
            server = draw.choice(self.servers)
            is_known = server.url in wires
            try:
                if not is_known:
                    wires[server.url] = stack.enter_context(Wire(server.url, server.token))
                reply = wires[server.url].command("commit", {**commit, **once})
            except (Closed, OSError):
                wires.pop(server.url, None)
                if self._was_cut(is_known):
                    return
                continue
            if reply.headers.get("connection") == "close":
                wires.pop(server.url)
            if self._took(id, reply):
                return

    def _was_cut(self, is_known: bool) -> bool:
        """Count a request without an answer; return whether the client gives up."""
        with self._changed:
            self.cut += is_known
        return self._is_over

    def _took(self, id: str, reply: Reply) -> bool:
        with self._changed:
            self.statuses[reply.status] += 1
            if reply.status == 200:
                self.answered[id] = reply.json["version"]
                self._changed.notify_all()
        assert reply.status in (200, 503), reply
        return reply.status == 200


def check_written(url: str, answered: dict[str, int]) -> None:
    """Assert that every answered write is there, in the version that was answered, and all once."""
    with rote.open(url) as store:
        space = store.space("notes")
        written = [(fact.id, commit.version) for commit in space.log() for fact in commit.facts]
        assert len(written) == len(dict(written)), "a write was made twice"
        assert answered.items() <= dict(written).items()
        assert space.verify().ok


@pytest.fixture
def path(store_path: Path) -> Path:
    with rote.open(store_path) as store:
        store.space("notes")
    return store_path


def test_a_killed_server_loses_no_answered_commit_and_makes_none_twice(path: Path) -> None:
    token_file = path.with_name("token")
    options = ("--token-file", str(token_file), "--durability", "os")
    draw = Random(23)
    with ExitStack() as stack:
        server = stack.enter_context(ServerProcess(path, *options))
        port = int(server.url.rpartition(":")[2])
        server.token = token_file.read_text().strip()
        crowd = Crowd([server])
        for _ in range(KILLS):
            crowd.await_answers(draw.randrange(1, ANSWERED_BETWEEN))
            server.kill()
            server = stack.enter_context(ServerProcess(path, *options, port=port))
        crowd.await_answers(ANSWERED_BETWEEN)
        crowd.end()
    check_written(str(path), crowd.answered)


def test_a_stopped_server_answers_every_request_that_has_begun(path: Path) -> None:
    with ServerProcess(path, "--durability", "os") as server:
        crowd = Crowd([server])
        crowd.await_answers(ANSWERED_BETWEEN)
        server.send(signal.SIGTERM)
        assert server.end() == (0, "")
        crowd.end()
        assert crowd.cut == 0
    check_written(str(path), crowd.answered)


@pytest.mark.usefixtures("_home")
def test_one_of_two_servers_on_postgres_is_killed(tmp_path: Path) -> None:
    url = database_url(tmp_path)
    token_file = tmp_path / "token"
    with rote.open(url) as store:
        store.space("notes")
    options = ("--token-file", str(token_file), "--durability", "os")
    draw = Random(23)
    with ExitStack() as stack:
        servers = [stack.enter_context(ServerProcess(url, *options)) for _ in range(2)]
        for server in servers:
            server.token = token_file.read_text().strip()
        crowd = Crowd(servers)
        for count in range(POSTGRES_KILLS):
            crowd.await_answers(draw.randrange(1, ANSWERED_BETWEEN))
            killed = servers[count % 2]
            killed.kill()
            port = int(killed.url.rpartition(":")[2])
            crowd.await_answers(1)  # by the other
            fresh = stack.enter_context(ServerProcess(url, *options, port=port))
            fresh.token = killed.token
            servers[count % 2] = fresh
        crowd.await_answers(ANSWERED_BETWEEN)
        crowd.end()
    check_written(url, crowd.answered)

"""Connections that are cut and servers that die: nothing answered is lost, nothing happens twice."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import rote
from rote.errors import Unavailable
from rote.testing.faults.wire import Wire
from rote.testing.postgres import DURABLE, PostgresServer, free_port
from tests.lanes import examples

COUNTER = "urn:entity:counter"
# More than any call here sends and gets.
MESSAGES_MAX = 100


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """With everything on that makes commits durable."""
    server = PostgresServer(DURABLE, port=free_port())
    yield server
    server.stop()


@pytest.fixture
def wire(server: PostgresServer) -> Iterator[Wire]:
    wire = Wire(server.port)
    yield wire
    wire.close()


def url_through(wire: Wire) -> str:
    options = "sslmode=disable&gssencmode=disable"
    return f"postgresql://postgres@127.0.0.1:{wire.port}/postgres?{options}"


@pytest.mark.parametrize("swallow", [True, False])
@pytest.mark.parametrize("facts", [1, 3])
def test_a_commit_that_is_cut_at_any_message_is_there_once_or_not_at_all(
    wire: Wire, tmp_path: Path, facts: int, swallow: bool
) -> None:
    ids = [f"urn:entity:{number}" for number in range(facts)]
    answers = set()
    with rote.open(url_through(wire), schema=f"cut_{facts}_{swallow:d}", keys=tmp_path) as store:
        space = store.space("notes")
        for id in ids:
            space.set(id, 0)
        for message in range(1, MESSAGES_MAX):
            before, cuts = space.version, wire.cuts
            operations = [{"op": "set", "id": id, "value": message} for id in ids]
            wire.cut_at(message, swallow=swallow)
            try:
                made = space.transact(operations, key=f"cut {message}").version
                assert made == before + 1
                answers.add("made")
            except Unavailable as error:
                answers.add(error.details.get("outcome", "refused"))
                # After an answer that leaves it open, or says no, the same call is still right.
                again = space.transact(operations, key=f"cut {message}")
                assert again.version == before + 1
            wire.mend()
            assert space.version == before + 1
            assert [space.get(id) for id in ids] == [message] * facts
            if wire.cuts == cuts:
                break  # it was over before that message
        assert wire.cuts > 20
        assert "unknown" not in answers, "the wire was whole again: it could have been found out"
        assert {"made", "not_written"} <= answers
        assert space.verify().ok


@pytest.mark.parametrize("swallow", [True, False])
def test_a_side_row_whose_transaction_is_cut_is_written_whole_or_not_at_all(
    wire: Wire, tmp_path: Path, swallow: bool
) -> None:
    with rote.open(url_through(wire), schema=f"side_{swallow:d}", keys=tmp_path) as store:
        space = store.space("notes")
        port, did, fence = store._port, space.did, 0
        for message in range(1, MESSAGES_MAX):
            cuts = wire.cuts
            wire.cut_at(message, swallow=swallow)
            try:
                port.put_side(did, "run", "r", {"n": message}, fence=fence)
                written = True
            except Unavailable:
                written = False
            wire.mend()
            # What was cut off may still be under way at the server; this waits for its end.
            port.put_side(did, "run", f"turn {message}", 0, fence=0)
            row = port.side(did, "run", "r")
            after = 0 if row is None else row.fence
            assert after == fence + 1 if written else after in (fence, fence + 1)
            fence = after
            if wire.cuts == cuts:
                break
        assert wire.cuts > 20


class Load:
    """A writer that counts up and remembers what it was answered."""

    def __init__(self, url: str, schema: str, keys: Path) -> None:
        self._store = rote.open(url, schema=schema, keys=keys)
        self.space = self._store.space("notes")
        self.answered: list[int] = []
        self.failures = 0
        self._stopped = threading.Event()
        self._answered_one = threading.Condition()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopped.is_set():
            try:
                self.space.set(COUNTER, number, key=f"number {number}")
            except Unavailable:
                self.failures += 1
                self._stopped.wait(0.01)
                continue
            self.answered.append(number)
            number += 1
            with self._answered_one:
                self._answered_one.notify_all()

    def wait_for_more(self, count: int) -> None:
        wanted = len(self.answered) + count
        with self._answered_one:
            assert self._answered_one.wait_for(lambda: len(self.answered) >= wanted, timeout=60)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def check(self) -> None:
        """Every answered number is in the log, once and in order, and at most one more."""
        numbers = [commit.facts[0].body for commit in self.space.log()]
        assert numbers[: len(self.answered)] == self.answered
        assert len(numbers) <= len(self.answered) + 1
        assert self.space.verify().ok
        self._store.close()


def test_a_killed_server_process_of_a_connection_loses_nothing(
    server: PostgresServer, tmp_path: Path
) -> None:
    """The kill makes the whole server start over; the client goes on by itself."""
    load = Load(server.url, "backend", tmp_path)
    for _ in range(examples(2, 20)):
        load.wait_for_more(5)
        for process in _backends(server):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue  # the first kill has ended the others
    load.wait_for_more(5)
    load.stop()
    load.check()


def test_a_killed_server_that_is_started_again_has_everything_that_was_answered(
    tmp_path: Path,
) -> None:
    server = PostgresServer(DURABLE)
    try:
        load = Load(server.url, "postmaster", tmp_path)
        for _ in range(examples(2, 10)):
            load.wait_for_more(5)
            server.kill()
            server.start()
        load.wait_for_more(5)
        load.stop()
        load.check()
    finally:
        server.stop()


def _backends(server: PostgresServer) -> list[int]:
    with psycopg.connect(server.url, autocommit=True) as connection:
        rows = connection.execute(
            "select pid from pg_stat_activity where application_name = 'rote'"
        ).fetchall()
    return [process for (process,) in rows]

"""kill -9 of server processes while several processes write.

The server syncs as it does for users. After each kill every writer goes on by itself. In the end
every acknowledged commit is there, once and whole, and no refused one is.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import psycopg
import pytest

from rote.errors import NotFound
from rote.testing.postgres import DURABLE, PostgresServer
from tests.faults.persistence import Writers, check_answers, place_of
from tests.lanes import examples

WRITERS = 3
# Commits of every writer between two faults.
COMMITS = examples(3, 10)

Fault = Callable[[PostgresServer, Random], None]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    running = PostgresServer(DURABLE)
    yield running
    running.stop()


def client_backends(connection: psycopg.Connection[tuple[int]]) -> list[int]:
    """Return the server's processes that work for the writers."""
    rows = connection.execute(
        "select pid from pg_stat_activity where application_name = 'rote' order by pid"
    )
    return [pid for (pid,) in rows]


def kill_backend(server: PostgresServer, random: Random) -> None:
    """Kill a process; the server notices, ends all its other processes and recovers."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        victim = random.choice(client_backends(connection))
    server.kill_backend(victim)


def end_backends(server: PostgresServer, random: Random) -> None:
    """End all connections at once, as an administrator does."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        for pid in client_backends(connection):
            connection.execute("select pg_terminate_backend(%s)", (pid,))


def cancel_statements(server: PostgresServer, random: Random) -> None:
    """Cancel all statements; the connections stay."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        for pid in client_backends(connection):
            connection.execute("select pg_cancel_backend(%s)", (pid,))


def kill_postmaster(server: PostgresServer, random: Random) -> None:
    server.kill()
    server.start()


def run(server: PostgresServer, place: str, fault: Fault, *, times: int) -> None:
    random = Random(times)
    with contextlib.ExitStack() as children:
        writers = Writers(place, WRITERS, children)
        for _ in range(times):
            writers.go_on(COMMITS)
            writers.read_for(random.uniform(0, 0.02))
            fault(server, random)
        writers.go_on(COMMITS)
        answers = writers.end()
    check_answers(place, answers)
    # Otherwise the faults came when nobody was at work, and nothing was shown.
    assert answers["refused"], "no commit was hit"


def test_a_killed_backend_loses_nothing_and_its_clients_go_on(
    server: PostgresServer, tmp_path: Path
) -> None:
    place = place_of(server.url, tmp_path, schema="killed_backends")
    run(server, place, kill_backend, times=examples(2, 15))


def test_a_killed_server_loses_nothing_and_its_clients_go_on_when_it_is_back(
    server: PostgresServer, tmp_path: Path
) -> None:
    place = place_of(server.url, tmp_path, schema="killed_server")
    run(server, place, kill_postmaster, times=examples(1, 15))


def test_ended_connections_lose_nothing_and_their_clients_go_on(
    server: PostgresServer, tmp_path: Path
) -> None:
    place = place_of(server.url, tmp_path, schema="ended_connections")
    run(server, place, end_backends, times=examples(5, 100))


def test_cancelled_statements_lose_nothing_and_their_clients_go_on(
    server: PostgresServer, tmp_path: Path
) -> None:
    place = place_of(server.url, tmp_path, schema="cancelled_statements")
    run(server, place, cancel_statements, times=examples(5, 100))


@pytest.mark.slow
def test_the_kill_finds_commits_that_were_acknowledged_before_they_were_written(
    tmp_path: Path,
) -> None:
    """The control: a server that writes its log seconds later loses acknowledged commits."""
    late = {"wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"}
    server = PostgresServer({**DURABLE, **late})
    try:
        place = place_of(server.url, tmp_path, durability="os")
        with contextlib.ExitStack() as children:
            writers = Writers(place, WRITERS, children)
            writers.go_on(COMMITS)
            server.kill()
            answers = writers.end()
        server.start()
        with pytest.raises((AssertionError, NotFound), match=r"lost|there is no"):
            check_answers(place, answers)
    finally:
        server.stop()

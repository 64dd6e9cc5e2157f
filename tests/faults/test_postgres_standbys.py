"""A synchronous standby: every acknowledged commit is on it when it takes over, and none before."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path

import psycopg
import pytest

import rote
from rote.engines.postgres import engine
from rote.errors import Unavailable
from rote.testing.postgres import DURABLE, PostgresServer
from tests.faults.persistence import Writers, check_answers, place_of
from tests.faults.postgres_rig import LEFT, check_chain, check_line, pair
from tests.lanes import SLOW

WRITERS = 3
NAME = "agent"
LIMIT_SECONDS = 120  # only a hang reaches it


@contextlib.contextmanager
def running(primary: PostgresServer | None = None, **settings: str) -> Iterator[PostgresServer]:
    server = PostgresServer({**DURABLE, **settings}, primary=primary)
    try:
        yield server
    finally:
        server.stop()


def configure(server: PostgresServer, setting: str, value: str) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"alter system set {setting} = '{value}'")
        connection.execute("select pg_reload_conf()")


def wait_until(server: PostgresServer, condition: str) -> None:
    """Wait until a query has rows."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        pause = threading.Event()
        for _ in range(LIMIT_SECONDS * 100):
            if connection.execute(condition).fetchall():
                return
            pause.wait(0.01)
    raise AssertionError(f"never happened: {condition}")


def url_of_both(primary: PostgresServer, standby: PostgresServer) -> str:
    """Return a URL of both servers, which reaches the one that writes."""
    return (
        f"postgresql://postgres@/postgres?host={primary.folder},{standby.folder}"
        f"&port={primary.port},{standby.port}"
    )


# -- failover --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_acknowledged_commit_is_on_the_synchronous_standby_that_takes_over(
    tmp_path: Path,
) -> None:
    for round_number in range(3):
        with running() as primary, running(primary) as standby:
            configure(primary, "synchronous_standby_names", "*")
            wait_until(primary, "select 1 from pg_stat_replication where sync_state = 'sync'")
            place = place_of(url_of_both(primary, standby), tmp_path / f"{round_number}")
            with contextlib.ExitStack() as children:
                writers = Writers(place, WRITERS, children)
                writers.go_on(30)
                primary.kill()
                standby.promote()
                writers.go_on(30)
                answers = writers.end()
            check_answers(place, answers)
            assert answers["refused"] or answers["unknown"], "nobody noticed"


@pytest.mark.slow
def test_the_failover_finds_commits_that_no_standby_had_confirmed(tmp_path: Path) -> None:
    """The control: nobody waits for the standby, and it has stopped following."""
    with running() as primary, running(primary) as standby:
        place = place_of(url_of_both(primary, standby), tmp_path)
        with contextlib.ExitStack() as children:
            writers = Writers(place, WRITERS, children)
            writers.go_on(5)
            wait_until(standby, "select 1 from pg_tables where tablename = 'commits'")
            configure(standby, "primary_conninfo", "")
            wait_until(primary, "select 1 where not exists (select from pg_stat_replication)")
            writers.go_on(5)
            primary.kill()
            answers = writers.end()
        standby.promote()
        with pytest.raises(AssertionError, match="lost"):
            check_answers(place, answers)


# -- a standby that is there and does not take over ------------------------------------------------


def test_a_standby_is_not_read_from_while_the_primary_is_away(tmp_path: Path) -> None:
    """The session stayed with the standby afterwards: writes of others were not seen, and nothing
    could be written any more."""
    with running() as primary, running(primary) as standby:
        url = url_of_both(primary, standby)
        with rote.open(url, keys=tmp_path) as store:
            space = store.space(NAME)
            space.transact(pair(0))
            wait_until(standby, "select 1 from pg_tables where tablename = 'commits'")
            primary.kill()
            with pytest.raises(Unavailable, match="only reads") as caught:
                space.get(LEFT)
            check_line(caught.value)
            primary.start()
            with psycopg.connect(standby.url, autocommit=True) as connection:
                connection.execute("select pg_wal_replay_pause()")
            with rote.open(primary.url, keys=tmp_path) as other:
                other.space(NAME).transact(pair(1))
            assert space.get(LEFT) == {"number": 1}
            assert space.transact(pair(2)).version == 3


# -- a standby that does not confirm ---------------------------------------------------------------


@pytest.fixture(scope="module")
def lonely() -> Iterator[PostgresServer]:
    """Yield a primary whose only standby is never there."""
    with running(synchronous_standby_names="absent") as server:
        yield server


def impatiently(server: PostgresServer, call: Callable[[], rote.Commit]) -> Future[rote.Commit]:
    """Make a call while an administrator cancels every wait for the standby."""
    with ThreadPoolExecutor(1) as pool, psycopg.connect(server.url, autocommit=True) as connection:
        future = pool.submit(call)
        while not wait([future], timeout=0.01).done:
            connection.execute(
                "select pg_cancel_backend(pid) from pg_stat_activity"
                " where application_name = 'rote' and wait_event = 'SyncRep'"
            )
        return future


def test_a_commit_that_the_standby_has_not_confirmed_is_never_acknowledged(
    lonely: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server completes a commit whose wait for the standby is cancelled, with only a warning.
    The statement that settles the outcome waits for the standby too. It was cancelled in the same
    way, and its answer was taken for durable."""
    if not SLOW:
        monkeypatch.setattr(engine, "POSTGRES_SETTLE_SECONDS_MAX", 1)
    # Clients of this URL do not wait for standbys.
    local = f"{lonely.url}&options=-csynchronous_commit%3Dlocal"
    with rote.open(local, keys=tmp_path) as setting_up:
        setting_up.space(NAME).transact(pair(0))
    with rote.open(lonely.url, keys=tmp_path) as store, rote.open(local, keys=tmp_path) as other:
        space = store.space(NAME)
        for key in (None, "key"):
            answer = impatiently(lonely, partial(space.transact, pair(1), key=key))
            error = answer.exception()
            assert isinstance(error, Unavailable), error
            assert error.details["outcome"] == "unknown"
        # The key finds the commit in the log, which is not yet an answer.
        repeated = impatiently(lonely, lambda: space.transact(pair(1), key="key"))
        assert isinstance(repeated.exception(), Unavailable)
        settled = other.space(NAME).transact(pair(1), key="key")
        assert [commit.hash for commit in space.log() if commit.key == "key"] == [settled.hash]
        check_chain(space)

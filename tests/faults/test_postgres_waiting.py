"""Waits for a PostgreSQL server are bounded and end as Busy; a store can be closed while threads use it."""

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

import rote
from rote.engines.postgres import PostgresEngine, pool, writes
from rote.engines.postgres.engine import _Block
from rote.errors import Busy, Unavailable
from rote.kernel.committing import committer
from rote.testing.postgres import schema_of, server_url, with_options
from rote.values.limits import BUSY_SECONDS_MAX, POSTGRES_CONNECTIONS_MAX
from tests.faults.interruptions import interrupt_before
from tests.faults.postgres_rig import LEFT, NAME, check_chain, check_line, open_postgres, pair
from tests.lanes import SLOW, examples

# The real bound in the slow lane, otherwise one that a test can wait for.
BOUND_SECONDS = BUSY_SECONDS_MAX if SLOW else 1
LIMIT_SECONDS = 120  # only a hang reaches it


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (pool, writes):
        monkeypatch.setattr(module, "BUSY_SECONDS_MAX", BOUND_SECONDS)


# -- bounded waits ---------------------------------------------------------------------------------


@contextlib.contextmanager
def holding_the_space(place: Path) -> Iterator[None]:
    """Lock the space's row, and hold it for a long time."""
    with psycopg.connect(server_url()) as connection:
        connection.execute(f"select from {schema_of(place)}.spaces for update".encode())
        yield


@pytest.mark.usefixtures("bounded")
def test_a_commit_that_waits_too_long_for_the_space_is_busy_and_not_written(
    tmp_path: Path,
) -> None:
    with open_postgres(tmp_path) as store:
        space = store.space(NAME)
        space.transact(pair(0))
        with holding_the_space(tmp_path), pytest.raises(Busy, match="others hold") as caught:
            space.transact(pair(1), key="waited")
        check_line(caught.value)
        assert space.transact(pair(1), key="waited").version == 2
        check_chain(space)


@pytest.mark.parametrize("attempts", [2, 0])
def test_an_interruption_before_the_end_of_a_commit_holds_nobody_up(
    tmp_path: Path, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session stayed in a transaction and kept the lock of the space, as long as the error lived."""
    monkeypatch.setattr(committer, "OPTIMISTIC_ATTEMPTS_MAX", attempts)
    with open_postgres(tmp_path) as store, ThreadPoolExecutor(1) as other:
        space = store.space(NAME)
        space.transact(pair(0))
        interrupt_before(_Block.__exit__.__code__, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt) as caught:
            space.transact(pair(1))
        assert other.submit(space.transact, pair(2)).result(BOUND_SECONDS).version == 2
        assert caught.value is not None
        check_chain(space)


@pytest.mark.parametrize("attempts", [2, 0])
def test_a_statement_that_is_given_up_is_busy_and_not_written(
    tmp_path: Path, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "OPTIMISTIC_ATTEMPTS_MAX", attempts)
    # Without the lock the server's own bound applies; under the lock the statement is cancelled.
    url = with_options(server_url(), options="-cstatement_timeout=300ms", application_name="slow")
    with open_postgres(tmp_path, url=url) as store, ThreadPoolExecutor(1) as pool_of_one:
        space = store.space(NAME)
        space.transact(pair(0))
        with holding_the_space(tmp_path):
            waiting = pool_of_one.submit(space.transact, pair(1), key="waited")
            if attempts == 0:
                cancel_when_waiting("slow")
            error = waiting.exception(LIMIT_SECONDS)
        assert isinstance(error, Busy), error
        assert "took too long" in str(error)
        check_line(error)
        assert space.transact(pair(1), key="waited").version == 2
        check_chain(space)


def cancel_when_waiting(name: str) -> None:
    """Cancel the statement of a client as soon as it waits for a lock."""
    pause = threading.Event()
    with psycopg.connect(server_url(), autocommit=True) as connection:
        for _ in range(LIMIT_SECONDS * 100):
            if connection.execute(
                "select pg_cancel_backend(pid) from pg_stat_activity"
                " where application_name = %s and wait_event_type = 'Lock'",
                (name,),
            ).fetchall():
                return
            pause.wait(0.01)
    raise AssertionError(f"{name} never waited")


@pytest.mark.usefixtures("bounded")
def test_a_process_whose_connections_are_all_in_use_is_busy_and_goes_on_when_one_is_back(
    tmp_path: Path,
) -> None:
    with contextlib.ExitStack() as blocks:
        engine = blocks.enter_context(contextlib.closing(engine_on(tmp_path)))
        store = open_postgres(tmp_path)
        blocks.callback(store.close)
        store.space(NAME).transact(pair(0))
        (row,) = engine.spaces()
        held = [engine.writer(row.number, optimistic=True) for _ in range(POSTGRES_CONNECTIONS_MAX)]
        for block in held[1:]:
            blocks.enter_context(block)
        with held[0]:
            with pytest.raises(Busy, match="all connections") as caught:
                engine.reader().head(row.number)
            check_line(caught.value)
        head = engine.reader().head(row.number)
        assert head is not None
        assert head.version == 1


def engine_on(place: Path) -> PostgresEngine:
    return PostgresEngine(server_url(), schema=schema_of(place))


def test_more_threads_than_connections_all_get_their_turn(tmp_path: Path) -> None:
    threads = 3 * POSTGRES_CONNECTIONS_MAX
    with open_postgres(tmp_path) as store, ThreadPoolExecutor(threads) as workers:
        spaces = [store.space(f"space-{number}") for number in range(threads)]
        meeting = threading.Barrier(threads)

        def work(space: rote.Space) -> None:
            meeting.wait(LIMIT_SECONDS)
            for number in range(examples(5, 50)):
                space.transact(pair(number))
                assert space.get(LEFT) == {"number": number}

        for done in [workers.submit(work, space) for space in spaces]:
            done.result(LIMIT_SECONDS)
        assert {space.version for space in spaces} == {examples(5, 50)}


# -- closing ---------------------------------------------------------------------------------------


def test_a_store_that_is_closed_while_threads_commit_answers_each_of_them_rightly(
    tmp_path: Path,
) -> None:
    threads = 4
    for round_number in range(examples(5, 100)):
        place = tmp_path / f"{round_number}"
        store = open_postgres(place)
        space = store.space(NAME)
        acknowledged: dict[str, str] = {}
        unknown: set[str] = set()
        begun = threading.Barrier(threads + 1)

        def commit(writer: int, space: rote.Space = space, begun: threading.Barrier = begun,
                   made: dict[str, str] = acknowledged, open_: set[str] = unknown) -> str:  # fmt: skip
            begun.wait(LIMIT_SECONDS)
            for number in range(1_000_000):
                key = f"{writer}/{number}"
                try:
                    made[key] = space.transact(pair(number), key=key).hash
                except Unavailable as error:
                    if error.details.get("outcome") == "unknown":
                        open_.add(key)
                    return str(error)
            raise AssertionError("it was never closed")

        with ThreadPoolExecutor(threads) as workers:
            answers = [workers.submit(commit, writer) for writer in range(threads)]
            begun.wait(LIMIT_SECONDS)
            while len(acknowledged) < round_number:
                pass
            store.close()
            for answer in answers:
                assert "\n" not in answer.result(LIMIT_SECONDS)
        with open_postgres(place) as again:
            there = {commit.key: commit.hash for commit in again.space(NAME).log()}
            assert acknowledged.items() <= there.items(), "lost"
            assert there.keys() - acknowledged.keys() <= unknown, "refused, and yet written"
            check_chain(again.space(NAME))

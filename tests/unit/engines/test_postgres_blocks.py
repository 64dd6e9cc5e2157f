"""Optimistic blocks on PostgreSQL: they never miss what others did meanwhile."""

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType

import psycopg
import pytest

from rote.engines import Contended, OutcomeUnknown
from rote.engines.postgres import PostgresEngine, connections, pool
from rote.engines.postgres.connections import Session
from rote.engines.rows import MAIN, Batch, EntityRow, FactRow
from rote.errors import Busy, NotFound, Unavailable
from rote.testing.engine_suite.ground import MAIN_BRANCH, ON_MAIN, commit, fact, side
from rote.testing.postgres import postgres_engine, schema_of, server_url, with_options

LIMIT_SECONDS = 60  # only a hang reaches it


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[PostgresEngine]:
    engine = postgres_engine(tmp_path)
    yield engine
    engine.close()


@pytest.fixture
def other(engine: PostgresEngine, tmp_path: Path) -> Iterator[PostgresEngine]:
    """Yield a second engine, which stands for another process."""
    other = postgres_engine(tmp_path)
    yield other
    other.close()


@pytest.fixture
def space(engine: PostgresEngine) -> int:
    return engine.create_space(did="did:key:z1", name="x", seal=b"s", main=MAIN_BRANCH).number


def batch(*facts: FactRow) -> Batch:
    pointers = [EntityRow(MAIN, row.id, row.version, row.index, True) for row in facts]
    return Batch(
        [commit(version) for version in {row.version for row in facts}], [*facts], pointers
    )


def append(engine: PostgresEngine, space: int, version: int) -> None:
    with engine.writer(space) as writes:
        writes.append(space, batch(fact("urn:a", version)))


@pytest.mark.parametrize("what", ["commit", "side row", "index"])
def test_a_write_of_others_in_between_is_noticed(
    engine: PostgresEngine, other: PostgresEngine, space: int, what: str
) -> None:
    append(engine, space, 1)
    with pytest.raises(Contended), engine.writer(space, optimistic=True) as writes:
        assert writes.side(space, "run", "r") is None
        with other.writer(space) as others:
            if what == "commit":
                others.append(space, batch(fact("urn:b", 2)))
            elif what == "side row":
                others.put_side(space, side("run", "other"))
            else:
                others.derive(space, "words/1", rows=[], ended=[], indexed=1)
        writes.put_side(space, side("run", "r"))
    assert engine.reader().side(space, "run", "r") is None


def test_a_block_that_only_reads_notices_too(
    engine: PostgresEngine, other: PostgresEngine, space: int
) -> None:
    append(engine, space, 1)
    append(other, space, 2)
    with pytest.raises(Contended), engine.writer(space, optimistic=True) as writes:
        head = writes.head(space)
        assert head is not None
        assert head.version == 1


def test_an_error_that_was_decided_on_an_old_state_is_not_answered(
    engine: PostgresEngine, other: PostgresEngine, space: int
) -> None:
    append(engine, space, 1)
    append(other, space, 2)
    with pytest.raises(Contended), engine.writer(space, optimistic=True):
        raise NotFound("urn:b does not exist")
    with pytest.raises(NotFound), engine.writer(space, optimistic=True):
        raise NotFound("urn:b does not exist")


def test_a_plan_on_an_old_state_is_given_up_at_its_first_look(
    engine: PostgresEngine, other: PostgresEngine, space: int
) -> None:
    append(engine, space, 1)
    append(other, space, 2)
    with pytest.raises(Contended), engine.writer(space, optimistic=True) as writes:
        with pytest.raises(Contended):
            writes.newest(space, ["urn:a"], ON_MAIN)
        writes.append(space, batch(fact("urn:a", 2)))
    assert engine.reader().commits(space, after=0, limit=9) == [commit(1), commit(2)]


def test_a_commit_that_others_have_made_instead_is_not_taken_for_ours(
    engine: PostgresEngine, space: int
) -> None:
    """A standby that was promoted without the last commit counts up to the same number again."""
    append(engine, space, 1)
    with psycopg.connect(server_url(), autocommit=True) as connection:
        schema = engine._schema
        connection.execute(f"update {schema}.spaces set hash = 'another'".encode())
    with pytest.raises(Contended), engine.writer(space, optimistic=True) as writes:
        writes.append(space, batch(fact("urn:a", 2)))
    assert engine.reader().commits(space, after=0, limit=9) == [commit(1)]


def test_after_a_settlement_a_statement_that_comes_late_writes_nothing(
    engine: PostgresEngine, space: int
) -> None:
    append(engine, space, 1)
    with pytest.raises(Contended), engine.writer(space, optimistic=True) as writes:
        writes.append(space, batch(fact("urn:a", 2)))
        assert not engine.settle(space, 2, commit(2).attempt)
    assert engine.reader().commits(space, after=0, limit=9) == [commit(1)]


@pytest.mark.parametrize("optimistic", [True, False])
def test_a_connection_that_is_lost_before_the_end_leaves_nothing(
    engine: PostgresEngine, space: int, optimistic: bool
) -> None:
    append(engine, space, 1)
    with (
        pytest.raises(OutcomeUnknown),
        engine.writer(space, optimistic=optimistic) as writes,
    ):
        writes.append(space, batch(fact("urn:a", 2)))
        _end_sessions(engine)
    assert not engine.settle(space, 2, commit(2).attempt)
    append(engine, space, 2)


def test_a_pool_whose_connections_died_goes_on(engine: PostgresEngine, space: int) -> None:
    append(engine, space, 1)
    _end_sessions(engine)
    append(engine, space, 2)
    _end_sessions(engine)
    head = engine.reader().head(space)
    assert head is not None
    assert head.version == 2
    _end_sessions(engine)
    with engine.writer(space, optimistic=True) as writes:
        writes.append(space, batch(fact("urn:a", 3)))


def test_a_server_that_stops_answering_is_given_up(
    engine: PostgresEngine, space: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "POSTGRES_ANSWER_SECONDS_MAX", 0.3)
    [process] = _processes(engine)
    os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(Unavailable):
            engine.reader().head(space)
    finally:
        os.kill(process, signal.SIGCONT)
    assert engine.reader().head(space) is None


def test_nobody_waits_for_ever_for_a_connection(
    engine: PostgresEngine, space: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "POSTGRES_CONNECTIONS_MAX", 1)
    monkeypatch.setattr(pool, "BUSY_SECONDS_MAX", 0.1)
    monkeypatch.setattr(pool, "WAKE_SECONDS_MAX", 0.05)
    with engine.writer(space) as writes:
        with pytest.raises(Busy):
            engine.reader().head(space)
        assert writes.head(space) is None
    assert engine.reader().head(space) is None


def test_a_ring_goes_to_one_who_still_listens(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bells of threads that had given up stayed in the queue, and were rung for nobody."""
    monkeypatch.setattr(pool, "POSTGRES_CONNECTIONS_MAX", 1)
    held = engine._pool.take()
    with monkeypatch.context() as impatient, pytest.raises(Busy):
        impatient.setattr(pool, "BUSY_SECONDS_MAX", 0.1)
        impatient.setattr(pool, "WAKE_SECONDS_MAX", 0.02)
        engine._pool.take()
    monkeypatch.setattr(pool, "WAKE_SECONDS_MAX", LIMIT_SECONDS)
    assert not engine._pool._bells
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(engine._pool.take)
        while not engine._pool._bells:
            pass
        engine._pool.give_back(held, None)
        engine._pool.give_back(waiting.result(LIMIT_SECONDS / 4), None)


def test_a_ring_that_comes_too_late_is_passed_on(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "WAKE_SECONDS_MAX", 0.01)
    late, next_one = threading.Lock(), threading.Lock()
    for bell in (late, next_one):
        bell.acquire()
    engine._pool._bells.append(next_one)  # `late` was taken out by the thread that will ring it
    engine._pool._listen(late)
    assert not next_one.locked()


@pytest.mark.parametrize("moment", [PostgresEngine.begin, PostgresEngine.end])
@pytest.mark.parametrize("optimistic", [True, False])
def test_an_interruption_at_the_edge_of_a_block_leaves_nothing_locked(
    engine: PostgresEngine, space: int, moment: Callable[..., object], optimistic: bool
) -> None:
    """An interruption came after the block had begun and before its caller knew. The row then
    stayed locked for as long as anyone held the exception."""

    def interrupt(frame: FrameType, event: str, argument: object) -> None:
        if event == "return" and frame.f_code is moment.__code__:
            sys.setprofile(None)
            raise KeyboardInterrupt

    before = sys.getprofile()
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            sys.setprofile(interrupt)
            with engine.writer(space, optimistic=optimistic) as writes:
                writes.put_side(space, side("run", "r"))
    finally:
        sys.setprofile(before)
    with psycopg.connect(server_url()) as connection:
        connection.execute("set local lock_timeout = '5s'")  # the server takes a moment to notice
        connection.execute(f"select from {engine._schema}.spaces for update".encode())
    append(engine, space, 1)
    assert caught.tb is not None  # held until here
    assert len(engine._pool._idle) == len(engine._pool._open)


@pytest.mark.filterwarnings("ignore:.*deleted while still open:ResourceWarning")
def test_a_connection_that_was_dropped_without_a_word_makes_room_for_another(
    engine: PostgresEngine, space: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that is interrupted at the wrong moment cannot give its connection back. The
    connection must be freed without a run of the garbage collector."""
    monkeypatch.setattr(pool, "POSTGRES_CONNECTIONS_MAX", 1)
    monkeypatch.setattr(pool, "BUSY_SECONDS_MAX", 0.1)
    monkeypatch.setattr(pool, "WAKE_SECONDS_MAX", 0.02)
    gc.disable()
    try:
        lost = engine._pool.take()
        lost.rows("select $1::bigint", (1,))
        lost.rows("select 1; select 2")
        del lost
        assert engine.reader().head(space) is None
    finally:
        gc.enable()


def test_the_server_is_asked_to_wait_for_the_disk_exactly_as_told(tmp_path: Path) -> None:
    """The test holds also when the database has another setting, and in both kinds of blocks."""
    seen = {}
    for durability in ("fsync", "os"):
        place = tmp_path / durability
        url = with_options(server_url(), options="-csynchronous_commit=off")
        engine = PostgresEngine(url, schema=schema_of(place), durability=durability)
        space = engine.create_space(did="d", name="x", seal=b"", main=MAIN_BRANCH).number
        _record_waiting(schema_of(place))
        append(engine, space, 1)
        for facts in ([fact("urn:a", 2)], [fact("urn:a", 3), fact("urn:b", 3, index=1)]):
            with engine.writer(space, optimistic=True) as writes:
                writes.append(space, batch(*facts))
        seen[durability] = engine._pool.rows(f"select waiting from {schema_of(place)}.seen")
        engine.close()
    assert seen == {"fsync": [("on",)] * 3, "os": [("off",)] * 3}


def test_a_warning_about_something_else_does_not_put_a_commit_in_doubt(
    engine: PostgresEngine, space: int
) -> None:
    """Every warning was taken for a standby that had not confirmed. Triggers of others warn too,
    and so does a server whose transaction numbers run out."""
    append(engine, space, 1)
    _warn_at_commits(engine._schema)
    append(engine, space, 2)
    with engine.writer(space, optimistic=True) as writes:
        writes.append(space, batch(fact("urn:a", 3)))
    engine.harden()
    assert engine.reader().commits(space, after=0, limit=9) == [commit(1), commit(2), commit(3)]


def test_a_commit_without_a_transaction_is_in_doubt(engine: PostgresEngine, space: int) -> None:
    with pytest.raises(OutcomeUnknown), engine.writer(space) as writes:
        writes.append(space, batch(fact("urn:a", 1)))
        writes.session.run("rollback")


def _warn_at_commits(schema: str) -> None:
    """Warn as late as a trigger can, while the server commits; and when the store is hardened."""
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute(
            f"""
            create function {schema}.warn() returns trigger language plpgsql as $$ begin
              raise warning 'database "x" must be vacuumed'; return new; end $$;
            create constraint trigger warn after insert on {schema}.commits
              deferrable initially deferred for each row execute function {schema}.warn();
            create trigger warn after update on {schema}.store
              for each row execute function {schema}.warn();
            """.encode()
        )


def _record_waiting(schema: str) -> None:
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute(
            f"""
            create table {schema}.seen (waiting text);
            create function {schema}.see() returns trigger language plpgsql as $$ begin
              insert into {schema}.seen values (current_setting('synchronous_commit'));
              return new; end $$;
            create trigger see before insert on {schema}.commits
              for each row execute function {schema}.see();
            """.encode()
        )


def _end_sessions(engine: PostgresEngine) -> None:
    """End every connection of this engine at the server."""
    sessions = _processes(engine)
    with psycopg.connect(server_url(), autocommit=True) as connection:
        for process in sessions:
            connection.execute("select pg_terminate_backend(%s, 5000)", (process,))


def _processes(engine: PostgresEngine) -> list[int]:
    """Return the server processes that work for this engine."""
    sessions = [session for session in engine._pool._open if isinstance(session, Session)]
    return [session.info.backend_pid for session in sessions]

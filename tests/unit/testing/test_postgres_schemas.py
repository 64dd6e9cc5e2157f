"""Schemas and sessions that go from test to test: the next one finds neither rows nor settings."""

from pathlib import Path

import psycopg

from rote.engines.rows import BranchRow
from rote.testing.postgres import Schemas, _KeepingEngine, server_url

ROOT = BranchRow(1, "main", None, 0, 0, None, b"")
SETTING = "show work_mem"


def engine_in(schemas: Schemas, folder: Path) -> _KeepingEngine:
    engine = schemas.engine(folder)
    assert isinstance(engine, _KeepingEngine)
    return engine


def test_the_next_engine_has_the_session_without_its_settings(tmp_path: Path) -> None:
    schemas = Schemas()
    first = engine_in(schemas, tmp_path)
    [before] = first._pool.rows(SETTING)
    session = first._pool.take()
    session.run("set work_mem = '7MB'")
    first._pool.give_back(session, None)
    assert first._pool.rows(SETTING) == [("7MB",)]
    first.close()
    second = engine_in(schemas, tmp_path)
    with second._pool.lent() as taken:
        assert taken is session
    assert second._pool.rows(SETTING) == [before]
    second.close()


def test_a_session_that_the_server_has_ended_goes_to_nobody(tmp_path: Path) -> None:
    schemas = Schemas()
    first = engine_in(schemas, tmp_path)
    with first._pool.lent() as session:
        process = session.info.backend_pid
    first.close()
    with psycopg.connect(server_url(), autocommit=True) as other:
        other.execute("select pg_terminate_backend(%s, 5000)", (process,))
    second = engine_in(schemas, tmp_path)
    with second._pool.lent() as taken:
        assert taken is not session
    second.close()


def test_a_place_that_was_taken_back_is_empty(tmp_path: Path) -> None:
    schemas = Schemas()
    first = schemas.engine(tmp_path)
    first.create_space(did="did:key:a", name="notes", seal=b"", main=ROOT)
    assert [row.name for row in first.spaces()] == ["notes"]
    first.close()
    schemas.take_back()
    second = schemas.engine(tmp_path)
    assert second.spaces() == []
    second.close()

"""The settings of a connection to PostgreSQL, whatever the URL says or leaves out."""

from pathlib import Path

import psycopg
import pytest

import rote
from rote.engines.postgres import PostgresEngine
from rote.engines.postgres.connections import Target
from rote.engines.postgres.failures import translate
from rote.errors import InvalidInput, Unavailable
from rote.testing.engine_suite.ground import MAIN_BRANCH
from rote.testing.postgres import postgres_engine, schema_of, server_url, with_options

WRITES = "target_session_attrs"


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("postgresql://a,b/x", "read-write"),
        ("postgresql:///x?host=/a,/b", "read-write"),
        ("postgresql:///x?hostaddr=10.0.0.1,10.0.0.2", "read-write"),
        ("postgresql://a,b/x?target_session_attrs=any", "any"),
        ("postgresql://a,b/x?target_session_attrs=prefer-standby", "prefer-standby"),
        ("postgresql://a/x", None),
        ("postgresql:///x", None),
    ],
)
def test_of_several_servers_the_one_that_writes_is_taken_unless_the_url_says_otherwise(
    url: str, wanted: str | None
) -> None:
    assert Target(url)._parameters.get(WRITES) == wanted


def test_the_variables_of_the_driver_may_name_several_servers_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGHOST", "a,b")
    assert Target("postgresql:///x")._parameters[WRITES] == "read-write"
    assert WRITES not in Target("postgresql://c/x")._parameters
    monkeypatch.setenv("PGTARGETSESSIONATTRS", "standby")
    assert WRITES not in Target("postgresql:///x")._parameters


def test_a_session_whose_server_only_reads_is_not_used_again(tmp_path: Path) -> None:
    """A session that had landed on a standby stayed, and so did every other. No write succeeded any
    more, although the server that writes was back."""
    engine = postgres_engine(tmp_path)
    sessions = [engine._pool.take() for _ in range(3)]
    for session in sessions:
        session.run("set default_transaction_read_only = on")
        engine._pool.give_back(session, None)
    with pytest.raises(Unavailable, match="only reads"):
        make_space(engine)
    assert make_space(engine) == 1
    assert all(session.closed for session in sessions)
    with pytest.raises(Unavailable, match="only reads"), engine.writer(1) as writes:
        writes.session.run("set transaction read only")
        writes.drop_side(1, "run", "r")
    with engine.writer(1) as writes:
        writes.drop_side(1, "run", "r")
    engine.close()


def test_a_session_that_is_closed_says_so_in_our_words() -> None:
    session = Target(server_url()).connect()
    session.close()
    with pytest.raises(Unavailable):
        session.run("select 1")
    with pytest.raises(Unavailable):
        session.rows("select $1::bigint", (1,))


def make_space(engine: PostgresEngine) -> int:
    return engine.create_space(did="d", name="x", seal=b"", main=MAIN_BRANCH).number


@pytest.mark.parametrize(
    "parameters",
    [{"client_encoding": "latin1"}, {"options": "-cclient_encoding=latin1"}],
)
def test_texts_are_the_same_whatever_encoding_the_url_asks_for(
    tmp_path: Path, parameters: dict[str, str]
) -> None:
    """Ids were written as UTF-8 and read as Latin-1: others found them garbled, or not at all."""
    schema = schema_of(tmp_path)
    url = with_options(server_url(), **parameters)
    with rote.open(url, schema=schema, keys=tmp_path) as store:
        store.space("notes").transact([{"op": "set", "id": "urn:é", "value": "雪"}])
        store.space("notes").transact(
            [{"op": "set", "id": id, "value": id} for id in ("urn:ü", "urn:雪")]
        )
    with rote.open(server_url(), schema=schema, keys=tmp_path) as store:
        space = store.space("notes")
        assert [state.id for state in space.scan()] == ["urn:é", "urn:ü", "urn:雪"]
        assert space.get("urn:é") == "雪"
        assert space.verify().ok


def test_an_encoding_that_lacks_a_character_is_the_callers_to_change() -> None:
    error = translate(psycopg.errors.UntranslatableCharacter("é"), place="postgresql://a/x")
    assert type(error) is InvalidInput
    assert "UTF8" in str(error)

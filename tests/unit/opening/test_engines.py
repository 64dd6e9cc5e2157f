"""URLs of stores: what they mean, and that a mistyped one neither leaks nor makes a file."""

from pathlib import Path

import psycopg
import pytest

import rote
from rote.errors import InvalidInput, RoteError
from rote.opening import locate
from rote.testing.postgres import database_url, schema_of, server_url, with_options

SECRET = "canary-51c2"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ann:{SECRET}/b@127.0.0.1:1/db",
        f"postgresql://ann:a@{SECRET}@127.0.0.1:1/db",
        f"postgresql://ann:{SECRET}%zz@127.0.0.1:1/db",
        f"postgresql://ann:{SECRET} b@127.0.0.1:port/db",
        f"postgres:ann:{SECRET}@127.0.0.1/db",
        f"Postgresql://ann:{SECRET}@127.0.0.1/db",
        f"host=127.0.0.1 user=ann password={SECRET} dbname=db",
        f"password={SECRET} host=127.0.0.1",
    ],
)
def test_a_mistyped_url_is_refused_without_being_quoted(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput) as refused:
        rote.open(url)
    assert "postgresql://user:password@host" in str(refused.value)
    assert SECRET not in str(refused.value.to_dict())
    assert list(tmp_path.iterdir()) == []


def test_a_url_is_shown_without_user_and_password() -> None:
    shown = locate(f"postgresql://ann:{SECRET}@db.example:5433/notes?schema=agents").shown
    assert shown == "postgresql://db.example:5433/notes?schema=agents"
    assert locate("postgres://ann@db.example/notes").shown == "postgresql://db.example/notes"


def test_a_url_may_name_the_schema(tmp_path: Path) -> None:
    schema = schema_of(tmp_path)
    url = with_options(server_url(), schema=schema)
    with rote.open(url) as store:
        store.space("notes").set("urn:a", 1)
        assert store.url.endswith(f"?schema={schema}")
    with rote.open(server_url(), schema=schema, create=False) as store:
        assert store.space("notes").get("urn:a") == 1
    with pytest.raises(InvalidInput, match="names the schema"):
        rote.open(url, schema="another")


def test_a_path_that_is_a_url_is_refused_unquoted(store_path: Path) -> None:
    with rote.open(store_path) as store, pytest.raises(InvalidInput) as refused:
        store.backup(f"postgresql://ann:{SECRET}@127.0.0.1/db")
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"host": "no-such-host.invalid"}, "no such host"),
        ({"host": "127.0.0.1", "port": "1"}, "no server answers"),
        ({"sslmode": "nonsense"}, "the option sslmode has a wrong value"),
        (
            {"host": "127.0.0.1", "connect_timeout": "soon"},
            "the option connect_timeout has a wrong",
        ),
        ({"host": "127.0.0.1", "port": "99999"}, "the option port has a wrong value"),
        ({"host": "127.0.0.1", "keepalives": "x"}, "the option keepalives has a wrong value"),
        ({"nonsense": "1"}, "an option that there is not: nonsense"),
    ],
)
def test_why_no_connection_was_made_is_said(options: dict[str, str], words: str) -> None:
    url = with_options(f"postgresql://ann:{SECRET}@/postgres", **options)
    with pytest.raises(RoteError, match=words) as refused:
        rote.open(url)
    assert SECRET not in str(refused.value.to_dict())
    assert "ann" not in str(refused.value.to_dict())


@pytest.mark.parametrize("rest", ["x/y?canary=z@host/db", "x?canary=z@host/db?no"])
def test_a_part_of_a_password_is_not_told_as_an_option(rest: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        rote.open(f"postgresql://ann:{rest}")
    assert "canary" not in str(refused.value.to_dict())


def test_a_database_that_cannot_hold_every_character_is_refused(tmp_path: Path) -> None:
    url = database_url(tmp_path)
    name = schema_of(tmp_path) + "_latin"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            f"create database {name} encoding 'LATIN1' locale 'C' template template0".encode()
        )
    with pytest.raises(InvalidInput, match="LATIN1"):
        rote.open(url.replace(schema_of(tmp_path), name))

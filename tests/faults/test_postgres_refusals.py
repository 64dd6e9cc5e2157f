"""A server that refuses: the error is one line that says what to do, without a secret in it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import rote
from rote.errors import Busy, Denied, InvalidInput, NotFound, RoteError, Unavailable
from rote.testing.postgres import (
    FAST,
    PostgresServer,
    free_port,
    schema_of,
    server_url,
    with_options,
)

SECRET = "hunter2-very-secret"


@pytest.fixture(scope="module")
def guarded() -> Iterator[PostgresServer]:
    """Yield a server that asks everyone but its first user for a password."""
    access = "local all postgres trust\nhost all all 127.0.0.1/32 scram-sha-256"
    server = PostgresServer(FAST, port=free_port(), access=access)
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("create role ann login password 'right'")
        connection.execute("create role ben login password 'right'")
        connection.execute("create role cleo login password 'right'")
        connection.execute("grant create on database postgres to ann")
    yield server
    server.stop()


def url_of(server: PostgresServer, user: str, password: str, database: str = "postgres") -> str:
    return f"postgresql://{user}:{password}@127.0.0.1:{server.port}/{database}"


def refusal(url: str, kind: type[RoteError], tmp_path: Path, **options: object) -> str:
    """Return the message that a caller gets, after checks of its length and for secrets."""
    with pytest.raises(kind) as caught:
        rote.open(url, keys=tmp_path, **options)  # type: ignore[arg-type]
    error = caught.value
    assert type(error) is kind
    assert "\n" not in str(error)
    told = f"{error} {error!r} {error.details} {error.to_dict()}"
    chain: BaseException | None = error
    while chain is not None:
        told += f" {chain!r} {chain}"
        chain = chain.__cause__
    assert SECRET not in told
    return str(error)


def test_a_wrong_password_is_denied_and_never_repeated(
    guarded: PostgresServer, tmp_path: Path
) -> None:
    words = refusal(url_of(guarded, "ann", SECRET), Denied, tmp_path)
    assert "wrong user or password" in words


def test_a_missing_password_is_asked_for(guarded: PostgresServer, tmp_path: Path) -> None:
    url = f"postgresql://ann@127.0.0.1:{guarded.port}/postgres"
    assert "password" in refusal(url, Denied, tmp_path)


def test_a_missing_database_is_not_found(guarded: PostgresServer, tmp_path: Path) -> None:
    words = refusal(url_of(guarded, "ann", "right", "nowhere"), NotFound, tmp_path)
    assert "createdb" in words


def test_a_user_without_the_right_to_make_a_schema_is_denied(
    guarded: PostgresServer, tmp_path: Path
) -> None:
    words = refusal(url_of(guarded, "ben", "right"), Denied, tmp_path, schema="of_ben")
    assert "docs/postgres.md" in words


def test_a_user_without_rights_on_the_tables_is_denied(
    guarded: PostgresServer, tmp_path: Path
) -> None:
    rote.open(url_of(guarded, "ann", "right"), schema="of_ann", keys=tmp_path).close()
    refusal(url_of(guarded, "ben", "right"), Denied, tmp_path, schema="of_ann", create=False)


def test_the_rights_that_the_page_lists_are_enough(guarded: PostgresServer, tmp_path: Path) -> None:
    rote.open(url_of(guarded, "ann", "right"), schema="shared", keys=tmp_path).close()
    with psycopg.connect(url_of(guarded, "ann", "right"), autocommit=True) as connection:
        connection.execute(
            "grant usage on schema shared to ben;"
            "grant select, insert, update, delete on all tables in schema shared to ben;"
            "grant usage on schema shared to cleo;"
            "grant select on all tables in schema shared to cleo"
        )
    url = url_of(guarded, "ben", "right")
    with rote.open(url, schema="shared", keys=tmp_path) as store:
        space = store.space("notes")
        space.set("urn:a", 1, key="k")
        assert space.set("urn:a", 1, key="k").version == 1
        space.delete("urn:a")
        assert space.verify().ok
    with rote.open(url_of(guarded, "cleo", "right"), schema="shared", keys=tmp_path) as store:
        space = store.space("notes")
        assert [state.id for state in space.at(1).scan()] == ["urn:a"]
        assert space.verify().ok
        with pytest.raises(Denied):
            space.set("urn:a", 2)


def test_nobody_there_is_unavailable(tmp_path: Path) -> None:
    url = f"postgresql://ann:{SECRET}@127.0.0.1:{free_port()}/postgres"
    assert "no server answers" in refusal(url, Unavailable, tmp_path)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ann:{SECRET}@host/x?unknown={SECRET}",
        f"postgresql://ann:{SECRET}%zz@host/x",
    ],
)
def test_a_url_that_cannot_be_read_is_not_repeated(url: str, tmp_path: Path) -> None:
    refusal(url, InvalidInput, tmp_path)


def test_a_store_shows_no_user_and_no_password(guarded: PostgresServer, tmp_path: Path) -> None:
    with rote.open(url_of(guarded, "ann", "right"), schema="shown", keys=tmp_path) as store:
        assert repr(store) == f"Store('postgresql://127.0.0.1:{guarded.port}/postgres')"
        assert "right" not in repr(store._port.__dict__)


def test_a_server_that_only_reads_says_so(tmp_path: Path) -> None:
    schema = schema_of(tmp_path)
    with rote.open(server_url(), schema=schema, keys=tmp_path) as store:
        store.space("notes").set("urn:a", 1)
    url = with_options(server_url(), options="-cdefault_transaction_read_only=on")
    with rote.open(url, schema=schema, keys=tmp_path) as store:
        space = store.space("notes")
        assert space.get("urn:a") == 1
        with pytest.raises(Unavailable, match="only reads"):
            space.set("urn:a", 2)
        assert space.get("urn:a") == 1


def test_a_server_without_connections_is_busy(tmp_path: Path) -> None:
    server = PostgresServer({**FAST, "max_connections": "4", "superuser_reserved_connections": "0"})
    held = []
    try:
        with pytest.raises(psycopg.OperationalError):
            while True:
                held.append(psycopg.connect(server.url))
        refusal(server.url, Busy, tmp_path)
    finally:
        for connection in held:
            connection.close()
        server.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_is_said_and_nothing_is_lost(tmp_path: Path) -> None:
    """Tables live on a small disk of their own; commits go on once there is room again."""
    server = PostgresServer(FAST)
    disk = server.folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m,mode=700", "rote-test", str(disk)]
    if subprocess.run(mount, check=False).returncode != 0:
        server.stop()
        pytest.skip("this machine lets nobody mount a small disk")
    try:
        shutil.chown(disk, "nobody")
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"create tablespace small location '{disk}'".encode())
            connection.execute("alter role postgres set default_tablespace = small")
        with rote.open(server.url, schema="small", keys=tmp_path / "keys") as store:
            space = store.space("notes")
            space.set("urn:a", 0)
            with pytest.raises(Unavailable, match="disk is full") as caught:
                for number in range(1, 200):
                    space.set("urn:a", os.urandom(200_000).hex() + str(number))
            assert "\n" not in str(caught.value)
            made = space.version
            subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
            assert space.set("urn:a", "room").version == made + 1
            assert space.verify().ok
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)
        server.stop()


def test_without_the_driver_everything_else_works_and_the_message_names_the_extra() -> None:
    program = """
import sys
sys.modules["psycopg"] = None
import rote
rote.open(":memory:").space("x").set("urn:a", 1)
try:
    rote.open("postgresql://localhost/x")
except rote.errors.Unavailable as error:
    assert "pip install 'rote[postgres]'" in str(error), error
else:
    raise AssertionError("opened without a driver")
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_store_from_before_a_fork_is_refused_in_the_child(tmp_path: Path) -> None:
    schema = schema_of(tmp_path)
    with rote.open(server_url(), schema=schema, keys=tmp_path) as store:
        space = store.space("notes")
        space.set("urn:a", 1)
        child = os.fork()
        if child == 0:
            try:
                space.get("urn:a")
            except Unavailable:
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert space.set("urn:a", 2).version == 2

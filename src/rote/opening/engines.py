"""Which engine a URL means, and where the keys of its spaces are kept."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rote.engines import Engine
from rote.engines.sqlite import SqliteEngine
from rote.errors import InvalidInput, Unavailable
from rote.space.arguments import check_path

if TYPE_CHECKING:
    from rote.engines.postgres import PostgresEngine

SCHEMA_DEFAULT = "rote"


@dataclass(frozen=True, slots=True)
class Location:
    """Where a store is."""

    shown: str  # its URL, without user and password
    path: Path | None  # its file, if it is one
    keys: Path | None  # the folder of its keys, if they are in one


def locate(url: object, *, keys: object = None) -> Location:
    """What a URL says about a store; nothing is opened."""
    if not isinstance(url, str) or not url:
        raise InvalidInput("name a store: a path, :memory:, sqlite:///path or postgresql://…")
    if _is_postgres(url):
        folder = Path.home() / ".rote" / "keys" if keys is None else check_path(keys).absolute()
        return Location(_postgres().place_of(url), None, folder)
    if keys is not None:
        raise InvalidInput("keys are for PostgreSQL; a file's keys are beside it")
    path = _path(url)
    return Location(url, path, None if path is None else path.with_name(path.name + ".keys"))


def open_engine(
    url: str, *, durability: str, create: bool, schema: str, keys: object
) -> tuple[Engine, Location]:
    location = locate(url, keys=keys)
    if _is_postgres(url):
        return _postgres()(url, schema=schema, durability=durability, create=create), location
    if schema != SCHEMA_DEFAULT:
        raise InvalidInput("schema is for PostgreSQL; name another file instead")
    return SqliteEngine(location.path, durability=durability, create=create), location


def _is_postgres(url: str) -> bool:
    return url.startswith(("postgresql://", "postgres://"))


def _postgres() -> "type[PostgresEngine]":
    try:
        # Here, because the driver is an extra: without it everything else works.
        from rote.engines.postgres import PostgresEngine  # noqa: PLC0415
    except ImportError as error:
        raise Unavailable(
            "stores on PostgreSQL need its driver: pip install 'rote[postgres]'",
            reason=str(error).splitlines()[0],
        ) from error
    return PostgresEngine


def _path(url: str) -> Path | None:
    """The file a URL names; None for memory."""
    if url in (":memory:", "sqlite://:memory:", "sqlite:///:memory:"):
        return None
    scheme, separator, rest = url.partition("://")
    if not separator:
        return check_path(url).absolute()
    if scheme == "sqlite":
        # sqlite:///relative and sqlite:////absolute
        if not rest.startswith("/") or rest == "/":
            raise InvalidInput("a SQLite URL looks like sqlite:///folder/file.db")
        return check_path(rest[1:]).absolute()
    if scheme in ("http", "https"):
        raise Unavailable(f"this Rote cannot open {scheme} stores yet; use a file", scheme=scheme)
    raise InvalidInput(
        f"unknown kind of store {scheme}://; use a path, sqlite:/// or postgresql://"
    )

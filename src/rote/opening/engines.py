"""Which engine a URL means, and where the keys of its spaces are kept."""

from pathlib import Path

from rote.contract import KeyRing
from rote.engines import Engine
from rote.engines.sqlite import SqliteEngine
from rote.errors import InvalidInput, Unavailable
from rote.opening.keys import FolderKeys, MemoryKeys
from rote.space.arguments import check_path

SCHEMA_DEFAULT = "rote"
POSTGRES = ("postgresql", "postgres")


def open_engine(
    url: object, *, durability: str, create: bool, schema: str, keys: object
) -> tuple[Engine, KeyRing, str]:
    """The engine, its keys, and the URL in a form that may be shown."""
    if not isinstance(url, str) or not url:
        raise InvalidInput("name a store: a path, :memory:, sqlite:///path or postgresql://…")
    if url.partition("://")[0] in POSTGRES and "://" in url:
        folder = Path.home() / ".rote" / "keys" if keys is None else check_path(keys).absolute()
        engine, place = _postgres(url, durability=durability, create=create, schema=schema)
        return engine, FolderKeys(folder), place
    if keys is not None or schema != SCHEMA_DEFAULT:
        raise InvalidInput("keys and schema are for PostgreSQL; a file's keys are beside it")
    path = _path(url)
    ring = MemoryKeys() if path is None else FolderKeys(path.with_name(path.name + ".keys"))
    return SqliteEngine(path, durability=durability, create=create), ring, url


def _postgres(url: str, *, durability: str, create: bool, schema: str) -> tuple[Engine, str]:
    """The engine, and its URL without user and password."""
    try:
        # Here, because the driver is an extra: without it everything else works.
        from rote.engines.postgres import PostgresEngine  # noqa: PLC0415
    except ImportError as error:
        raise Unavailable(
            "stores on PostgreSQL need its driver: pip install 'rote[postgres]'",
            reason=str(error).splitlines()[0],
        ) from error
    engine = PostgresEngine(url, schema=schema, durability=durability, create=create)
    return engine, engine.place


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

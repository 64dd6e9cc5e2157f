"""The engine that a URL names, and the place of the keys of its spaces."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from rote.client.address import address_of, is_remote
from rote.engines import ASKED_FOR, Engine
from rote.engines.sqlite import SqliteEngine, SqliteLook
from rote.errors import Denied, InvalidInput, RoteError, Unavailable
from rote.space.arguments import check_path

if TYPE_CHECKING:
    from rote.engines.postgres import PostgresEngine

SCHEMA_DEFAULT = "rote"
# A mistyped URL, or the driver's other form, `host=… password=…`. Nobody names a file like that.
_like_postgres = re.compile(
    r"(?i)postgres(ql)?:|(.*\s)?(host|hostaddr|port|user|password|dbname|service)\s*="
).match


@dataclass(frozen=True, slots=True)
class Location:
    """The place of a store and of its keys."""

    shown: str  # its URL, without user and password
    path: Path | None  # its file, if it is one
    keys: Path | None  # the folder of its keys, if they are in one


def locate(url: object, *, keys: object = None) -> Location:
    """Return the place of the store that a URL names; nothing is opened."""
    if not isinstance(url, str) or not url:
        raise InvalidInput(
            "name a store: a path, :memory:, sqlite:///path, postgresql://… or https://…"
        )
    if is_remote(url):
        return Location(address_of(url).shown, None, None)
    if _is_postgres(url):
        folder = Path.home() / ".rote" / "keys" if keys is None else check_path(keys).absolute()
        plain, schema = _schema_of(url)
        named = "" if schema is None else f"?schema={schema}"
        return Location(_postgres().place_of(plain) + named, None, folder)
    if keys is not None:
        raise InvalidInput("keys are for PostgreSQL; a file's keys are beside it")
    path = _path(url)
    return Location(url, path, None if path is None else keys_beside(path))


def keys_beside(path: Path) -> Path:
    """Return the folder of the keys of a store that is a file."""
    return path.with_name(path.name + ".keys")


def open_engine(
    url: str, *, durability: str, create: bool, read_only: bool | None, schema: str, keys: object
) -> tuple[Engine, Location]:
    """Open the engine of a store; with `read_only` None read only where it cannot be written."""
    location = locate(url, keys=keys)
    if _is_postgres(url):
        plain, named = _schema_of(url)
        if named is not None and schema not in (SCHEMA_DEFAULT, named):
            raise InvalidInput(f"the URL names the schema {named!r}, the call {schema!r}")
        looking: Callable[..., Engine] = partial(
            _postgres(), plain, schema=named or schema, durability=durability
        )
        writing: Callable[[], Engine] = partial(looking, create=create)
    elif schema != SCHEMA_DEFAULT:
        raise InvalidInput("schema is for PostgreSQL; name another file instead")
    else:
        looking = partial(_look, location.path)
        writing = partial(SqliteEngine, location.path, durability=durability, create=create)
    if read_only:
        return looking(read_only=ASKED_FOR), location
    return writing() if read_only is False else _as_allowed(writing, looking, location), location


def _look(path: Path | None, *, read_only: str) -> Engine:
    if path is None:
        raise InvalidInput("a store in memory begins empty; there is nothing to open read only")
    return SqliteLook(path, why=read_only)


def _as_allowed(
    writing: Callable[[], Engine], looking: Callable[..., Engine], location: Location
) -> Engine:
    try:
        if location.path is not None:
            _check_rights(location.path)
        engine = writing()
    except (Denied, Unavailable) as error:
        try:
            return looking(read_only=str(error))
        except RoteError:
            raise error from None
    why = engine.why_not_written()
    if why is None:
        return engine
    engine.close()
    return looking(read_only=why)


def _check_rights(path: Path) -> None:
    """Raise Denied when the file or its folder may not be written, before SQLite makes files there.

    Nobody needs to list the folder, so only the file must be readable.
    """
    if path.exists() and not os.access(path, os.R_OK):
        raise Denied(f"{path} may not be read; ask its owner for the right to read it")
    for place in (path, path.parent):
        if place.exists() and not os.access(place, os.W_OK):
            raise Denied(f"{place} may not be written; make the file and its folder writable")


def _is_postgres(url: str) -> bool:
    return url.startswith(("postgresql://", "postgres://"))


def _schema_of(url: str) -> tuple[str, str | None]:
    """Return a URL without its `schema=`, which the driver does not know, and the schema or None."""
    place, _, query = url.partition("?")
    parts = [part for part in query.split("&") if part]
    named = [unquote(part.removeprefix("schema=")) for part in parts if part.startswith("schema=")]
    kept = "&".join(part for part in parts if not part.startswith("schema="))
    return place + (f"?{kept}" if kept else ""), named[-1] if named else None


def _postgres() -> "type[PostgresEngine]":
    try:
        # Imported here, because the driver is an extra: without it everything else works.
        from rote.engines.postgres import PostgresEngine  # noqa: PLC0415
    except ImportError as error:
        raise Unavailable(
            "stores on PostgreSQL need its driver: pip install 'rote[postgres]'",
            reason=str(error).splitlines()[0],
        ) from error
    return PostgresEngine


def _path(url: str) -> Path | None:
    """Return the file that a URL names; None for memory."""
    if url in (":memory:", "sqlite://:memory:", "sqlite:///:memory:"):
        return None
    scheme, separator, rest = url.partition("://")
    if _like_postgres(url):
        # The message does not quote the URL, because it may hold a password.
        raise InvalidInput("a PostgreSQL store is named postgresql://user:password@host/database")
    if not separator:
        return check_path(url).absolute()
    if scheme == "sqlite":
        # sqlite:///relative and sqlite:////absolute
        if not rest.startswith("/") or rest == "/":
            raise InvalidInput("a SQLite URL looks like sqlite:///folder/file.db")
        return check_path(rest[1:]).absolute()
    raise InvalidInput(
        f"unknown kind of store {scheme}://; use a path, sqlite:///, postgresql:// or https://"
    )

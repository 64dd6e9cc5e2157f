"""Refuse a file that is not a Rote store, a store of the future, and a damaged one.

A header that was damaged must not make a store look like another program's file. So a file that has
all of our tables, or our mark in its header, is a store.
"""

import re

import apsw

from rote.engines.sqlite.schema import APPLICATION_ID, FORMAT, INDEXES, TABLES
from rote.errors import Corrupt, InvalidInput, RoteError, Unavailable

# The place of the application id in the header of a SQLite file.
_MARK = slice(68, 72)
_HEADER_BYTES = 100

_made = re.compile(r"create (?:table|(?:unique )?index)(?: if not exists)? (\w+)")
_ADDED_LATER = frozenset(_made.findall(INDEXES))
_NAMES = frozenset(_made.findall(TABLES)) - _ADDED_LATER


def is_store(connection: apsw.Connection) -> bool:
    """Whether the file is a store; False for an empty database, which may become one.

    Raise InvalidInput for another program's file, Unavailable for a newer format, Corrupt for a
    damaged store.
    """
    # In one transaction, since another process may be making the tables just now.
    with connection:
        identity = identity_of(connection)
        made: list[tuple[str, int, str]] = connection.execute(
            "select name, rootpage, sql from sqlite_schema where sql is not null"
        ).fetchall()  # type: ignore[assignment]
    if identity == (0, 0) and not made:
        return False
    names = {name for name, _, _ in made}
    if identity != (APPLICATION_ID, FORMAT):
        raise _refusal(connection.filename, identity, {sql for _, _, sql in made}, names)
    roots = {root for _, root, _ in made}
    if not names >= _NAMES or len(roots) < len(made):
        raise Corrupt(f"{connection.filename}: its tables are damaged; restore a backup")
    return True


def identity_of(connection: apsw.Connection) -> tuple[int, int]:
    return connection.pragma("application_id"), connection.pragma("user_version")


def has_added_indexes(connection: apsw.Connection) -> bool:
    """Whether the file has the indexes that files of an earlier Rote lack."""
    found = connection.execute("select name from sqlite_schema where type = 'index'").fetchall()
    return {name for (name,) in found} >= _ADDED_LATER


def no_database(filename: str, error: apsw.NotADBError, *, vfs: str | None) -> RoteError:
    """Return the error for a file whose header SQLite cannot read."""
    if _header(filename, vfs)[_MARK] == APPLICATION_ID.to_bytes(4, "big"):
        return Corrupt(f"{filename}: its header is damaged; restore a backup", reason=str(error))
    return InvalidInput(f"{filename} is not a Rote store; name another file")


def _refusal(
    filename: str, identity: tuple[int, int], statements: set[str], names: set[str]
) -> RoteError:
    application, format = identity
    is_ours = application == APPLICATION_ID
    # A newer format has other tables, so a number that does not fit to the tables was damaged.
    ours = _normal(TABLES.split(";"))
    if ours - _normal(INDEXES.split(";")) <= _normal(statements) <= ours:
        return Corrupt(f"{filename}: its header is damaged; restore a backup")
    if is_ours and format > FORMAT:
        return Unavailable(
            f"{filename} has format {format}, this Rote knows {FORMAT}; upgrade Rote"
        )
    if is_ours or names >= _NAMES:
        return Corrupt(f"{filename}: its header or its tables are damaged; restore a backup")
    return InvalidInput(f"{filename} is a database, but is not a Rote store; name another file")


def _normal(statements: "set[str] | list[str]") -> set[str]:
    """Return statements as SQLite keeps them, whatever the case of their words."""
    found = {" ".join(text.lower().replace("if not exists ", "").split()) for text in statements}
    return found - {""}


def _header(filename: str, vfs: str | None) -> bytes:
    """Read the header through SQLite: closing a handle of our own would drop its locks."""
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0]
    file = apsw.VFSFile(vfs or "", filename, flags)
    try:
        return file.xRead(min(_HEADER_BYTES, file.xFileSize()), 0)
    finally:
        file.xClose()

"""Refuse a file that is not a Rote store, a store of the future, and a damaged one.

A header that was damaged must not make a store look like another program's file. So a file that has
all of our tables, or our mark in its header, is a store.
"""

import re

import apsw

from rote.engines.sqlite.checksums import is_checked, refuse_unchecked
from rote.engines.sqlite.schema import (
    APPLICATION_ID,
    FORMAT,
    FORMAT_WITH_CHECKSUMS,
    FORMATS,
)
from rote.errors import Corrupt, InvalidInput, RoteError, Unavailable

# The place of the application id in the header of a SQLite file.
_MARK = slice(68, 72)
_HEADER_BYTES = 100

_IF_MISSING = "if not exists "
_made = re.compile(rf"create (?:table|view|(?:unique )?index) (?:{_IF_MISSING})?(\w+)")
_NAMES = [frozenset(_made.findall(statements)) for statements in FORMATS]


def format_of(connection: apsw.Connection) -> int:
    """Return the format of a store; 0 of an empty database, which may become one.

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
        return 0
    application, format = identity
    names = {name for name, _, _ in made}
    if application != APPLICATION_ID or not 0 < format <= FORMAT:
        raise _refusal(connection.filename, identity, {sql for _, _, sql in made}, names)
    missing = frozenset().union(*_NAMES[:format]) - names
    too_new = frozenset().union(*_NAMES[format:]) & names - _OPTIONAL
    roots = {root for _, root, _ in made}
    if missing or too_new or len(roots) < len(made):
        raise Corrupt(f"{connection.filename}: its tables are damaged; restore a backup")
    if format >= FORMAT_WITH_CHECKSUMS:
        refuse_unchecked(connection)
    elif is_checked(connection):
        raise Corrupt(f"{connection.filename}: its header is damaged; restore a backup")
    return format


def identity_of(connection: apsw.Connection) -> tuple[int, int]:
    return connection.pragma("application_id"), connection.pragma("user_version")


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
    if _fit_a_format(statements):
        return Corrupt(f"{filename}: its header is damaged; restore a backup")
    if is_ours and format > FORMAT:
        return Unavailable(
            f"{filename} has format {format}, this Rote knows {FORMAT}; upgrade Rote"
        )
    if is_ours or names >= _NAMES[0]:
        return Corrupt(f"{filename}: its header or its tables are damaged; restore a backup")
    return InvalidInput(f"{filename} is a database, but is not a Rote store; name another file")


def _fit_a_format(statements: set[str]) -> bool:
    """Whether the tables are those of some format and nothing else."""
    ours: set[str] = set()
    for made in FORMATS:
        ours |= _normal(made.split(";"))
        if ours <= _normal(statements) <= ours | _OPTIONAL_STATEMENTS:
            return True
    return False


def _normal(statements: "set[str] | list[str]") -> set[str]:
    """Return statements as SQLite keeps them, whatever the case of their words."""
    found = {" ".join(text.lower().replace(_IF_MISSING, "").split()) for text in statements}
    return found - {""}


# Made by a format for files that lack it: others have had it before.
_OPTIONAL_STATEMENTS = _normal(
    [made for statements in FORMATS for made in statements.split(";") if _IF_MISSING in made]
)
_OPTIONAL = frozenset(_made.findall("\n".join(_OPTIONAL_STATEMENTS)))


def _header(filename: str, vfs: str | None) -> bytes:
    """Read the header through SQLite: closing a handle of our own would drop its locks."""
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0]
    file = apsw.VFSFile(vfs or "", filename, flags)
    try:
        return file.xRead(min(_HEADER_BYTES, file.xFileSize()), 0)
    finally:
        file.xClose()

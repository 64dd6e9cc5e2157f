"""The driver's errors become Rote's errors here, once, at the engine's edge.

Every message is one line, names the server without user and password, and says what to do.
"""

import re

import psycopg

from rote.engines.protocol import Contended
from rote.errors import (
    Busy,
    Corrupt,
    Denied,
    InternalError,
    InvalidInput,
    NotFound,
    RoteError,
    Unavailable,
    disk_full,
)

_DISK_FULL = "53100"

# By SQLSTATE or its class, the longer first: https://www.postgresql.org/docs/current/errcodes-appendix.html
_BY_STATE: dict[str, tuple[type[RoteError], str]] = {
    "08": (Unavailable, "the connection was lost; it is made anew when the server is back"),
    "22021": (InvalidInput, "PostgreSQL cannot hold a NUL character in text; leave it out"),
    "22P05": (InvalidInput, "the connection does not speak UTF8; it must, as must the database"),
    "23": (Corrupt, "the rows there contradict the log; run `rote verify`"),
    "25006": (
        Unavailable,
        "this server only reads; name the primary, or add target_session_attrs=read-write",
    ),
    "3F000": (Unavailable, "the schema is gone; open the store again"),
    "42P01": (Unavailable, "the tables are gone; open the store again"),
    "42501": (Denied, "{reason}; grant that right, docs/postgres.md lists those that are needed"),
    "53100": (Unavailable, "the server's disk is full"),
    "53300": (Busy, "the server has no connection left for this user; close some, or allow more"),
    "53": (Unavailable, "the server ran out of a resource; free some and try again"),
    "54": (
        InvalidInput,
        "a key or a term is longer than PostgreSQL's indexes take (about 2,700 bytes); shorten it",
    ),
    "55P03": (Busy, "others hold the space; try again"),
    "57014": (Busy, "it took too long and was given up; try again"),
    "57P": (Unavailable, "the server is stopping or starting; try again when it is back"),
    "58": (Unavailable, "the server's system failed; look at its log"),
    "XX001": (Corrupt, "the server found damaged data; restore a backup"),
    "XX002": (Corrupt, "the server found a damaged index; rebuild it with reindex"),
}

# While a connection is being made there is no SQLSTATE, so the server's words have to do.
_BY_WORDS: tuple[tuple[str, type[RoteError], str], ...] = (
    (
        "starting up|recovery mode|not (yet )?accepting",
        Unavailable,
        "the server is starting; try again in a moment",
    ),
    ("shutting down", Unavailable, "the server is stopping; try again when it is back"),
    (
        "too many|connection slots",
        Busy,
        "the server has no connection left for this user; close some, or allow more",
    ),
    ("SSL|certificate", Unavailable, "server and URL do not agree on encryption; check sslmode"),
    ("translate host name|not known", Unavailable, "there is no such host; check the URL"),
    ("no password supplied", Denied, "the server asks for a password; use PGPASSFILE or the URL"),
    ("authentication failed", Denied, "wrong user or password; check the URL"),
    (r"pg_hba\.conf", Denied, "the server lets no such user in from here; see its pg_hba.conf"),
    ('database ".*" does not exist', NotFound, "there is no such database; make it with createdb"),
    ('role ".*" does not exist', Denied, "there is no such user; create the role first"),
    ("permission denied", Denied, "the user may not connect; grant it the right to"),
    ("read-only", Unavailable, "every server that answered only reads; name the primary"),
)


# Messages of the driver and its library about an option of the URL; they name only known options.
_wrong_option = re.compile(
    r"""invalid (\w+) value: |for connection option "(\w+)"|bad value for (\w+)|invalid (port) number"""
).search


def translate(error: psycopg.Error, *, place: str) -> RoteError:
    """Return the error that a caller sees for an error of a statement."""
    state = error.sqlstate or ""
    if state in ("40001", "40P01"):
        return Contended()
    for size in (5, 3, 2):
        if state[:size] in _BY_STATE and len(state) == 5:
            kind, advice = _BY_STATE[state[:size]]
            reason = _first_line(error)
            if state == _DISK_FULL:
                return disk_full(place, place)
            return kind(f"{place}: {advice.format(reason=reason)}", reason=reason, sqlstate=state)
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and not state:
        return Unavailable(f"{place}: {_BY_STATE['08'][1]}", reason=_first_line(error))
    if isinstance(error, psycopg.DataError) and not state:
        return InvalidInput(f"{place}: {_BY_STATE['22021'][1]}", reason=_first_line(error))
    return InternalError(f"unexpected answer from {place}: {_first_line(error)}", sqlstate=state)


def translate_connecting(error: psycopg.Error, *, place: str) -> RoteError:
    """Return the error that a caller sees when no connection can be made."""
    words = str(error)
    if option := _wrong_option(words):
        return InvalidInput(
            f"{place}: the option {option[option.lastindex or 0]} has a wrong value"
        )
    for pattern, kind, advice in _BY_WORDS:
        if re.search(pattern, words):
            return kind(f"{place}: {advice}", reason=_why(words))
    return Unavailable(
        f"{place}: no server answers; start it, or check host and port", reason=_why(words)
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _why(words: str) -> str:
    """Return the words of the server or the network, without the user's name."""
    said = [part for part in re.split(r"FATAL: +|failed: |: error: ", words) if part.strip()]
    lines = (said[-1] if said else words).strip().splitlines()
    return re.sub(r'(user|role) ".*?"', r'\1 "…"', lines[0] if lines else "")

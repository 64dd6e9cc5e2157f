"""The sqlite adapter: statements on the allowed tables of one file, by the verbs of a host."""

import os
import stat
import threading
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from rote.errors import (
    Busy,
    Corrupt,
    Denied,
    InvalidInput,
    LimitExceeded,
    NotFound,
    RoteError,
    Unavailable,
    disk_full,
    system_failure,
)
from rote.tiers.grants import as_sqlite_compares
from rote.tiers.options import checked_options
from rote.tiers.sqlite.process import Worker, too_late
from rote.tiers.verbs import Parameter, Verb, table
from rote.values import Json, decode
from rote.values.limits import INTEGER_MAX, INTEGER_MIN, LEASE_SECONDS_MAX
from rote.values.tier_limits import (
    HOST_NAMES_MAX,
    SQL_BYTES_MAX,
    SQL_MEMORY_BYTES_MAX,
    SQL_MEMORY_BYTES_MIN,
    SQL_REPLY_BYTES_MORE,
    SQL_RESULT_BYTES_MAX,
    SQL_ROWS_MAX,
    SQL_SECONDS_MAX,
)

_EVERY = "*"
_ARGUMENTS = (
    Parameter("sql", {"type": "string"}),
    Parameter(
        "params",
        {
            "type": ["array", "object", "null"],
            "description": "a list, or an object, of null, bool, number, string"
            ' and {"$bytes": base64}',
        },
        None,
        check=lambda given: _parameters(given) is not None,
    ),
)
VERBS = table(
    [
        Verb("query", _ARGUMENTS, writes=False),
        Verb("execute", _ARGUMENTS, writes=True, destructive=True, switch="allow_write"),
    ]
)


def _are_names(value: Json) -> bool:
    return len(value) <= HOST_NAMES_MAX and all(type(name) is str and name for name in value)


_COUNT = {"type": "integer", "minimum": 0}
OPTIONS = (
    Parameter("path", {"type": "string", "minLength": 1}),
    Parameter(
        "allow_tables",
        {"type": "array", "description": "a list of names of tables; '*' stands for all"},
        check=_are_names,
    ),
    Parameter("create", {"type": "boolean"}, False),
    Parameter("allow_write", {"type": "boolean"}, False),
    Parameter("max_rows", _COUNT, SQL_ROWS_MAX),
    Parameter("max_result_bytes", _COUNT, SQL_RESULT_BYTES_MAX),
    Parameter("max_sql_bytes", _COUNT, SQL_BYTES_MAX),
    Parameter(
        "timeout_seconds",
        {"type": "number", "minimum": 0, "maximum": LEASE_SECONDS_MAX},
        SQL_SECONDS_MAX,
    ),
    Parameter(
        "max_memory_bytes",
        {"type": "integer", "minimum": SQL_MEMORY_BYTES_MIN},
        SQL_MEMORY_BYTES_MAX,
    ),
)
_INPUT = ("bad_arguments", "one_statement", "returns_rows", "sql_failed", "not_text")


def open_sqlite(options: Mapping[str, Any], *, store_path: Path | None = None) -> "Tables":
    """Return the tables of a file; NotFound when it is missing and not to be made.

    store_path  the file of the host's own store, which is none of these
    """
    taken = checked_options("sqlite", OPTIONS, options)
    path = os.path.abspath(taken["path"])  # noqa: PTH100 - links stay what they are
    _check_file(path, create=taken["create"], store_path=store_path)
    return Tables(path, taken)


class Tables:
    """Any thread may call it; statements take turns."""

    name = "sqlite"
    verbs: Mapping[str, Verb] = VERBS

    def __init__(self, path: str, bounds: Mapping[str, Json]) -> None:
        self.switches: Mapping[str, bool] = {"allow_write": bool(bounds["allow_write"])}
        self._bounds = bounds
        self._allowed = _names(bounds["allow_tables"])
        self._worker = Worker(
            {
                "path": path,
                "max_sql_bytes": bounds["max_sql_bytes"],
                "max_memory_bytes": bounds["max_memory_bytes"],
            },
            seconds_max=bounds["timeout_seconds"],
            reply_bytes_max=bounds["max_result_bytes"] + SQL_REPLY_BYTES_MORE,
        )
        self._turn = threading.Lock()
        self._is_closed = False

    def call(
        self, verb: str, arguments: Mapping[str, Json], granted: Mapping[str, Json], /
    ) -> Json:
        request = {
            "verb": verb,
            "sql": self._checked_text(arguments["sql"]),
            "params": _parameters(arguments["params"]) or None,
            "allowed": self._allowed_by(granted),
            "max_rows": self._bounds["max_rows"],
            "max_result_bytes": self._bounds["max_result_bytes"],
        }
        reply = self._ask(request)
        try:
            told = decode(reply[1:], size_bytes_max=len(reply))
        except RoteError as error:
            raise Unavailable("the process for SQLite sent no JSON") from error
        if reply[:1] == b"=":
            return told
        raise self._told(told)

    def close(self) -> None:
        with self._turn:
            self._is_closed = True
            self._worker.close()

    def _ask(self, request: Mapping[str, Any]) -> bytes:
        """Return the worker's reply. The wait for other threads counts; a worker's start does not."""
        seconds = self._bounds["timeout_seconds"]
        deadline = monotonic() + seconds
        if not self._turn.acquire(timeout=seconds):
            raise Busy("other threads hold the worker of SQLite; try again")
        try:
            left = max(deadline - monotonic(), 0)
            if self._is_closed:
                raise Unavailable("the host is closed; open another one")
            self._worker.start()
            return self._worker.ask(request, left)
        finally:
            self._turn.release()

    def _checked_text(self, sql: str) -> str:
        try:
            size = len(sql.encode())
        except UnicodeEncodeError:
            raise InvalidInput("the statement holds a lone surrogate", code="not_text") from None
        if size > self._bounds["max_sql_bytes"]:
            limit = self._bounds["max_sql_bytes"]
            raise LimitExceeded("max_sql_bytes: the statement in bytes", size=size, limit=limit)
        return sql

    def _allowed_by(self, granted: Mapping[str, Json]) -> list[str] | None:
        """Return the tables that options and grants both allow; None: all."""
        narrowed = _names(granted["allow_tables"]) if "allow_tables" in granted else None
        if self._allowed is None or narrowed is None:
            both = self._allowed if narrowed is None else narrowed
        else:
            both = self._allowed & narrowed
        return None if both is None else sorted(both)

    def _told(self, error: dict[str, Any]) -> RoteError:
        """Return the error that the worker has told of."""
        code, message = error["code"], f"sqlite: {error.get('message', '')}"
        if code == "limit":
            return self._limit(error)
        if code == "sql_denied":
            return Denied(message, code=code)
        if code in _INPUT:
            return InvalidInput(message, code=code)
        if code == "busy":
            return Busy("sqlite: others hold the database; try again")
        if code == "corrupt":
            return Corrupt(f"{message}; restore a backup of the database")
        return disk_full("sqlite", "") if code == "disk_full" else Unavailable(message)

    def _limit(self, error: dict[str, Any]) -> RoteError:
        limit = error["limit"]
        if limit == "timeout_seconds":
            return too_late(self._bounds[limit])
        bound = self._bounds[limit]
        if limit == "max_memory_bytes":
            return LimitExceeded(f"{limit}: the memory in bytes", size=bound, limit=bound)
        return LimitExceeded(
            f"{limit}: {error['message']}",
            size=error["size"],
            limit=bound,
            advice=f"ask for {'fewer rows' if limit == 'max_rows' else 'less'}, or raise {limit}",
        )


def _check_file(path: str, *, create: bool, store_path: Path | None) -> None:
    try:
        if create and not Path(path).exists():
            # An empty file is an empty database.
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))
        found = os.stat(path)  # noqa: PTH116
        is_store = store_path is not None and os.path.samestat(found, store_path.stat())
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(
            f"the database {path!r} is not there; make it first, or with the option create",
            path=path,
        ) from None
    except ValueError:
        raise InvalidInput(f"{path!r} is no path", path=path) from None
    except OSError as error:
        raise system_failure(f"cannot open {path}", error, path) from error
    if not stat.S_ISREG(found.st_mode):
        raise InvalidInput(f"{path!r} is no file; name a database", path=path)
    if is_store:
        raise InvalidInput(f"{path!r} is the store's own file; name another database", path=path)


def _names(tables: Json) -> frozenset[str] | None:
    """Return names as SQLite compares them; None for all tables."""
    return None if _EVERY in tables else frozenset(map(as_sqlite_compares, tables))


def _parameters(given: Json) -> Any:
    """Return parameters as the driver takes them; None when one is of no type that it takes."""
    if given is None:
        return ()
    items = list(given.items()) if type(given) is dict else list(enumerate(given))
    taken = {name: _parameter(value) for name, value in items}
    if _BAD in taken.values():
        return None
    return taken if type(given) is dict else list(taken.values())


_BAD = object()


def _parameter(value: Json) -> Any:
    if type(value) is int:
        return value if INTEGER_MIN <= value <= INTEGER_MAX else _BAD
    if value is None or type(value) in (bool, float, str):
        return value
    if type(value) is not dict or len(value) != 1:
        return _BAD
    ((kind, text),) = value.items()
    if kind == "$float" and text in ("inf", "-inf"):
        return float(text)
    if kind == "$bytes" and type(text) is str:
        try:
            return b64decode(text, validate=True)
        except (NotBase64, ValueError):
            return _BAD
    return _BAD

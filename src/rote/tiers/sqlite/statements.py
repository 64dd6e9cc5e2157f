"""One connection to the file of a sqlite adapter, on which one statement at a time is run."""

from binascii import b2a_base64
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from json.encoder import encode_basestring
from math import isinf
from time import monotonic
from typing import Any

import apsw

from rote.tiers.sqlite.judge import READING, WRITING, Judge, Refused, Step
from rote.tiers.sqlite.words import first_word, is_blank

# The application id in the header of a store's file.
STORE_ID = 0x526F7465
# How often a statement is begun again when others have changed the schema in between.
_ATTEMPTS_MAX = 3
# Steps of the engine between two looks at the time; some ten microseconds.
_STEPS_BETWEEN_LOOKS = 5_000
# Our own statements are shorter.
_OWN_SQL_BYTES_MAX = 10_000
# A rowid that nobody has: then nothing was inserted.
_NO_ROWID = -(2**63)
_SETTINGS = {
    "synchronous": "extra",
    "temp_store": "memory",
    "mmap_size": 0,
    "trusted_schema": 0,
    "cell_size_check": 1,
    "foreign_keys": 0,
}


class PastLimit(Exception):
    """A statement that was stopped by a bound."""

    def __init__(self, limit: str, what: str, size: int) -> None:
        super().__init__(what)
        self.limit = limit
        self.what = what
        self.size = size


def open_file(settings: Mapping[str, Any], *, seconds: float) -> apsw.Connection:
    """Open the file `path` for the statements of callers; others may hold it for so many seconds."""
    # Read and write, so that what a killed writer has left can be rolled back.
    connection = apsw.Connection(settings["path"], flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(int(seconds * 1000))
    if connection.pragma("application_id") == STORE_ID:
        connection.close()
        raise Refused(
            "sql_denied", "the file is a store of Rote; its tables are not for statements"
        )
    harden(connection)
    connection.limit(
        apsw.SQLITE_LIMIT_SQL_LENGTH, max(settings["max_sql_bytes"], _OWN_SQL_BYTES_MAX)
    )
    return connection


def harden(connection: apsw.Connection) -> None:
    """Leave nothing but plain tables, views and JSON to be used on a connection."""
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    # A plan that looks at parameters (`name LIKE ?`) would be made again after it was judged.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
    connection.limit(apsw.SQLITE_LIMIT_WORKER_THREADS, 0)
    connection.drop_modules(None)
    for name, value in _SETTINGS.items():
        connection.pragma(name, value)


class Statements:
    """Runs the statements of callers: judged, bounded, and one in a text."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._judge = Judge(connection)
        self._deadline = 0.0
        self._is_query_only = False
        self._columns: list[str] = []  # of the statement
        connection.set_progress_handler(self._is_late, _STEPS_BETWEEN_LOOKS)

    def query(
        self,
        sql: str,
        params: Any,
        allowed: frozenset[str] | None,
        *,
        seconds: float,
        max_rows: int,
        max_result_bytes: int,
    ) -> str:
        """Return the JSON text of the columns and rows of a statement that only reads."""
        self._begin(seconds, query_only=True)
        for attempt in range(_ATTEMPTS_MAX):
            version = self._schema_version()
            try:
                with self._judged(sql, params, allowed, READING) as cursor:
                    cursor.execute(sql, params, can_cache=False)
                    return _result(cursor, self._columns, max_rows, max_result_bytes)
            except Refused:
                # Others may have changed the schema since it was prepared.
                if attempt == _ATTEMPTS_MAX - 1 or version == self._schema_version():
                    raise
        raise AssertionError  # the last attempt returns or raises

    def execute(
        self,
        sql: str,
        params: Any,
        allowed: frozenset[str] | None,
        *,
        seconds: float,
        committing: Callable[[], None],
    ) -> str:
        """Run a statement that writes, as one transaction; return the JSON text of its counts.

        committing  is told before the transaction is committed; from then on it may be durable
        """
        self._begin(seconds, query_only=False)
        connection = self._connection
        connection.execute("begin immediate")
        try:
            self._schema_version()
            connection.set_last_insert_rowid(_NO_ROWID)
            with self._judged(sql, params, allowed, WRITING) as cursor:
                cursor.execute(sql, params, can_cache=False)
            is_definition = first_word(sql) in ("create", "drop")
            changed = 0 if is_definition else connection.changes()
            rowid = connection.last_insert_rowid()
            committing()
            connection.execute("commit")
        finally:
            if connection.in_transaction:
                connection.execute("rollback")
        shown = "null" if rowid == _NO_ROWID or is_definition else str(rowid)
        return f'{{"rows_affected":{changed},"lastrowid":{shown}}}'

    def _begin(self, seconds: float, *, query_only: bool) -> None:
        self._deadline = monotonic() + seconds
        self._connection.set_busy_timeout(max(int(seconds * 1000), 0))
        if query_only != self._is_query_only:
            self._connection.pragma("query_only", int(query_only))
            self._is_query_only = query_only

    def _schema_version(self) -> int:
        """Return the version of the schema; the engine looks whether it knows that one."""
        self._connection.execute("select 1 from main.sqlite_schema limit 1").get  # noqa: B018
        return int(self._connection.pragma("schema_version"))

    def _is_late(self) -> bool:
        return monotonic() > self._deadline

    @contextmanager
    def _judged(
        self, sql: str, params: Any, allowed: frozenset[str] | None, words: frozenset[str]
    ) -> Iterator[apsw.Cursor]:
        """Yield a cursor for one statement, which is judged before its first step."""
        word = first_word(sql)
        if not word and is_blank(sql):
            raise Refused("sql_failed", "there is no statement")

        def trace(cursor: apsw.Cursor, text: str, bindings: object) -> bool:
            if self._judge.is_preparing:
                _check_one(sql, text)
                _check_names(cursor, params)
                self._judge.decide(sql, word, allowed, lambda: self._program(sql, params))
                # A result without rows does not tell its columns afterwards.
                self._columns = [name for name, _ in cursor.get_description()]
                _check_kind(cursor, word, words, has_rows=bool(self._columns))
            elif self._judge.is_stepping and not is_blank(text):
                raise Refused("one_statement", "there is a second statement; send one at a time")
            return True

        cursor = self._connection.cursor()
        cursor.exec_trace = trace
        self._judge.begin()
        try:
            yield cursor
        except (apsw.Error, KeyError) as error:
            if self._judge.has_denied or isinstance(error, apsw.AuthError):
                raise self._judge.refusal() from None
            if isinstance(error, apsw.BindingsError | KeyError):
                raise _unfit(params) from None
            raise
        finally:
            self._judge.end()
            cursor.close(True)

    def _program(self, sql: str, params: Any) -> list[Step]:
        """Return the steps of a statement, which is not run.

        A step with a literal of bytes may not be text, and is passed by: it opens nothing.
        """
        # A program that is kept while the schema changes would be shown from freed memory.
        rows: Any = self._connection.execute(sql, params, can_cache=False, explain=1)
        steps: list[Step] = []
        while True:
            try:
                row = next(rows)
            except StopIteration:
                return steps
            except UnicodeDecodeError:
                continue
            steps.append(Step(row[1], (0, row[2], row[3], row[4], 0, row[6])))


def _check_one(sql: str, text: str) -> None:
    if not sql.startswith(text) or not is_blank(sql[len(text) :]):
        raise Refused("one_statement", "there is a second statement; send one at a time")


def _check_names(cursor: apsw.Cursor, params: Any) -> None:
    if isinstance(params, dict):
        surplus = sorted(set(params) - set(cursor.bindings_names))
        if surplus:
            raise Refused("bad_arguments", f"the statement has no parameter {surplus[0]!r:.80}")


def _unfit(params: Any) -> Refused:
    """Return the refusal of parameters that are too many or too few."""
    if not params:
        words = "the statement has parameters, and params gives no values for them"
    else:
        words = "params does not give one value for each parameter of the statement"
    return Refused("bad_arguments", f"{words}; give a list for ?, an object for :name")


def _check_kind(cursor: apsw.Cursor, word: str, words: frozenset[str], *, has_rows: bool) -> None:
    """Refuse statements of another kind, of which the engine may ask nothing at all."""
    if cursor.is_explain or word not in READING | WRITING:
        raise Refused("sql_denied", f"a statement that begins with {word.upper()} is not allowed")
    if words is WRITING and has_rows:
        raise Refused("returns_rows", "the statement returns rows; send it to query")
    if words is READING and (not cursor.is_readonly or word not in READING):
        raise Refused("sql_denied", "query only reads; send the statement to execute")


def _result(cursor: apsw.Cursor, names: list[str], max_rows: int, max_result_bytes: int) -> str:
    """Return the JSON text of a result. It never grows far beyond its bound."""
    columns = _distinct(names)
    keys = [encode_basestring(name) + ":" for name in columns]
    head = '{"columns":[' + ",".join(map(encode_basestring, columns)) + '],"rows":['
    size = len(head.encode()) + len("]}") - 1  # a row brings a comma, but for the first
    rows: list[str] = []
    for row in cursor:
        if len(rows) == max_rows:
            raise PastLimit("max_rows", "the number of rows", max_rows + 1)
        values: Any = zip(keys, row, strict=True)
        text = "{" + ",".join(key + _json(value) for key, value in values) + "}"
        size += len(text.encode()) + 1
        if size > max_result_bytes:
            break
        rows.append(text)
    if size > max_result_bytes:
        raise PastLimit("max_result_bytes", "the result in bytes", size)
    return head + ",".join(rows) + "]}"


def _distinct(names: list[str]) -> list[str]:
    """Return the names of columns; one that was there before gets _2, _3 and so on."""
    counts: dict[str, int] = {}
    for name in names:
        taken = name
        while taken in counts:
            counts[name] += 1
            taken = f"{name}_{counts[name]}"
        counts[taken] = 1
    return list(counts)


def _json(value: Any) -> str:
    if isinstance(value, str):
        return encode_basestring(value)
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return f'{{"$bytes":"{b2a_base64(value, newline=False).decode()}"}}'
    if isinstance(value, float) and isinf(value):
        return f'{{"$float":"{value}"}}'
    return repr(value)

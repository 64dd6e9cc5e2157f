"""The judge of statements: what one touches, told by the engine in two ways, and whether it may.

    prepare      SQLite asks the authorizer about everything that the statement does. What is never
                 allowed is denied at once, because some of it is done while it is prepared. The rest
                 is noted: a read may come before what tells whose read it is.
    judge        after prepare and before the first step: every table that was noted, and every table
                 that the statement's program opens, must be allowed
    step         everything is denied. SQLite asks again only when it prepares the statement once
                 more, because others have changed the schema, and when a statement runs another one.

The program is looked at because the authorizer is not asked about everything (the columns of NATURAL
JOIN and USING), and is asked too much: a read without a column may be one of a common table
expression that has the name of a table. Views need no entry: what they read is judged.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import apsw

# Functions of https://sqlite.org/lang.html: core scalar but for load_extension, aggregate, window,
# date and time, math, JSON.
_FUNCTION_NAMES = """
    abs changes char coalesce concat concat_ws format glob hex if ifnull iif instr last_insert_rowid
    length like likelihood likely lower ltrim max min nullif octet_length printf quote random
    randomblob replace round rtrim sign soundex sqlite_compileoption_get sqlite_compileoption_used
    sqlite_offset sqlite_source_id sqlite_version substr substring total_changes trim typeof unhex
    unicode unistr unistr_quote unlikely upper zeroblob
    avg count group_concat string_agg sum total median percentile percentile_cont percentile_disc
    row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value
    date time datetime julianday unixepoch strftime timediff current_date current_time
    current_timestamp
    acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 log2
    mod pi pow power radians sin sinh sqrt tan tanh trunc
    json json_array json_array_insert json_array_length json_error_position json_extract
    json_group_array json_group_object json_insert json_object json_patch json_pretty json_quote
    json_remove json_replace json_set json_type json_valid jsonb jsonb_array jsonb_array_insert
    jsonb_extract jsonb_group_array jsonb_group_object jsonb_insert jsonb_object jsonb_patch
    jsonb_remove jsonb_replace jsonb_set -> ->>
"""
FUNCTIONS = frozenset(_FUNCTION_NAMES.split())
TABLE_FUNCTIONS = frozenset({"json_each", "json_tree"})
READING = frozenset({"select", "values", "with"})
WRITING = frozenset({"insert", "replace", "update", "delete", "create", "drop", "with"})

_HARMLESS = frozenset({apsw.SQLITE_SELECT, apsw.SQLITE_RECURSIVE})
# For operations that touch a table, which of their two names is the table's.
_TABLE_PLACES = {
    apsw.SQLITE_READ: 0,
    apsw.SQLITE_INSERT: 0,
    apsw.SQLITE_UPDATE: 0,
    apsw.SQLITE_DELETE: 0,
    apsw.SQLITE_CREATE_TABLE: 0,
    apsw.SQLITE_DROP_TABLE: 0,
    apsw.SQLITE_CREATE_INDEX: 1,
    apsw.SQLITE_DROP_INDEX: 1,
    apsw.SQLITE_DROP_TRIGGER: 1,  # together with its table
}
_SMALL = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_SCHEMA_ROOT = 1
_SCHEMA_NAMES = {"sqlite_schema": "sqlite_master", "sqlite_temp_schema": "sqlite_temp_master"}
# For opcodes that touch a table or an index, the places of the root page and of the database.
_ROOT_PLACES = {
    "OpenRead": (2, 3),
    "OpenWrite": (2, 3),
    "ReopenIdx": (2, 3),
    "Clear": (1, 2),
    "Destroy": (1, 3),
}
# A flag of these: the root page is in a register, because the table is being made.
_ROOT_IN_REGISTER = 0x10
_OWN, _PREPARING, _STEPPING = range(3)


class Refused(Exception):
    """A statement that is not run, with the code of the error that its caller gets."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Asked(NamedTuple):
    """One question of the authorizer."""

    operation: int
    names: tuple[str | None, str | None]
    schema: str | None
    within: str | None  # the trigger or the view that asks for it


class Step(NamedTuple):
    """One step of a statement's program."""

    opcode: str
    operands: tuple[int, int, int, int, int, int]  # by their numbers, which begin with 1


class Judge:
    """Judges the statements of one connection, one at a time."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._phase = _OWN
        self._asked: list[_Asked] = []
        self._refusal = ""
        # The tables by root page, as of a version of the schema.
        self._roots: tuple[int, dict[int, str]] = (-1, {})
        connection.authorizer = self.note

    def begin(self) -> None:
        """Expect the statement of a caller; until `end` the engine's questions are about that."""
        self._phase, self._asked, self._refusal = _PREPARING, [], ""

    def end(self) -> None:
        """Expect our own statements."""
        self._phase = _OWN

    @property
    def is_stepping(self) -> bool:
        return self._phase == _STEPPING

    @property
    def is_preparing(self) -> bool:
        return self._phase == _PREPARING

    @property
    def has_denied(self) -> bool:
        """Whether something was denied while the statement was prepared."""
        return bool(self._refusal)

    def refusal(self) -> Refused:
        """Return the error for a statement that the engine gave up because of `note`."""
        return _denied(self._refusal or "what it does while it runs is not allowed")

    def note(
        self, operation: int, first: str | None, second: str | None, schema: str | None,
        within: str | None, /
    ) -> int:  # fmt: skip
        """Answer a question of the engine."""
        if self._phase == _OWN or operation in _HARMLESS:
            return apsw.SQLITE_DENY if self._phase == _STEPPING else apsw.SQLITE_OK
        if self._phase == _PREPARING:
            if operation in _TABLE_PLACES or operation == apsw.SQLITE_REINDEX:
                self._asked.append(_Asked(operation, (first, second), schema, within))
                return apsw.SQLITE_OK
            if operation == apsw.SQLITE_FUNCTION:
                if second is not None and second.lower() in FUNCTIONS:
                    return apsw.SQLITE_OK
                self._refusal = f"the function {second} is not allowed"
            else:
                name = str(apsw.mapping_authorizer_function[operation])
                word = name.removeprefix("SQLITE_").replace("_", " ")
                self._refusal = f"{word} is not allowed"
        return apsw.SQLITE_DENY

    def decide(
        self, sql: str, word: str, allowed: frozenset[str] | None, program: Callable[[], list[Step]]
    ) -> None:
        """Raise Refused unless everything that the prepared statement touches is allowed.

        word     the statement's first one
        allowed  the tables, in small letters; None: all
        program  gives the steps of the statement
        """
        if self.has_denied:
            raise self.refusal()
        noted, self._asked = self._asked, []
        steps = program()  # prepared once more, under the same rules
        self._phase, self._asked = _OWN, noted
        doubtful: list[str] = []
        for asked in noted:
            name = asked.names[_TABLE_PLACES.get(asked.operation, 0)] or ""
            if not self._is_allowed(asked, word, allowed):
                if not _may_be_no_table(asked):
                    raise _not_allowed(name)
                doubtful.append(name)
        self.check_program(steps, word, allowed, doubtful)
        if any(step.opcode == "VOpen" for step in steps) and not self._has_table_function(sql):
            raise _denied("a virtual table is not allowed")
        self._phase = _STEPPING

    def check_program(
        self, steps: list[Step], word: str, allowed: frozenset[str] | None, doubtful: list[str]
    ) -> None:
        """Raise Refused when a statement opens a table that is not allowed.

        doubtful  names that are common table expressions, unless something of that name is opened
        """
        tables = self._tables_by_root()
        opened = _opened(steps, tables)
        for name, opcodes in opened.items():
            if not _may_open(name, opcodes, word, allowed):
                raise _not_allowed(name)
        has_virtual = any(step.opcode == "VOpen" for step in steps)
        for name in doubtful:
            table = _SCHEMA_NAMES.get(folded(name), folded(name))
            is_virtual = has_virtual and table not in tables.values() and self._is_there(name)
            if table in opened or is_virtual:
                raise _not_allowed(name)

    def _is_allowed(self, asked: _Asked, word: str, allowed: frozenset[str] | None) -> bool:
        if asked.operation == apsw.SQLITE_REINDEX:
            return word == "create"  # REINDEX itself begins with another word
        if asked.schema not in (None, "main"):
            return False
        name = folded(asked.names[_TABLE_PLACES[asked.operation]] or "")
        if asked.operation == apsw.SQLITE_DROP_TRIGGER:
            return self._has_asked(apsw.SQLITE_DROP_TABLE, name)
        if name.startswith("sqlite_"):
            return _is_part_of(word, name, asked)
        if asked.operation != apsw.SQLITE_READ and self._is_part_of_virtual(name):
            return False
        if allowed is not None and name in allowed:
            return True
        if asked.operation == apsw.SQLITE_CREATE_TABLE:
            return allowed is None
        kind = self._kind(name)
        if kind is None:
            is_new = allowed is None and self._has_asked(apsw.SQLITE_CREATE_TABLE, name)
            return is_new or (asked.operation == apsw.SQLITE_READ and name in TABLE_FUNCTIONS)
        return kind == "view" or allowed is None

    def _has_table_function(self, sql: str) -> bool:
        """Whether a statement has one that is allowed, in its text or in a view."""
        return any(name in sql.lower() for name in TABLE_FUNCTIONS) or any(
            self._has_asked(apsw.SQLITE_READ, name) for name in TABLE_FUNCTIONS
        )

    def _has_asked(self, operation: int, name: str) -> bool:
        return any(
            asked.operation == operation and folded(asked.names[0] or "") == name
            for asked in self._asked
        )

    def _kind(self, name: str) -> str | None:
        found = self._connection.execute(
            "select type from main.sqlite_schema"
            " where name = ?1 collate nocase and type in ('table', 'view')",
            (name,),
        ).get
        return None if found is None else str(found)

    def _is_part_of_virtual(self, name: str) -> bool:
        """Whether a virtual table keeps its rows under a name; writes there would damage it."""
        found = self._connection.execute(
            "select 1 from main.sqlite_schema"
            " where name = ?1 collate nocase and type = 'table' and rootpage = 0",
            (name.rpartition("_")[0],),
        ).get
        return found is not None

    def _tables_by_root(self) -> dict[int, str]:
        """Return the table, in small letters, that each root page belongs to."""
        cookie = self._connection.pragma("schema_version")
        if self._roots[0] != cookie:
            found: Any = self._connection.execute(
                "select rootpage, cast(tbl_name as blob) from main.sqlite_schema where rootpage > 0"
            )
            # A name that is no UTF-8 is nobody's who sends text.
            roots = {root: folded(name.decode(errors="replace")) for root, name in found}
            self._roots = (cookie, {**roots, _SCHEMA_ROOT: "sqlite_master"})
        return self._roots[1]

    def _is_there(self, name: str) -> bool:
        """Whether a name means something that is no common table expression."""
        quoted = name.replace('"', '""')
        try:
            self._connection.execute(f'select 1 from "{quoted}" limit 0', can_cache=False)
        except apsw.SQLError as error:
            return not str(error).startswith("no such table")
        return True


def folded(name: str) -> str:
    """Return a name as SQLite compares it: only A to Z are the same as a to z."""
    return name.translate(_SMALL)


def _opened(steps: list[Step], tables: Mapping[int, str]) -> dict[str, list[str]]:
    """Return the tables that steps touch, each with the opcodes; without one that is being made."""
    opened: dict[str, list[str]] = {}
    for step in steps:
        if step.opcode in _ROOT_PLACES and not step.operands[5] & _ROOT_IN_REGISTER:
            root, schema = (step.operands[place] for place in _ROOT_PLACES[step.opcode])
            name = tables.get(root, "sqlite_unknown") if schema == 0 else "sqlite_temp_master"
            opened.setdefault(name, []).append(step.opcode)
    return opened


def _may_open(name: str, opcodes: list[str], word: str, allowed: frozenset[str] | None) -> bool:
    if not name.startswith("sqlite_"):
        return allowed is None or name in allowed
    if word == "drop":  # nothing of it is an expression of the caller's
        return name != "sqlite_temp_master"
    if word == "create":  # it writes to the schema; whoever reads it is the caller
        return name == "sqlite_master" and set(opcodes) == {"OpenWrite"}
    # An insert that counts reads the sequence once and writes it once, for each table.
    is_counted = opcodes.count("OpenRead") <= opcodes.count("OpenWrite")
    return name == "sqlite_sequence" and is_counted and word not in ("select", "values")


def _may_be_no_table(asked: _Asked) -> bool:
    is_read = asked.operation == apsw.SQLITE_READ
    return is_read and asked.names[1] == "" and asked.schema is None


def _is_part_of(word: str, name: str, asked: _Asked) -> bool:
    """Return whether a statement that makes or drops something does this by itself.

    Nothing of a DROP is an expression of the caller's. In a CREATE TABLE … AS the caller may read
    the schema too: each of these reads has a column, or none at all, and the statement's own has
    ROWID.
    """
    operation, (_, column), _, within = asked
    if word == "drop":
        return operation in (apsw.SQLITE_READ, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE)
    if word != "create" or within is not None:
        return False
    if operation == apsw.SQLITE_CREATE_TABLE:
        return name == "sqlite_sequence"  # for the first AUTOINCREMENT
    if name != "sqlite_master":
        return False
    is_own_read = operation == apsw.SQLITE_READ and column == "ROWID"
    return is_own_read or operation in (apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE)


def _not_allowed(table: str) -> Refused:
    return _denied(f"the table {table} is not among those that are allowed")


def _denied(reason: str) -> Refused:
    return Refused("sql_denied", reason)

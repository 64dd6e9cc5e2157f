"""The judge of statements: what one touches, told by the engine, and whether that is allowed.

    prepare      SQLite asks the authorizer about everything that the statement does. What is never
                 allowed is denied at once, because some of it is done while it is prepared. The rest
                 is noted: a read may come before what tells whose read it is.
    judge        after prepare and before the first step: every table that was noted must be allowed
    step         everything is denied. SQLite asks again only when it prepares the statement once
                 more, because others have changed the schema, and when a statement runs another one.

Views need no entry: what they read is noted as well. A read without a column may be one of a common
table expression that has the name of a table. Then the program of the statement tells whether it
opens that table.
"""

from collections.abc import Callable
from typing import NamedTuple

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
# An operand of the opcodes that open a table: the root page is in a register, of a new table.
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


class Judge:
    """Judges the statements of one connection, one at a time."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._phase = _OWN
        self._asked: list[_Asked] = []
        self._refusal = ""
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
        self,
        word: str,
        allowed: frozenset[str] | None,
        program: Callable[[], list[tuple[str, int, int, int]]],
    ) -> None:
        """Raise Refused unless everything that the prepared statement touches is allowed.

        word     the statement's first one
        allowed  the tables, in small letters; None: all
        program  gives opcode, P2, P3 and P5 of each step of the statement
        """
        if self.has_denied:
            raise self.refusal()
        self._phase = _OWN
        doubtful: set[str] = set()
        for asked in self._asked:
            if not self._is_allowed(asked, word, allowed):
                name = asked.names[_TABLE_PLACES.get(asked.operation, 0)] or ""
                if not _may_be_no_table(asked):
                    raise _denied(f"the table {name} is not among those that are allowed")
                doubtful.add(name)
        if doubtful:
            self._settle(doubtful, program())
        self._phase = _STEPPING

    def _is_allowed(self, asked: _Asked, word: str, allowed: frozenset[str] | None) -> bool:
        if asked.operation == apsw.SQLITE_REINDEX:
            return word == "create"  # REINDEX itself begins with another word
        if asked.schema not in (None, "main"):
            return False
        name = folded(asked.names[_TABLE_PLACES[asked.operation]] or "")
        if name.startswith("sqlite_"):
            return _is_part_of(word, name, asked)
        if allowed is not None and name in allowed:
            return True
        if asked.operation == apsw.SQLITE_CREATE_TABLE:
            return allowed is None
        kind = self._kind(name)
        if kind is None:
            is_new = allowed is None and self._creates(name)
            return is_new or (asked.operation == apsw.SQLITE_READ and name in TABLE_FUNCTIONS)
        return kind == "view" or allowed is None

    def _kind(self, name: str) -> str | None:
        found = self._connection.execute(
            "select type from main.sqlite_schema"
            " where name = ?1 collate nocase and type in ('table', 'view')",
            (name,),
        ).get
        return None if found is None else str(found)

    def _creates(self, name: str) -> bool:
        return any(
            asked.operation == apsw.SQLITE_CREATE_TABLE and folded(asked.names[0] or "") == name
            for asked in self._asked
        )

    def _settle(self, names: set[str], program: list[tuple[str, int, int, int]]) -> None:
        """Raise Refused when a name is that of a table, or a table function, that is opened."""
        opened = {
            root
            for opcode, root, schema, flags in program
            if opcode in ("OpenRead", "OpenWrite", "ReopenIdx")
            and schema == 0
            and not flags & _ROOT_IN_REGISTER
        }
        has_virtual = any(opcode == "VOpen" for opcode, _, _, _ in program)
        for name in names:
            roots = self._roots(name)
            if roots & opened or (not roots and has_virtual and self._is_there(name)):
                raise _denied(f"the table {name} is not among those that are allowed")

    def _roots(self, name: str) -> set[int]:
        """Return the root pages of a table and its indexes; none when there is no such table."""
        if folded(name) in ("sqlite_schema", "sqlite_master"):
            return {1}
        found = self._connection.execute(
            "select rootpage from main.sqlite_schema"
            " where tbl_name = ?1 collate nocase and rootpage > 0",
            (name,),
        )
        return {root for (root,) in found}

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


def _denied(reason: str) -> Refused:
    return Refused("sql_denied", reason)

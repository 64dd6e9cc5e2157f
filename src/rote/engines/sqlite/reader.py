"""Reads from SQLite. Every statement runs to its end, so that none keeps an old state pinned."""

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from heapq import merge
from itertools import groupby, islice
from typing import Any

import apsw

from rote.engines.protocol import no_space
from rote.engines.rows import (
    BranchRow,
    CommitRow,
    DerivedRow,
    EntityRow,
    FactPlace,
    FactRow,
    HeadRow,
    Line,
    SideRecord,
    SpaceRow,
    Span,
    up_to,
)
from rote.engines.sqlite.blob_reader import BlobReader
from rote.engines.sqlite.checksums import refuse_unchecked
from rote.engines.sqlite.failures import DRIVER_ERRORS
from rote.engines.sqlite.log_mark import LogMark, log_mark
from rote.engines.sqlite.packed_reader import PackedReader, numbers_of
from rote.engines.sqlite.schema import FORMAT_WITH_CHECKSUMS
from rote.errors import Corrupt

FACT = "f.branch, f.version, f.position, f.id, f.op, f.hash, f.parent, f.salt, f.body, f.value"
# The most frequent read: one entity on a branch without ancestors.
_NEWEST_OF_ONE = (
    f"select {FACT} from facts as f indexed by facts_by_entity"
    " where space = ? and id = ? and branch = ? and version <= ?"
    " order by version desc, position desc limit 1"
)
# The branch wrote the entity at or below its cap; otherwise the entity was not there then.
_WRITTEN_BY_THEN = (
    "exists (select 1 from facts as f indexed by facts_by_entity"
    " where f.space = ?1 and f.id = e.id and f.version <= ?5 and f.branch = ?2)"
)
# An entity that a nearer branch of the line has deleted cannot be inherited.
_NOT_DELETED_NEARER = (
    "not exists (select 1 from carray(?7) as nearer cross join tombstones as t"
    " where t.space = ?1 and t.branch = nearer.value and t.id = e.id"
    " and t.version <= cap_of(t.branch))"
)
# Every text sorts below every blob, so this bound is above every id.
UNBOUNDED = b""


class SqliteReader(BlobReader, PackedReader):
    """The reads of one connection, which belongs to one thread."""

    is_audit = False
    _by_event = "indexed by commits_with_event"
    _wants_mark = True  # whether to look for commits in SQLite's shared memory, once it is mapped

    def __init__(
        self, connection: apsw.Connection, failed: Callable[[Exception], Exception]
    ) -> None:
        self._failed = failed  # called with every driver error; returns the one to raise
        self.in_use = threading.Lock()  # so that nobody closes it in the middle of a statement
        self._heads: dict[int, HeadRow | None] = {}  # None: the space is empty
        self._state: object = None  # of the file when `_heads` was last cleared
        self._log_mark: LogMark | None = None
        self._chunk_bytes = 0  # of data read since memory was last given back
        # The caps of the line that is being read, by branch. SQLite refuses a condition with 1,000
        # ancestors; a function that looks into a dictionary costs the same for any number.
        self._line: Line = ()
        self._caps: dict[int, int] = {}
        self._use(connection)

    def _use(self, connection: apsw.Connection) -> None:
        if connection.pragma("user_version") >= FORMAT_WITH_CHECKSUMS:
            refuse_unchecked(connection)
        self.connection = connection
        self._cursor = connection.cursor()
        # Not a method of the reader: SQLite would keep the reader, and with it the connection, for ever.
        connection.create_scalar_function("cap_of", self._caps.get, 1)  # type: ignore[arg-type]

    def head(self, space: int) -> HeadRow | None:
        try:
            # Taken before the row is read, so that the next look notices a commit in between.
            with self.in_use:
                mark = self._log_mark
                state = self._look_for_commits() if mark is None else mark.raw
        except DRIVER_ERRORS as error:
            raise self._failed(error) from error
        if state != self._state:
            self._heads.clear()
            self._state = state
        head = self._heads.get(space)
        if head is None and space not in self._heads:
            rows = self._all(
                "select version, hash, at from commits where space = ?"
                " order by version desc limit 1",
                (space,),
            )
            if not rows and not self._all("select 1 from spaces where number = ?", (space,)):
                raise no_space()
            head = self._heads[space] = HeadRow(*rows[0]) if rows else None
        return head

    def mark(self) -> bytes | None:
        """Return a value that changes with every commit of any process; None where there is none."""
        try:
            with self.in_use:
                if self._log_mark is None and self._wants_mark:
                    self._look_for_commits()
                return None if self._log_mark is None else self._log_mark.raw
        except DRIVER_ERRORS as error:
            raise self._failed(error) from error

    def _look_for_commits(self) -> object:
        """Return a value that changes when another connection, of any process, has committed."""
        data_version: int = self._cursor.execute("pragma data_version").get
        if self._wants_mark:
            self._wants_mark = False
            mark = self._log_mark = log_mark(self.connection)
            if mark is not None:
                return mark.raw
        return data_version

    def close(self, *, wait: bool = False) -> apsw.Error | None:
        """Close the connection and return its error, if any; with `wait`, after the running statement."""
        if wait:
            with self.in_use:
                return self.close()
        self._log_mark = None  # its memory goes with the connection
        try:
            self.connection.close(True)
        except apsw.Error as error:
            return error
        return None

    def spaces(self) -> list[SpaceRow]:
        rows = self._all("select number, did, name, seal from spaces order by name", ())
        return [SpaceRow(*row) for row in rows]

    def space(self, name: str) -> SpaceRow | None:
        """Return the space of that name or did."""
        rows = self._all(
            "select number, did, name, seal from spaces where name = ?1 or did = ?1", (name,)
        )
        return SpaceRow(*rows[0]) if rows else None

    def leased_spaces(self) -> list[SpaceRow]:
        rows = self._all(
            "select number, did, name, seal from spaces where number in"
            " (select space from sides indexed by leases where kind = 'lease') order by name",
            (),
        )
        return [SpaceRow(*row) for row in rows]

    def branches(self, space: int) -> list[BranchRow]:
        rows = self._all(
            "select branch, name, parent, fork_version, created_version, deleted_version, seal"
            " from branches where space = ? order by branch",
            (space,),
        )
        return [BranchRow(*row) for row in rows]

    def commits(self, space: int, *, after: int, limit: int) -> list[CommitRow]:
        rows = self._all(
            "select version, branch, hash, at, author, key, meta, event, attempt"
            " from commits where space = ? and version > ? order by version limit ?",
            (space, after, limit),
        )
        return [CommitRow(*row) for row in rows]

    def events(self, space: int, *, after: int, limit: int) -> list[CommitRow]:
        rows = self._all(
            "select version, branch, hash, at, author, key, meta, event, attempt"
            f" from commits {self._by_event}"
            " where space = ? and version > ? and event is not null order by version limit ?",
            (space, after, limit),
        )
        return [CommitRow(*row) for row in rows]

    def facts(self, space: int, *, after: int, until: int) -> list[FactRow]:
        rows = self._all(
            f"select {FACT} from commits as c cross join facts as f"
            " on f.space = c.space and f.branch = c.branch and f.version = c.version"
            " where c.space = ? and c.version > ? and c.version <= ?"
            " order by c.version, f.position",
            (space, after, until),
        )
        return [FactRow(*row) for row in rows]

    def changed(self, space: int, *, after: int, until: int, limit: int) -> list[tuple[int, str]]:
        return self._all(
            "select f.branch, f.id from commits as c cross join facts as f"
            " on f.space = c.space and f.branch = c.branch and f.version = c.version"
            " where c.space = ? and c.version > ? and c.version <= ? limit ?",
            (space, after, until, limit),
        )

    def counts(self, space: int, *, until: int) -> tuple[int, int]:
        commits = self._all(
            "select count(*) from commits where space = ? and version <= ?", (space, until)
        )
        facts = self._all(
            "select count(*) from facts indexed by facts_by_entity where space = ? and version <= ?",
            (space, until),
        )
        return commits[0][0], facts[0][0]

    def strays(self, space: int) -> int:
        outside = "where space = ?1 and (version < 1 or version > (select newest from log))"
        rows = self._all(
            "with log as (select coalesce(max(version), 0) as newest from commits"
            " where space = ?1)"
            f" select (select count(*) from facts indexed by facts_by_entity {outside})"
            f" + (select count(*) from entities {outside})"
            f" + (select count(*) from tombstones {outside})",
            (space,),
        )
        count: int = rows[0][0]
        return count

    def newest(self, space: int, ids: Sequence[str], line: Line) -> list[FactRow]:
        if not ids:
            return []
        if len(ids) == 1 and len(line) == 1:
            rows = self._all(_NEWEST_OF_ONE, (space, ids[0], *line[0]))
            if not rows:
                return []
        else:
            condition, bounds = self._on_line(line)
            if len(ids) == 1:
                rows = self._all(
                    f"select {FACT} from facts as f indexed by facts_by_entity"
                    f" where space = ? and id = ? and {condition}"
                    " order by version desc, position desc limit 1",
                    (space, ids[0], *bounds),
                )
            else:
                rows = self._all(
                    f"select {FACT} from carray(?) as wanted cross join facts as f"
                    " where f.number = (select number from facts indexed by facts_by_entity"
                    f" where space = ? and id = wanted.value and {condition}"
                    " order by version desc, position desc limit 1)",
                    (_array(ids), space, *bounds),
                )
        return [FactRow(*row) for row in rows]

    def history(
        self,
        space: int,
        id: str,
        line: Line,
        *,
        before: tuple[int, int] | None,
        after: int,
        limit: int,
        is_last: Callable[[FactRow], bool] | None = None,
    ) -> list[FactRow]:
        condition, (*branch, cap) = self._on_line(line)
        below = before or (cap + 1, 0)
        return self._all(
            f"select {FACT} from facts as f indexed by facts_by_entity"
            f" where space = ? and id = ? and {condition}"
            " and version > ? and (version, position) < (?, ?)"
            " order by version desc, position desc limit ?",
            # SQLite begins its search at the cap, so the cap is no higher than the version asked for.
            (space, id, *branch, min(cap, below[0]), after, *below, limit),
            partial(up_to, is_last),
        )

    def places(
        self, space: int, *, branch: int | None, until: int, after: FactPlace | None, limit: int
    ) -> list[FactPlace]:
        on_branch, bounds = ("", ()) if branch is None else (" and branch = ?", (branch,))
        return self._all(
            "select id, version, position, branch from facts indexed by facts_by_entity"
            " where space = ? and (id, version, position, branch) > (?, ?, ?, ?)"
            f" and version <= ?{on_branch} order by id, version, position, branch limit ?",
            (space, *(after or ("", 0, 0, 0)), until, *bounds, limit),
        )

    def facts_from(self, space: int, *, until: int, after: FactPlace, limit: int) -> list[FactRow]:
        rows = self._all(
            f"select {FACT} from facts as f indexed by facts_by_entity"
            " where space = ? and (id, version, position, branch) > (?, ?, ?, ?)"
            " and version <= ? order by id, version, position, branch limit ?",
            (space, *after, until, limit),
        )
        return [FactRow(*row) for row in rows]

    def operations_at(self, space: int, places: Sequence[FactPlace]) -> dict[FactPlace, int]:
        return {
            place: op
            for place in places
            for (op,) in self._all(
                "select op from facts indexed by facts_by_entity where space = ?"
                " and id = ? and version = ? and position = ? and branch = ?",
                (space, *place),
            )
        }

    def salts(self, space: int, ids: Sequence[str]) -> dict[str, bytes]:
        if not ids:
            return {}
        rows = self._all(
            "select f.id, f.salt from carray(?) as wanted cross join facts as f"
            " where f.number = (select number from facts indexed by facts_by_entity"
            " where space = ? and id = wanted.value"
            " order by version desc, position desc limit 1)",
            (_array(ids), space),
        )
        return {id: salt for id, salt in rows if salt is not None}

    def written(self, space: int, spans: Sequence[Span]) -> list[str]:
        rows = [
            row
            for branch, after, until in spans
            for row in self._all(
                "select distinct id from facts indexed by facts_by_log"
                " where space = ? and branch = ? and version > ? and version <= ?",
                (space, branch, after, until),
            )
        ]
        return list(dict.fromkeys(id for (id,) in rows))

    def last_written(self, space: int, line: Line) -> dict[int, int]:
        found = {}
        for branch, cap in line:
            rows = self._all(
                "select version from facts indexed by facts_by_log"
                " where space = ? and branch = ? and version <= ? order by version desc limit 1",
                (space, branch, cap),
            )
            if rows:
                found[branch] = rows[0][0]
        return found

    def entities(
        self, space: int, line: Line, *, start: str, end: str | None, limit: int,
        descending: bool = False,
    ) -> list[str]:  # fmt: skip
        bound = UNBOUNDED if end is None else end
        self._on_line(line)
        parts = []
        nearer: list[int] = []  # branches that have deleted something
        deleting = self._deleting(space, line)
        for branch, cap in line:
            if cap < 1:
                break  # nothing was written at version 0, and the caps farther up are no higher
            inherited = f" and {_NOT_DELETED_NEARER}" if nearer else ""
            page = f"where space = ?1 and branch = ?2 and id >= ?3 and id < ?4{inherited}"
            order = f"order by id{' desc' if descending else ''} limit ?6"
            # One statement, so that an entity that moves from one table to the other is seen in one.
            rows = self._all(
                f"select id from (select id from entities as e {page}"
                f" and (version <= ?5 or {_WRITTEN_BY_THEN}) {order})"
                " union all"
                " select id from (select id from tombstones as e indexed by tombstones_by_version"
                f" {page} and version > ?5 and {_WRITTEN_BY_THEN} {order})",
                (
                    space,
                    branch,
                    start,
                    bound,
                    cap,
                    limit,
                    *([numbers_of(nearer)] if nearer else ()),
                ),
            )
            parts.append(sorted((id for (id,) in rows), reverse=descending))
            if branch in deleting:
                nearer.append(branch)
        return [id for id, _ in islice(groupby(merge(*parts, reverse=descending)), limit)]

    def _deleting(self, space: int, line: Line) -> set[int]:
        """Return the branches of a line that have tombstones; the others need no test for deletions.

        A line of one branch inherits nothing and needs no test at all.
        """
        if len(line) == 1:
            return set()
        rows = self._all(
            "select value from carray(?2) where exists"
            " (select 1 from tombstones where space = ?1 and branch = value)",
            (space, numbers_of([branch for branch, _ in line])),
        )
        return {branch for (branch,) in rows}

    def entity_at(
        self, space: int, branch: int, *, start: str, end: str | None, place: int, unless_after: int
    ) -> str | None:
        rows = self._all(
            "select id from entities where space = ?1 and branch = ?2 and id >= ?3 and id < ?4"
            " and not exists (select 1 from facts indexed by facts_by_log"
            " where space = ?1 and branch = ?2 and version > ?5) order by id limit 1 offset ?6",
            (space, branch, start, UNBOUNDED if end is None else end, unless_after, place),
        )
        return rows[0][0] if rows else None

    def entity_rows(
        self, space: int, *, after: tuple[int, str] | None, limit: int
    ) -> list[EntityRow]:
        page = "where space = ?1 and (branch, id) > (?2, ?3) order by branch, id limit ?4"
        rows = self._all(
            f"select * from (select branch, id, version, position, 1 from entities {page})"
            f" union all select * from (select branch, id, version, position, 0 from tombstones {page})",
            (space, *(after or (0, "")), limit),
        )
        return [_entity_row(row) for row in sorted(rows)[:limit]]

    def pointers(self, space: int, branch: int, ids: Sequence[str]) -> list[EntityRow]:
        if not ids:
            return []
        place = "where e.space = ?2 and e.branch = ?3 and e.id = wanted.value"
        columns = "select e.branch, e.id, e.version, e.position"
        rows = self._all(
            f"{columns}, 1 from carray(?1) as wanted cross join entities as e {place}"
            f" union all {columns}, 0 from carray(?4) as wanted cross join tombstones as e {place}",
            (_array(ids), space, branch, _array(ids)),
        )
        return [_entity_row(row) for row in rows]

    def newest_in_range(
        self, space: int, line: Line, *, start: str, end: str | None, after: int
    ) -> FactRow | None:
        bound = UNBOUNDED if end is None else end
        found = [
            FactRow(*row)
            for branch, cap in line
            if cap > after
            for row in self._all(
                f"select {FACT} from facts as f indexed by facts_by_log"
                " where space = ? and branch = ? and version > ? and version <= ?"
                " and id >= ? and id < ? order by version desc, position desc limit 1",
                (space, branch, after, cap, start, bound),
            )
        ]
        return max(found, key=lambda row: (row.version, row.index), default=None)

    def side(self, space: int, kind: str, key: str) -> SideRecord | None:
        rows = self._all(
            "select kind, key, fence, body, seal from sides"
            " where space = ? and kind = ? and key = ?",
            (space, kind, key),
        )
        return SideRecord(*rows[0]) if rows else None

    def sides(
        self, space: int, kind: str | None, *, after: tuple[str, str], limit: int
    ) -> list[SideRecord]:
        lowest, highest = ("", UNBOUNDED) if kind is None else (kind, kind)
        rows = self._all(
            "select kind, key, fence, body, seal from sides"
            " where space = ? and (kind, key) > (?, ?) and kind >= ? and kind <= ?"
            " order by kind, key limit ?",
            (space, *after, lowest, highest, limit),
        )
        return [SideRecord(*row) for row in rows]

    def indexes(self, space: int) -> list[str]:
        rows = self._all("select name from derived_state where space = ? order by name", (space,))
        return [name for (name,) in rows]

    def indexed(self, space: int, index: str) -> int:
        rows = self._all(
            "select indexed from derived_state where space = ? and name = ?", (space, index)
        )
        return rows[0][0] if rows else 0

    def derived(
        self,
        space: int,
        index: str,
        line: Line,
        *,
        start: str,
        end: str | None,
        after: tuple[str, str] | None,
        limit: int,
        prefix: str = "",
        descending: bool = False,
    ) -> list[DerivedRow]:
        bound = UNBOUNDED if end is None else end
        columns = "select term, id, branch, start, until from derived"
        is_open = "start <= cap_of(branch) and (until is null or until > cap_of(branch))"
        # A function of the id, so that the planner does not walk by entity.
        is_within = " and substr(id, 1, ?) = ?" if prefix else ""
        # Only one bound on the side where the walk begins: with two, the planner might walk from
        # the wrong one.
        if descending:
            page = "(term, id) < (?, ?) and term >= ?"
            is_above = after is None or (end is not None and end <= after[0])
            bounds: tuple[Any, ...] = (*((bound, "") if is_above else after or ()), start)
            order = "term desc, id desc, branch"
        else:
            page = "(term, id) > (?, ?) and term < ?"
            bounds = (*max(after or ("", ""), (start, "")), bound)
            order = "term, id, branch"
        self._on_line(line)
        rows = self._all(
            f"{columns} where space = ? and name = ? and {page}{is_within}"
            f" and {is_open} order by {order} limit ?",
            (space, index, *bounds, *((len(prefix), prefix) if prefix else ()), limit),
        )
        if len(rows) == limit:
            # The last pair may continue past the page; it is read whole.
            term, id = rows[-1][:2]
            rows = [row for row in rows if row[:2] != (term, id)] + self._all(
                f"{columns} where space = ? and name = ? and term = ? and id = ? and {is_open}"
                " order by branch",
                (space, index, term, id),
            )
        return [DerivedRow(*row) for row in rows]

    def derived_of(self, space: int, index: str, id: str) -> list[DerivedRow]:
        rows = self._all(
            "select term, id, branch, start, until from derived indexed by derived_by_entity"
            " where space = ? and name = ? and id = ? order by branch, term, start",
            (space, index, id),
        )
        return [DerivedRow(*row) for row in rows]

    def derived_strays(self, space: int, index: str) -> int:
        rows = self._all(
            "with state as (select coalesce(max(indexed), 0) as indexed from derived_state"
            " where space = ?1 and name = ?2)"
            " select count(*) from derived, state where space = ?1 and name = ?2"
            " and (start > state.indexed or until > state.indexed)",
            (space, index),
        )
        count: int = rows[0][0]
        return count

    def derived_count(self, space: int, index: str, *, until: int) -> int:
        rows = self._all(
            "select count(*) from derived where space = ? and name = ? and start <= ?",
            (space, index, until),
        )
        count: int = rows[0][0]
        return count

    def integrity_check(self) -> list[tuple[str]]:
        return self._all("pragma integrity_check(100)", ())

    def copy_into(self, target: str) -> None:
        self._all("vacuum into ?", (target,))

    def _on_line(self, line: Line) -> tuple[str, tuple[int, ...]]:
        """Return the condition that a row of facts is on the line, and its bindings."""
        if line is not self._line:
            self._line = line
            self._caps.clear()
            self._caps.update(line)
        if len(line) == 1:
            return "branch = ? and version <= ?", line[0]
        # No cap is higher than the first, so rows above it need no test one by one.
        return "version <= ? and version <= cap_of(branch)", (line[0][1],)

    def _all(
        self,
        sql: str,
        bindings: tuple[Any, ...],
        take: Callable[[Iterable[Any]], list[Any]] | None = None,
    ) -> list[Any]:
        """Return all rows, or what `take` makes of those that it reads."""
        try:
            with self.in_use:
                rows = self._cursor.execute(sql, bindings)
                if take is None:
                    return rows.fetchall()
                try:
                    return take(rows)
                finally:
                    self._cursor.execute("")  # ends the statement
        except DRIVER_ERRORS as error:
            raise self._failed(error) from error


def _entity_row(row: tuple[int, str, int, int, int]) -> EntityRow:
    branch, id, version, position, live = row
    return EntityRow(branch, id, version, position, bool(live))


def _array(ids: Sequence[str]) -> object:
    try:
        return apsw.carray(tuple(ids))
    except ValueError:
        raise Corrupt("a stored id holds a NUL; run `rote verify`") from None

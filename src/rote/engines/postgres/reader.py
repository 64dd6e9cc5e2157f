"""Reads from PostgreSQL. Outside a transaction every statement sees one committed state."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from rote.engines.postgres.packed_reader import PackedReader
from rote.engines.postgres.parameters import bigints, texts
from rote.engines.protocol import no_space
from rote.engines.rows import (
    BlobRow,
    BranchRow,
    ChunkRow,
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

FACT = "f.branch, f.version, f.position, f.id, f.op, f.hash, f.parent, f.salt, f.body, f.value"
BLOB = "upload, hash, size, at, seal"
COMMIT = "version, branch, hash, at, author, key, meta, event, attempt"

# Runs a statement with its values and gives its rows.
Ask = Callable[[str, Sequence[Any]], list[Any]]


class Known(Struct, frozen=True, gc=False):
    """The newest commit of a space, and the number of writes to the space up to then."""

    head: HeadRow | None
    changes: int


class PostgresReader(PackedReader):
    """Reads through a function that runs statements: that of the pool, or of a block's session."""

    def __init__(self, ask: Ask, schema: str, remember: Callable[[int, Known], None]) -> None:
        self._ask = ask
        self._schema = schema
        self._remember = remember

    def known(self, space: int) -> Known | None:
        """Return the newest commit of a space; None when there is no such space."""
        rows = self._all(
            f"select version, hash, at, changes from {self._schema}.spaces where number = $1", space
        )
        return known_of(rows[0]) if rows else None

    def head(self, space: int) -> HeadRow | None:
        known = self.known(space)
        if known is None:
            raise no_space()
        self._remember(space, known)
        return known.head

    def spaces(self) -> list[SpaceRow]:
        rows = self._all(f"select number, did, name, seal from {self._schema}.spaces order by name")
        return [SpaceRow(*row) for row in rows]

    def space(self, name: str) -> SpaceRow | None:
        """Return the space of that name or did."""
        rows = self._all(
            f"select number, did, name, seal from {self._schema}.spaces"
            " where name = $1 or did = $1",
            name,
        )
        return SpaceRow(*rows[0]) if rows else None

    def leased_spaces(self) -> list[SpaceRow]:
        rows = self._all(
            f"select number, did, name, seal from {self._schema}.spaces where number in"
            f" (select space from {self._schema}.sides where kind = 'lease'::bytea) order by name"
        )
        return [SpaceRow(*row) for row in rows]

    def branches(self, space: int) -> list[BranchRow]:
        rows = self._all(
            "select branch, name, parent, fork_version, created_version, deleted_version, seal"
            f" from {self._schema}.branches where space = $1 order by branch",
            space,
        )
        return [BranchRow(*row) for row in rows]

    def commits(self, space: int, *, after: int, limit: int) -> list[CommitRow]:
        text = (
            f"select {COMMIT} from {self._schema}.commits"
            " where space = $1 and version > $2 order by version limit $3"
        )
        return [CommitRow(*row) for row in self._all(text, space, after, limit)]

    def events(self, space: int, *, after: int, limit: int) -> list[CommitRow]:
        text = (
            f"select {COMMIT} from {self._schema}.commits"
            " where space = $1 and version > $2 and event is not null order by version limit $3"
        )
        return [CommitRow(*row) for row in self._all(text, space, after, limit)]

    def facts(self, space: int, *, after: int, until: int) -> list[FactRow]:
        text = f"select {FACT} {self._of_commits()} order by f.version, f.position"
        return [FactRow(*row) for row in self._all(text, space, after, until)]

    def changed(self, space: int, *, after: int, until: int, limit: int) -> list[tuple[int, str]]:
        return self._all(
            f"select f.branch, f.id {self._of_commits()} limit $4", space, after, until, limit
        )

    def _of_commits(self) -> str:
        return (
            f"from {self._schema}.commits as c join {self._schema}.facts as f"
            " on f.space = c.space and f.branch = c.branch and f.version = c.version"
            " where c.space = $1 and c.version > $2 and c.version <= $3"
        )

    def counts(self, space: int, *, until: int) -> tuple[int, int]:
        s, part = self._schema, "where space = $1 and version <= $2"
        text = (
            f"select (select count(*) from {s}.commits {part}),"
            f" (select count(*) from {s}.facts {part})"
        )
        rows = self._all(text, space, until)
        commits, facts = rows[0]
        return commits, facts

    def strays(self, space: int) -> int:
        s = self._schema
        outside = "where space = $1 and (version < 1 or version > (select newest from log))"
        rows = self._all(
            f"with log as (select coalesce(max(version), 0) as newest from {s}.commits"
            " where space = $1)"
            f" select (select count(*) from {s}.facts {outside})"
            f" + (select count(*) from {s}.entities {outside})"
            f" + (select count(*) from {s}.tombstones {outside})",
            space,
        )
        count: int = rows[0][0]
        return count

    def newest(self, space: int, ids: Sequence[str], line: Line) -> list[FactRow]:
        if not ids:
            return []
        text, values = self._newest_of(space, ids, line)
        return [FactRow(*row) for row in self._all(text, *values)]

    def _newest_of(self, space: int, ids: Sequence[str], line: Line) -> tuple[str, list[Any]]:
        """Return the statement, whose first value is the space, and its values."""
        on_line, bounds = _on_line(line, first=3)
        newest = (
            f"select {FACT} from {self._schema}.facts as f where f.space = $1 and f.id = {{id}}"
            f" and {on_line} order by f.version desc, f.position desc limit 1"
        )
        if len(ids) == 1:
            return newest.format(id="$2"), [space, ids[0], *bounds]
        text = (
            "select f.* from unnest($2) as wanted (id)"
            f" cross join lateral ({newest.format(id='wanted.id')}) as f"
        )
        return text, [space, texts(ids), *bounds]

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
        below = before or (line[0][1] + 1, 0)
        # PostgreSQL begins its search at the cap, so the cap is no higher than the version asked for.
        capped = tuple([(branch, min(cap, below[0])) for branch, cap in line])
        on_line, bounds = _on_line(capped, first=7)
        text = (
            f"select {FACT} from {self._schema}.facts as f where f.space = $1 and f.id = $2"
            f" and {on_line} and f.version > $3 and (f.version, f.position) < ($4, $5)"
            " order by f.version desc, f.position desc limit $6"
        )
        rows = self._all(text, space, id, after, *below, limit, *bounds)
        return up_to(is_last, rows)

    def places(
        self, space: int, *, branch: int | None, until: int, after: FactPlace | None, limit: int
    ) -> list[FactPlace]:
        on_branch, bounds = ("", ()) if branch is None else (" and branch = $8", (branch,))
        text = (
            f"select id, version, position, branch from {self._schema}.facts where space = $1"
            f" and (id, version, position, branch) > ($2, $3, $4, $5) and version <= $6{on_branch}"
            " order by id, version, position, branch limit $7"
        )
        return self._all(text, space, *(after or ("", 0, 0, 0)), until, limit, *bounds)

    def facts_from(self, space: int, *, until: int, after: FactPlace, limit: int) -> list[FactRow]:
        rows = self._all(
            f"select {FACT} from {self._schema}.facts as f where f.space = $1"
            " and (f.id, f.version, f.position, f.branch) > ($2, $3, $4, $5) and f.version <= $6"
            " order by f.id, f.version, f.position, f.branch limit $7",
            space, *after, until, limit,
        )  # fmt: skip
        return [FactRow(*row) for row in rows]

    def operations_at(self, space: int, places: Sequence[FactPlace]) -> dict[FactPlace, int]:
        if not places:
            return {}
        ids, *numbers = zip(*places, strict=True)
        text = (
            "select f.id, f.version, f.position, f.branch, f.op"
            " from unnest($2, $3, $4, $5) as wanted (id, version, position, branch)"
            f" join {self._schema}.facts as f on f.space = $1 and f.id = wanted.id"
            " and f.version = wanted.version and f.position = wanted.position"
            " and f.branch = wanted.branch"
        )
        rows = self._all(text, space, texts(ids), *map(bigints, numbers))
        return {(id, version, position, branch): op for id, version, position, branch, op in rows}

    def salts(self, space: int, ids: Sequence[str]) -> dict[str, bytes]:
        if not ids:
            return {}
        text = (
            "select wanted.id, f.salt from unnest($2) as wanted (id) cross join lateral"
            f" (select salt from {self._schema}.facts where space = $1 and id = wanted.id"
            " order by version desc, position desc limit 1) as f"
        )
        rows = self._all(text, space, texts(ids))
        return {id: salt for id, salt in rows if salt is not None}

    def written(self, space: int, spans: Sequence[Span]) -> list[str]:
        if not spans:
            return []
        text = (
            "select distinct f.id from unnest($2, $3, $4) as span (branch, after, until)"
            f" join {self._schema}.facts as f on f.space = $1 and f.branch = span.branch"
            " and f.version > span.after and f.version <= span.until"
        )
        columns = map(bigints, zip(*spans, strict=True))
        return [id for (id,) in self._all(text, space, *columns)]

    def last_written(self, space: int, line: Line) -> dict[int, int]:
        text = (
            "select line.branch, f.version from unnest($2, $3) as line (branch, cap)"
            f" cross join lateral (select version from {self._schema}.facts where space = $1"
            " and branch = line.branch and version <= line.cap order by version desc limit 1) as f"
        )
        rows = self._all(text, space, *_line_arrays(line))
        return dict(rows)

    def entities(
        self, space: int, line: Line, *, start: str, end: str | None, limit: int,
        descending: bool = False,
    ) -> list[str]:  # fmt: skip
        # One statement, so that an entity that moves from one table to the other is seen in one of them.
        s = self._schema
        within, bounds = _within("e.id", start, end, first=5)
        order = f"order by e.id{' desc' if descending else ''} limit $4"
        page = f"where e.space = $1 and e.branch = line.branch and {within}"
        if len(line) > 1:
            page += (
                " and not exists (select 1 from unnest($2, $3) with ordinality"
                f" as nearer (branch, cap, place) join {s}.tombstones as t on t.space = $1"
                " and t.branch = nearer.branch and t.id = e.id"
                " where nearer.place < line.place and t.version <= nearer.cap)"
            )
        # The first fact of an entity by the order of the key, so that the planner uses the key.
        by_then = (
            f"(select f.version from {s}.facts as f where f.space = $1 and f.id = e.id"
            " and f.branch + 0 = line.branch order by f.version, f.position limit 1) <= line.cap"
        )
        text = (
            "select found.id from unnest($2, $3) with ordinality as line (branch, cap, place)"
            f" cross join lateral ((select e.id from {s}.entities as e {page}"
            f" and (e.version <= line.cap or {by_then}) {order})"
            f" union all (select e.id from {s}.tombstones as e {page} and e.version > line.cap"
            f" and {by_then} {order})) as found where line.cap > 0"
        )
        rows = self._all(text, space, *_line_arrays(line), limit, *bounds)
        return sorted({id for (id,) in rows}, reverse=descending)[:limit]

    def entity_at(
        self, space: int, branch: int, *, start: str, end: str | None, place: int, unless_after: int
    ) -> str | None:
        within, bounds = _within("id", start, end, first=5)
        rows = self._all(
            f"select id from {self._schema}.entities where space = $1 and branch = $2 and {within}"
            f" and not exists (select 1 from {self._schema}.facts"
            " where space = $1 and branch = $2 and version > $3) order by id limit 1 offset $4",
            space, branch, unless_after, place, *bounds,
        )  # fmt: skip
        return rows[0][0] if rows else None

    def entity_rows(
        self, space: int, *, after: tuple[int, str] | None, limit: int
    ) -> list[EntityRow]:
        page = "where space = $1 and (branch, id) > ($2, $3) order by branch, id limit $4"
        columns = "select branch, id, version, position"
        text = (
            f"({columns}, true from {self._schema}.entities {page})"
            f" union all ({columns}, false from {self._schema}.tombstones {page})"
        )
        rows = self._all(text, space, *(after or (0, "")), limit)
        return [EntityRow(*row) for row in sorted(rows)[:limit]]

    def pointers(self, space: int, branch: int, ids: Sequence[str]) -> list[EntityRow]:
        if not ids:
            return []
        place = "where space = $1 and branch = $2 and id = any($3)"
        columns = "select branch, id, version, position"
        text = (
            f"{columns}, true from {self._schema}.entities {place}"
            f" union all {columns}, false from {self._schema}.tombstones {place}"
        )
        return [EntityRow(*row) for row in self._all(text, space, branch, texts(ids))]

    def newest_in_range(
        self, space: int, line: Line, *, start: str, end: str | None, after: int
    ) -> FactRow | None:
        within, bounds = _within("f.id", start, end, first=5)
        order = "order by f.version desc, f.position desc limit 1"
        text = (
            "select f.* from unnest($2, $3) as line (branch, cap) cross join lateral"
            f" (select {FACT} from {self._schema}.facts as f where f.space = $1"
            " and f.branch = line.branch and f.version > $4 and f.version <= line.cap"
            f" and {within} {order}) as f {order}"
        )
        rows = self._all(text, space, *_line_arrays(line), after, *bounds)
        return FactRow(*rows[0]) if rows else None

    def side(self, space: int, kind: str, key: str) -> SideRecord | None:
        text = (
            f"select kind, key, fence, body, seal from {self._schema}.sides"
            " where space = $1 and kind = $2 and key = $3"
        )
        rows = self._all(text, space, kind.encode(), key.encode())
        return _side(rows[0]) if rows else None

    def sides(
        self, space: int, kind: str | None, *, after: tuple[str, str], limit: int
    ) -> list[SideRecord]:
        of_kind = "" if kind is None else " and kind = $5"
        rows = self._all(
            f"select kind, key, fence, body, seal from {self._schema}.sides"
            f" where space = $1 and (kind, key) > ($2, $3){of_kind} order by kind, key limit $4",
            space,
            after[0].encode(),
            after[1].encode(),
            limit,
            *(() if kind is None else (kind.encode(),)),
        )
        return [_side(row) for row in rows]

    def indexes(self, space: int) -> list[str]:
        rows = self._all(
            f"select name from {self._schema}.derived_state where space = $1 order by name", space
        )
        return [name for (name,) in rows]

    def indexed(self, space: int, index: str) -> int:
        text = f"select indexed from {self._schema}.derived_state where space = $1 and name = $2"
        rows = self._all(text, space, index)
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
        columns = f"select term, id, branch, start, until from {self._schema}.derived"
        page, order, bounds = _derived_page(start, end, after, descending)
        values = [*bounds, limit]
        if prefix:
            # A function of the id, so that the planner does not walk by entity.
            place = f"${len(values) + 3}::text"
            page += f" and left(id, length({place})) = {place}"
            values.append(prefix)
        is_open, caps = _open_on(line, first=3 + len(values))
        text = (
            f"{columns} where space = $1 and name = $2{page}"
            f" and {is_open} order by {order} limit ${len(bounds) + 3}"
        )
        rows = self._all(text, space, index, *values, *caps)
        if len(rows) == limit:
            # The last pair may continue past the page; it is read whole.
            last = rows[-1][:2]
            is_open, caps = _open_on(line, first=5)
            text = (
                f"{columns} where space = $1 and name = $2 and term = $3 and id = $4 and {is_open}"
                " order by branch"
            )
            rows = [row for row in rows if row[:2] != last]
            rows += self._all(text, space, index, *last, *caps)
        return [_derived(row) for row in rows]

    def derived_of(self, space: int, index: str, id: str) -> list[DerivedRow]:
        text = (
            f"select term, id, branch, start, until from {self._schema}.derived"
            " where space = $1 and name = $2 and id = $3 order by branch, term, start"
        )
        return [_derived(row) for row in self._all(text, space, index, id)]

    def derived_strays(self, space: int, index: str) -> int:
        text = (
            f"with state as (select coalesce(max(indexed), 0) as indexed"
            f" from {self._schema}.derived_state where space = $1 and name = $2)"
            f" select count(*) from {self._schema}.derived, state where space = $1 and name = $2"
            " and (start > state.indexed or until > state.indexed)"
        )
        rows = self._all(text, space, index)
        count: int = rows[0][0]
        return count

    def derived_count(self, space: int, index: str, *, until: int) -> int:
        text = (
            f"select count(*) from {self._schema}.derived"
            " where space = $1 and name = $2 and start <= $3"
        )
        rows = self._all(text, space, index, until)
        count: int = rows[0][0]
        return count

    def blob(self, space: int, hash: bytes) -> BlobRow | None:
        rows = self._blobs("hash = $2 limit 1", space, hash)
        return rows[0] if rows else None

    def blobs(self, space: int, *, after: bytes, limit: int) -> list[BlobRow]:
        return self._blobs("hash > $2 order by hash limit $3", space, after, limit)

    def upload(self, space: int, upload: bytes) -> BlobRow | None:
        rows = self._blobs("upload = $2", space, upload)
        return rows[0] if rows else None

    def uploads(self, space: int, *, after: bytes, limit: int) -> list[BlobRow]:
        condition = "hash is null and upload > $2 order by upload limit $3"
        return self._blobs(condition, space, after, limit)

    def _blobs(self, condition: str, *values: Any) -> list[BlobRow]:
        text = f"select {BLOB} from {self._schema}.blobs where space = $1 and {condition}"
        return [BlobRow(*row) for row in self._all(text, *values)]

    def blob_bytes(self, space: int) -> int:
        rows = self._all(
            f"select coalesce(sum(size), 0)::bigint from {self._schema}.blobs where space = $1",
            space,
        )
        size: int = rows[0][0]
        return size

    def chunks(self, space: int, upload: bytes, *, after: int, limit: int) -> list[ChunkRow]:
        text = (
            f"select until, data from {self._schema}.chunks"
            " where space = $1 and upload = $2 and until > $3 order by until limit $4"
        )
        return [ChunkRow(*row) for row in self._all(text, space, upload, after, limit)]

    def chunk_strays(self, space: int) -> int:
        s = self._schema
        rows = self._all(
            f"select count(*) from {s}.chunks as c where space = $1 and not exists"
            f" (select 1 from {s}.blobs as b where b.space = $1 and b.upload = c.upload)",
            space,
        )
        count: int = rows[0][0]
        return count

    def _all(self, text: str, *values: Any) -> list[Any]:
        return self._ask(text, values)


def known_of(row: tuple[int, bytes, int, int]) -> Known:
    version, hash, at, changes = row
    return Known(HeadRow(version, hash, at) if version else None, changes)


def _side(row: tuple[bytes, bytes, int, bytes, bytes]) -> SideRecord:
    kind, key, fence, body, seal = row
    return SideRecord(kind.decode(), key.decode(), fence, body, seal)


def _derived_page(
    start: str, end: str | None, after: tuple[str, str] | None, descending: bool
) -> tuple[str, str, list[Any]]:
    """Return the condition and the order of a page of derived rows, and its values from $3 on.

    Only one bound on the side where the walk begins: with two, the planner might walk from the
    wrong one.
    """
    if not descending:
        term, id = max(after or ("", ""), (start, ""))
        page, values = " and (term, id) > ($3, $4)", [term.encode(), _cut(id)]
        if end is not None:
            return f"{page} and term < $5", "term, id, branch", [*values, end.encode()]
        return page, "term, id, branch", values
    order = "term desc, id desc, branch"
    if after is None or (end is not None and end <= after[0]):
        if end is None:
            return " and term >= $3", order, [start.encode()]
        return " and term < $3 and term >= $4", order, [end.encode(), start.encode()]
    values = [after[0].encode(), _cut(after[1]), start.encode()]
    below = "<=" if "\0" in after[1] else "<"  # as in `_within`
    return f" and (term, id) {below} ($3, $4) and term >= $5", order, values


def _derived(row: tuple[bytes, str, int, int, int | None]) -> DerivedRow:
    term, id, branch, start, until = row
    return DerivedRow(term.decode(), id, branch, start, until)


def _cut(text: str) -> str:
    """Return `text` up to its first NUL. No id holds NUL, so the same ids are above both."""
    return text.partition("\0")[0]


def _within(column: str, start: str, end: str | None, *, first: int) -> tuple[str, list[str]]:
    """Return the condition that an id is in [start, end), and its values.

    A bound may hold NUL, which PostgreSQL refuses in text. No id does, so the ids at or above
    `a NUL b` are those above `a`, and the ids below it are those at or below `a`.
    """
    above = ">" if "\0" in start else ">="
    condition = f"{column} {above} ${first}"
    if end is None:
        return condition, [_cut(start)]
    below = "<=" if "\0" in end else "<"
    return f"{condition} and {column} {below} ${first + 1}", [_cut(start), _cut(end)]


def _on_line(line: Line, *, first: int) -> tuple[str, list[Any]]:
    """Return the condition that a row of facts is on the line, and its values.

    The condition is on a sum, which is not a column, so that no index by branch fits it. Otherwise
    a planner without statistics would think facts_by_log as good as the key, and walk through a
    whole branch for one entity.
    """
    if len(line) == 1:
        return f"f.branch + 0 = ${first} and f.version <= ${first + 1}", list(line[0])
    # No cap is higher than the first, so rows above it need no test one by one.
    highest = f"f.version <= (${first + 1})[1]"
    return f"{highest} and f.version <= {_cap('f.branch', first)}", _line_arrays(line)


def _open_on(line: Line, *, first: int) -> tuple[str, list[Any]]:
    """Return the condition that a derived row is on a branch of the line and open at its cap."""
    cap = _cap("branch", first)
    return f"start <= {cap} and (until is null or until > {cap})", _line_arrays(line)


def _cap(branch: str, first: int) -> str:
    """Return the cap of a branch, or null, on the line whose arrays are the values from `first` on."""
    return f"(${first + 1})[array_position(${first}, {branch})]"


def _line_arrays(line: Line) -> list[Any]:
    return [bigints([branch for branch, _ in line]), bigints([cap for _, cap in line])]

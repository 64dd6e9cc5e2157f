"""The writes of a block, and the one statement that makes them.

The statement moves the row of the space. Every other part of it joins the moved row, and so has
rows only if that row was moved:

    with moved as (update spaces set changes = changes + 1 … where … returning number),
         part_1 as (insert into commits select moved.number, … from moved, unnest(…)),
         …
    select number from moved

So it writes everything or, when the row is not as expected, nothing at all.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any

from msgspec import Struct, field
from msgspec.structs import astuple

from rote.engines.postgres.parameters import bigints, byteas, texts
from rote.engines.postgres.reader import Known
from rote.engines.postgres.schema import APPEND_ONE_TAKES
from rote.engines.posting_blocks import blocks_of
from rote.engines.rows import (
    Batch,
    BlobRow,
    ChunkRow,
    DerivedRow,
    EntityRow,
    FactPlace,
    FactRow,
    SegmentRow,
    SideRecord,
    VectorRow,
)
from rote.values.limits import BUSY_SECONDS_MAX

_Row = tuple[Any, ...]

# The types of the columns of each table after the space, in order.
_COMMIT = ("bigint", "bigint", "bytea", "bigint", "text", "text", "bytea", "bytea", "bytea")
_FACT = (
    "bigint", "bigint", "bigint", "text", "bigint", "bytea", "bytea", "bytea", "bytea", "bytea",
)  # fmt: skip
_PLACE = {"id": "text", "version": "bigint", "position": "bigint", "branch": "bigint"}
_ENTITY = ("bigint", "text", "bigint", "bigint")
_SIDE = ("bytea", "bytea", "bigint", "bytea", "bytea")
_BRANCH = ("bigint", "text", "bigint", "bigint", "bigint", "bigint", "bytea")
_DERIVED = ("bytea", "text", "bigint", "bigint", "bigint")
_BLOB = ("bytea", "bytea", "bigint", "bigint", "bytea")
_CHUNK = ("bytea", "bigint", "bytea")
_SEGMENT = ("text", "bigint", "bigint", "bigint", "bytea")
_BLOCK = ("text", "bigint", "bytea", "bytea", "bytea", "bytea")
_VECTOR = ("text", "bytea", "bytea", "bytea")
_ARRAYS: dict[str, Callable[[Iterable[Any]], bytes]] = {
    "bigint": bigints,
    "bytea": byteas,
    "text": texts,
}

# Set for one transaction only, so that later users of the connection are not affected. A server
# that is set not to wait for the disk is overruled; one that waits for more is not.
SYNCHRONOUS = {
    "fsync": (
        "set_config('synchronous_commit', case current_setting('synchronous_commit')"
        " when 'off' then 'on' else current_setting('synchronous_commit') end, true)"
    ),
    "os": "set_config('synchronous_commit', 'off', true)",
}


class Presumed(Struct):
    """Ids and keys that a block presumed absent from the space without a look."""

    ids: set[str] = field(default_factory=set)
    sides: set[tuple[str, str]] = field(default_factory=set)  # kind and key

    def conditions(self, schema: str, space: str, values: list[Any]) -> str:
        """Return conditions that hold only if the presumption is true, each after `and`.

        `space` is the text that stands for the space; values to bind are added to `values`.
        """
        text = ""
        if self.ids:
            values.append(texts(sorted(self.ids)))
            # Each id is looked up on its own: for an array the planner may walk the whole index.
            text += (
                f" and not exists (select from unnest(${len(values)}) as new (id), lateral"
                f" (select from {schema}.facts as f where f.space = {space} and f.id = new.id"
                " limit 1) as old)"
            )
        for kind, key in sorted(self.sides):
            values += [kind.encode(), key.encode()]
            text += (
                f" and not exists (select from {schema}.sides as s where s.space = {space}"
                f" and s.kind = ${len(values) - 1} and s.key = ${len(values)})"
            )
        return text


class Derivation(Struct, frozen=True):
    """The changes of one derived index."""

    rows: Sequence[DerivedRow]
    ended: Sequence[DerivedRow]
    indexed: int


class Packing(Struct, frozen=True):
    """A segment with its postings."""

    row: SegmentRow
    postings: Sequence[tuple[str, bytes]]


class Writes(Struct):
    """Writes to one space that can be made in any order."""

    batch: Batch | None = None
    sides: dict[tuple[str, str], SideRecord | None] = field(default_factory=dict)  # None: dropped
    derived: dict[str, Derivation] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)  # whole derived indexes
    underived: set[str] = field(default_factory=set)  # entities that leave every index
    rewritten: Sequence[FactRow] = ()  # facts that get another salt, body and value
    dropped_facts: Sequence[FactPlace] = ()
    commits_from: int = 0  # commits below it that have neither key nor event are deleted
    blobs: dict[bytes, BlobRow | None] = field(default_factory=dict)  # by upload; None: dropped
    chunks: dict[bytes, Sequence[ChunkRow]] = field(default_factory=dict)
    dropped_chunks: dict[bytes, int] = field(default_factory=dict)  # up to that byte
    # By index and number, and by name and hash; None: dropped.
    segments: dict[tuple[str, int], Packing | None] = field(default_factory=dict)
    vectors: dict[tuple[str, bytes], VectorRow | None] = field(default_factory=dict)

    def takes(self, other: "Writes") -> bool:
        """Whether `other` can be written in the same statement, because nothing is in both."""
        indexes = self.derived.keys() | self.dropped
        chunks = self.chunks.keys() | self.dropped_chunks.keys()
        return (
            (self.batch is None or other.batch is None)
            and not (self._changes_history or other._changes_history)
            and not self.sides.keys() & other.sides.keys()
            and not indexes & (other.derived.keys() | other.dropped)
            and not self.blobs.keys() & other.blobs.keys()
            and not chunks & (other.chunks.keys() | other.dropped_chunks.keys())
            and not self.segments.keys() & other.segments.keys()
            and not self.dropped & {index for index, _ in other.segments}
            and not other.dropped & {index for index, _ in self.segments}
            and not self.vectors.keys() & other.vectors.keys()
        )

    def take(self, other: "Writes") -> None:
        self.batch = self.batch or other.batch
        self.sides.update(other.sides)
        self.derived.update(other.derived)
        self.dropped |= other.dropped
        self.blobs.update(other.blobs)
        self.chunks.update(other.chunks)
        self.dropped_chunks.update(other.dropped_chunks)
        self.segments.update(other.segments)
        self.vectors.update(other.vectors)

    @property
    def _changes_history(self) -> bool:
        return bool(self.underived or self.rewritten or self.dropped_facts or self.commits_from)

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing but a batch and side rows."""
        return not (
            self.derived
            or self.dropped
            or self._changes_history
            or self.blobs
            or self.chunks
            or self.dropped_chunks
            or self.segments
            or self.vectors
        )


def at_once(
    schema: str,
    space: int,
    writes: Writes,
    *,
    expected: Known,
    presumed: Presumed,
    durability: str,
) -> tuple[str, list[Any]]:
    """Return one statement that writes only if the space is as expected and the presumptions hold,
    and its values.

    The statement returns one row when it has written, and none otherwise.
    """
    plain = _plain_values(writes, presumed)
    if plain is None:
        statement = Statement(
            schema, space, writes, expected=expected, presumed=presumed, durability=durability
        )
        return statement.text, statement.values
    hash = b"" if expected.head is None else expected.head.hash
    settings = (f"{BUSY_SECONDS_MAX}s", durability)
    return _append_one(schema), [space, expected.changes, hash, *settings, *plain]


@lru_cache
def _append_one(schema: str) -> str:
    places = ", ".join(f"${number}" for number in range(1, APPEND_ONE_TAKES + 1))
    return f"select where {schema}.append_one({places})"


def _plain_values(writes: Writes, presumed: Presumed) -> list[Any] | None:
    """Return the arguments of append_one after the first five; None when it cannot make these writes."""
    batch = writes.batch
    if batch is None or not writes.is_plain or len(writes.sides) > 1:
        return None
    if len(batch.commits) != 1 or len(batch.facts) != 1 or len(batch.entities) > 1:
        return None
    # The function points to the new fact, which is allowed for an entity that lives on.
    if batch.branches or any(not row.live or row.revived for row in batch.entities):
        return None
    [fact] = batch.facts
    if not (presumed.ids <= {fact.id} and presumed.sides <= writes.sides.keys()):
        return None
    sides = _side_rows(list(writes.sides.values())) if writes.sides else [(None,) * len(_SIDE)]
    if not sides:
        return None
    # The function takes branch and version from the commit.
    rows = (*astuple(batch.commits[0]), *astuple(fact)[2:], *sides[0])
    return [bool(presumed.ids), bool(presumed.sides), *rows]


class Statement:
    """The text and the values of one set of writes."""

    def __init__(
        self,
        schema: str,
        space: int,
        writes: Writes,
        *,
        expected: Known | None = None,
        presumed: Presumed | None = None,
        durability: str = "",
    ) -> None:
        """Build the statement.

        With `expected` it stands alone: it writes only if the space is as expected and the
        presumptions hold, and it makes the settings of its own transaction.
        """
        self._schema = schema
        self._parts: list[str] = []
        self.values: list[Any] = []
        self._move(space, writes.batch, expected, presumed or Presumed(), durability)
        if writes.batch is not None:
            self._append(writes.batch)
        if writes.sides:
            self._put_sides(list(writes.sides.values()))
            self._drop_sides([key for key, row in writes.sides.items() if row is None])
        for index in sorted(writes.dropped):
            self._drop_derived(index)
        for index, derivation in writes.derived.items():
            self._derive(index, derivation)
        self._change_history(writes)
        self._write_blobs(writes)
        self._write_packed(writes)
        self.text = f"with {', '.join(self._parts)} select number from moved"

    def _move(
        self,
        space: int,
        batch: Batch | None,
        expected: Known | None,
        presumed: Presumed,
        durability: str,
    ) -> None:
        head = ""
        if batch is not None and batch.commits:
            newest = batch.commits[-1]
            head = (
                f", version = {self._bind(newest.version)}, hash = {self._bind(newest.hash)}"
                f", at = {self._bind(newest.at)}"
            )
        number = self._bind(space)
        place = f"where number = {number}"
        if expected is not None:
            # The counter alone would do, except on a standby that was promoted without the last
            # commits: its counter may reach the same number again.
            hash = b"" if expected.head is None else expected.head.hash
            place += f" and changes = {self._bind(expected.changes)} and hash = {self._bind(hash)}"
            # These conditions always hold. PostgreSQL evaluates them before it waits for the row.
            place += f" and set_config('lock_timeout', '{BUSY_SECONDS_MAX}s', true) <> ''"
            place += f" and {SYNCHRONOUS[durability]} <> ''"
            place += presumed.conditions(self._schema, number, self.values)
        self._parts.append(
            f"moved as (update {self._schema}.spaces set changes = changes + 1{head} {place}"
            " returning number)"
        )

    def _append(self, batch: Batch) -> None:
        self._insert("commits", _COMMIT, list(map(astuple, batch.commits)))
        self._insert("facts", _FACT, list(map(astuple, batch.facts)))
        replaced = " on conflict (space, branch) do update set"
        replaced += " deleted_version = excluded.deleted_version, seal = excluded.seal"
        branches = list(map(astuple, batch.branches))
        self._insert("branches", _BRANCH, branches, replacing=replaced)
        live = [row for row in batch.entities if row.live]
        dead = [row for row in batch.entities if not row.live]
        moved = " on conflict (space, branch, id) do update set"
        moved += " version = excluded.version, position = excluded.position"
        self._insert("entities", _ENTITY, [_pointer(row) for row in live], replacing=moved)
        self._insert("tombstones", _ENTITY, [_pointer(row) for row in dead], replacing=moved)
        # A pointer that moves here from the other table is deleted there.
        keys = {"branch": "bigint", "id": "text"}
        self._delete("entities", keys, [(row.branch, row.id) for row in dead])
        self._delete("tombstones", keys, [(row.branch, row.id) for row in live if row.revived])

    def _put_sides(self, rows: list[SideRecord | None]) -> None:
        replacing = " on conflict (space, kind, key) do update set"
        replacing += " fence = excluded.fence, body = excluded.body, seal = excluded.seal"
        self._insert("sides", _SIDE, _side_rows(rows), replacing=replacing)

    def _drop_sides(self, keys: list[tuple[str, str]]) -> None:
        encoded = [(kind.encode(), key.encode()) for kind, key in keys]
        self._delete("sides", {"kind": "bytea", "key": "bytea"}, encoded)

    def _derive(self, index: str, derivation: Derivation) -> None:
        name = self._bind(index)
        if derivation.ended:
            rows = self._unnest(_DERIVED, [_term(row) for row in derivation.ended])
            self._add(
                f"update {self._schema}.derived as old set until = ended.until from moved, {rows}"
                " as ended (term, id, branch, start, until)"
                f" where old.space = moved.number and old.name = {name} and old.term = ended.term"
                " and old.id = ended.id and old.branch = ended.branch and old.until is null"
            )
        if derivation.rows:
            rows = self._unnest(_DERIVED, [_term(row) for row in derivation.rows])
            self._add(
                f"insert into {self._schema}.derived select moved.number, {name}, new.*"
                f" from moved, {rows} as new"
            )
        self._add(
            f"insert into {self._schema}.derived_state"
            f" select number, {name}, {self._bind(derivation.indexed)} from moved"
            " on conflict (space, name) do update set indexed = excluded.indexed"
        )

    def _drop_derived(self, index: str) -> None:
        name = self._bind(index)
        for table in ("derived", "derived_state", "segments", "postings"):
            self._add(
                f"delete from {self._schema}.{table} as old using moved"
                f" where old.space = moved.number and old.name = {name}"
            )

    def _change_history(self, writes: Writes) -> None:
        if writes.rewritten:
            values = [
                (f.id, f.version, f.index, f.branch, f.salt, f.body, f.value)
                for f in writes.rewritten
            ]
            rows = self._unnest((*_PLACE.values(), "bytea", "bytea", "bytea"), values)
            same = " and ".join(f"old.{key} = new.{key}" for key in _PLACE)
            self._add(
                f"update {self._schema}.facts as old"
                " set salt = new.salt, body = new.body, value = new.value"
                f" from moved, {rows} as new ({', '.join(_PLACE)}, salt, body, value)"
                f" where old.space = moved.number and {same}"
            )
        self._delete("facts", _PLACE, writes.dropped_facts)
        if writes.commits_from:
            self._add(
                f"delete from {self._schema}.commits as old using moved where"
                f" old.space = moved.number and old.version < {self._bind(writes.commits_from)}"
                " and old.key is null and old.event is null"
            )
        for id in sorted(writes.underived):
            self._add(
                f"delete from {self._schema}.derived as old using moved"
                f" where old.space = moved.number and old.id = {self._bind(id)} and old.name in"
                f" (select name from {self._schema}.derived_state where space = moved.number)"
            )

    def _write_blobs(self, writes: Writes) -> None:
        replacing = " on conflict (space, upload) do update set hash = excluded.hash"
        replacing += ", size = excluded.size, at = excluded.at, seal = excluded.seal"
        rows = [astuple(row) for row in writes.blobs.values() if row is not None]
        self._insert("blobs", _BLOB, rows, replacing=replacing)
        gone = [(upload,) for upload, row in writes.blobs.items() if row is None]
        self._delete("blobs", {"upload": "bytea"}, gone)
        chunks = [
            (upload, row.until, row.data) for upload, new in writes.chunks.items() for row in new
        ]
        self._insert("chunks", _CHUNK, chunks)
        for upload, until in writes.dropped_chunks.items():
            self._add(
                f"delete from {self._schema}.chunks as old using moved where"
                f" old.space = moved.number and old.upload = {self._bind(upload)}"
                f" and old.until <= {self._bind(until)}"
            )

    def _write_packed(self, writes: Writes) -> None:
        added = [(index, new) for (index, _), new in writes.segments.items() if new is not None]
        self._insert("segments", _SEGMENT, [(index, *astuple(new.row)) for index, new in added])
        blocks = [
            (index, new.row.number, term.encode(), *block)
            for index, new in added
            for term, *block in blocks_of(new.postings)
        ]
        self._insert("postings", _BLOCK, blocks)
        gone = sorted(place for place, new in writes.segments.items() if new is None)
        for index, places in groupby(gone, key=itemgetter(0)):
            name, numbers = self._bind(index), self._bind(bigints([n for _, n in places]))
            for table in ("segments", "postings"):
                self._add(
                    f"delete from {self._schema}.{table} as old using moved where old.space ="
                    f" moved.number and old.name = {name} and old.segment = any({numbers})"
                )
        vectors = [(name, *astuple(new)) for (name, _), new in writes.vectors.items() if new]
        self._insert("vectors", _VECTOR, vectors, replacing=" on conflict do nothing")
        lost = [place for place, new in writes.vectors.items() if new is None]
        self._delete("vectors", {"name": "text", "hash": "bytea"}, lost)

    # -- parts -------------------------------------------------------------------------------------

    def _insert(
        self, table: str, kinds: Sequence[str], rows: Sequence[_Row], *, replacing: str = ""
    ) -> None:
        if not rows:
            return
        if len(rows) == 1:
            # By far the most frequent case, and PostgreSQL plans plain values twice as fast.
            columns = self._plain(kinds, rows[0])
        else:
            # The arrays are unnested side by side in the select: for a table made of arrays
            # PostgreSQL would first store every column.
            columns = [f"unnest({array})" for array in self._arrays(kinds, rows)]
        self._add(
            f"insert into {self._schema}.{table} select moved.number, {', '.join(columns)}"
            f" from moved{replacing}"
        )

    def _delete(self, table: str, keys: dict[str, str], rows: Sequence[_Row]) -> None:
        if not rows:
            return
        gone = self._unnest(tuple(keys.values()), rows)
        same = " and ".join(f"old.{key} = gone.{key}" for key in keys)
        self._add(
            f"delete from {self._schema}.{table} as old using moved, {gone}"
            f" as gone ({', '.join(keys)}) where old.space = moved.number and {same}"
        )

    def _add(self, text: str) -> None:
        self._parts.append(f"part_{len(self._parts)} as ({text})")

    def _bind(self, value: Any) -> str:
        self.values.append(value)
        return f"${len(self.values)}"

    def _plain(self, kinds: Sequence[str], row: _Row) -> list[str]:
        return [f"{self._bind(value)}::{kind}" for kind, value in zip(kinds, row, strict=True)]

    def _unnest(self, kinds: Sequence[str], rows: Sequence[_Row]) -> str:
        return f"unnest({', '.join(self._arrays(kinds, rows))})"

    def _arrays(self, kinds: Sequence[str], rows: Sequence[_Row]) -> list[str]:
        columns = zip(kinds, zip(*rows, strict=True), strict=True)
        return [self._bind(_ARRAYS[kind](column)) for kind, column in columns]


def _pointer(row: EntityRow) -> _Row:
    return row.branch, row.id, row.version, row.index


def _side_rows(rows: Sequence[SideRecord | None]) -> list[_Row]:
    """Return the side rows without those that are dropped."""
    return [
        (row.kind.encode(), row.key.encode(), row.fence, row.body, row.seal)
        for row in rows
        if row is not None
    ]


def _term(row: DerivedRow) -> _Row:
    return row.term.encode(), row.id, row.branch, row.start, row.until

"""What a block writes, and the one statement that writes it.

The statement moves the row of the space, and every other part of it takes rows only together with
the row that was moved:

    with moved as (update spaces set changes = changes + 1 … where … returning number),
         part_1 as (insert into commits select moved.number, … from moved, unnest(…) …),
         …
    select number from moved

So it writes all or, when the row is not what was expected, nothing at all.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from rote.engines.postgres.arrays import bigints, byteas, texts
from rote.engines.postgres.reader import Known
from rote.engines.rows import Batch, CommitRow, DerivedRow, EntityRow, FactRow, SideRecord
from rote.values.limits import BUSY_SECONDS_MAX

# In the transaction alone, so nothing is left behind for others of the same connection. A server
# that is told not to wait for the disk is overruled, one that waits for more is not.
SYNCHRONOUS = {
    "fsync": (
        "set_config('synchronous_commit', case current_setting('synchronous_commit')"
        " when 'off' then 'on' else current_setting('synchronous_commit') end, true)"
    ),
    "os": "set_config('synchronous_commit', 'off', true)",
}


class Derivation(Struct, frozen=True):
    """How one derived index moves on."""

    rows: Sequence[DerivedRow]
    ended: Sequence[DerivedRow]
    indexed: int


class Writes(Struct):
    """Writes to one space whose order among each other does not matter."""

    batch: Batch | None = None
    sides: dict[tuple[str, str], SideRecord | None] = field(default_factory=dict)  # None: dropped
    derived: dict[str, Derivation] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)  # whole derived indexes

    def takes(self, other: "Writes") -> bool:
        """Whether `other` can be written at the same time, because nothing is in both."""
        indexes = self.derived.keys() | self.dropped
        return (
            (self.batch is None or other.batch is None)
            and not self.sides.keys() & other.sides.keys()
            and not indexes & (other.derived.keys() | other.dropped)
        )

    def take(self, other: "Writes") -> None:
        self.batch = self.batch or other.batch
        self.sides.update(other.sides)
        self.derived.update(other.derived)
        self.dropped |= other.dropped


class Statement:
    """The text and the values of one set of writes."""

    def __init__(
        self,
        schema: str,
        space: int,
        writes: Writes,
        *,
        expected: Known | None = None,
        durability: str = "",
    ) -> None:
        """With `expected` it stands alone: it writes only if the space is still as expected, and
        brings the settings of its own transaction."""
        self._schema = schema
        self._parts: list[str] = []
        self.values: list[Any] = []
        self._move(space, writes.batch, expected, durability)
        if writes.batch is not None:
            self._append(writes.batch)
        if writes.sides:
            self._put_sides([row for row in writes.sides.values() if row is not None])
            self._drop_sides([key for key, row in writes.sides.items() if row is None])
        for index in sorted(writes.dropped):
            self._drop_derived(index)
        for index, derivation in writes.derived.items():
            self._derive(index, derivation)
        self.text = f"with {', '.join(self._parts)} select number from moved"

    def _bind(self, value: Any) -> str:
        self.values.append(value)
        return f"${len(self.values)}"

    def _unnest(self, *arrays: bytes) -> str:
        return f"unnest({', '.join(map(self._bind, arrays))})"

    def _add(self, text: str) -> None:
        self._parts.append(f"part_{len(self._parts)} as ({text})")

    def _insert(self, table: str, rows: str, *, replacing: str = "") -> None:
        self._add(
            f"insert into {self._schema}.{table} select moved.number, new.*"
            f" from moved, {rows} as new{replacing}"
        )

    def _delete(self, table: str, keys: Sequence[str], rows: str) -> None:
        same = " and ".join(f"old.{key} = gone.{key}" for key in keys)
        self._add(
            f"delete from {self._schema}.{table} as old using moved, {rows}"
            f" as gone ({', '.join(keys)}) where old.space = moved.number and {same}"
        )

    def _move(
        self, space: int, batch: Batch | None, expected: Known | None, durability: str
    ) -> None:
        head = ""
        if batch is not None:
            newest = batch.commits[-1]
            head = (
                f", version = {self._bind(newest.version)}, hash = {self._bind(newest.hash)}"
                f", at = {self._bind(newest.at)}"
            )
        update = f"update {self._schema}.spaces set changes = changes + 1{head}"
        place = f"where number = {self._bind(space)}"
        if expected is not None:
            # Waiting for the row is bounded before it begins.
            self._parts.append(
                "settings as materialized (select"
                f" set_config('lock_timeout', '{BUSY_SECONDS_MAX}s', true),"
                f" {SYNCHRONOUS[durability]})"
            )
            # The counter alone would do, were it not for a standby that was promoted without the
            # last commits: it may count up to the same number again.
            hash = b"" if expected.head is None else expected.head.hash
            update += " from settings"
            place += f" and changes = {self._bind(expected.changes)} and hash = {self._bind(hash)}"
        self._parts.append(f"moved as ({update} {place} returning number)")

    def _append(self, batch: Batch) -> None:
        self._insert("commits", self._unnest(*_commit_columns(batch.commits)))
        self._insert("facts", self._unnest(*_fact_columns(batch.facts)))
        live = [row for row in batch.entities if row.live]
        dead = [row for row in batch.entities if not row.live]
        moved = " on conflict (space, branch, id) do update set"
        moved += " version = excluded.version, position = excluded.position"
        for table, rows in (("entities", live), ("tombstones", dead)):
            if rows:
                self._insert(table, self._unnest(*_entity_columns(rows)), replacing=moved)
        # A pointer that comes from the other table leaves it.
        revived = [row for row in live if row.revived]
        for table, rows in (("entities", dead), ("tombstones", revived)):
            if rows:
                keys = self._unnest(*_entity_columns(rows)[:2])
                self._delete(table, ("branch", "id"), keys)

    def _put_sides(self, rows: list[SideRecord]) -> None:
        if not rows:
            return
        columns = (
            byteas(row.kind.encode() for row in rows),
            byteas(row.key.encode() for row in rows),
            bigints(row.fence for row in rows),
            byteas(row.body for row in rows),
            byteas(row.seal for row in rows),
        )
        replacing = " on conflict (space, kind, key) do update set"
        replacing += " fence = excluded.fence, body = excluded.body, seal = excluded.seal"
        self._insert("sides", self._unnest(*columns), replacing=replacing)

    def _drop_sides(self, keys: list[tuple[str, str]]) -> None:
        if keys:
            columns = [byteas(text.encode() for text in part) for part in zip(*keys, strict=True)]
            self._delete("sides", ("kind", "key"), self._unnest(*columns))

    def _derive(self, index: str, derivation: Derivation) -> None:
        name = self._bind(index)
        if derivation.ended:
            rows = self._unnest(*_derived_columns(derivation.ended))
            self._add(
                f"update {self._schema}.derived as old set until = ended.until from moved, {rows}"
                " as ended (term, id, branch, start, until)"
                f" where old.space = moved.number and old.name = {name} and old.term = ended.term"
                " and old.id = ended.id and old.branch = ended.branch and old.start = ended.start"
            )
        if derivation.rows:
            rows = self._unnest(*_derived_columns(derivation.rows))
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
        for table in ("derived", "derived_state"):
            self._add(
                f"delete from {self._schema}.{table} as old using moved"
                f" where old.space = moved.number and old.name = {name}"
            )


def _commit_columns(rows: Sequence[CommitRow]) -> tuple[bytes, ...]:
    """In the order of the table, after the space."""
    return (
        bigints(row.version for row in rows),
        bigints(row.branch for row in rows),
        byteas(row.hash for row in rows),
        bigints(row.at for row in rows),
        texts(row.author for row in rows),
        texts(row.key for row in rows),
        byteas(row.meta for row in rows),
        byteas(row.event for row in rows),
        byteas(row.attempt for row in rows),
    )


def _fact_columns(rows: Sequence[FactRow]) -> tuple[bytes, ...]:
    return (
        bigints(row.branch for row in rows),
        bigints(row.version for row in rows),
        bigints(row.index for row in rows),
        texts(row.id for row in rows),
        bigints(row.op for row in rows),
        byteas(row.hash for row in rows),
        byteas(row.parent for row in rows),
        byteas(row.salt for row in rows),
        byteas(row.body for row in rows),
        byteas(row.value for row in rows),
    )


def _entity_columns(rows: Sequence[EntityRow]) -> tuple[bytes, ...]:
    return (
        bigints(row.branch for row in rows),
        texts(row.id for row in rows),
        bigints(row.version for row in rows),
        bigints(row.index for row in rows),
    )


def _derived_columns(rows: Sequence[DerivedRow]) -> tuple[bytes, ...]:
    return (
        byteas(row.term.encode() for row in rows),
        texts(row.id for row in rows),
        bigints(row.branch for row in rows),
        bigints(row.start for row in rows),
        bigints(row.until for row in rows),
    )

"""One write transaction on SQLite."""

from collections.abc import Sequence

import apsw

from rote.engines.protocol import OutcomeUnknown
from rote.engines.rows import Batch, DerivedRow, EntityRow, HeadRow, SideRecord
from rote.engines.sqlite.reader import SqliteReader

PUT_ENTITY = "insert or replace into {} values (?, ?, ?, ?, ?)"
DROP_ENTITY = "delete from {} where space = ? and branch = ? and id = ?"


class SqliteWriter(SqliteReader):
    """The engine's one writing connection, inside BEGIN IMMEDIATE."""

    def begin(self) -> None:
        self._cursor.execute("begin immediate")

    def commit(self) -> None:
        try:
            self._cursor.execute("commit")
        except apsw.BusyError:
            # Nothing was decided: the transaction is still open.
            raise
        except apsw.Error as error:
            raise OutcomeUnknown() from error

    def rollback(self) -> None:
        self._heads.clear()
        # Some errors have already ended the transaction.
        if self.connection.in_transaction:
            self._cursor.execute("rollback")

    def append(self, space: int, batch: Batch) -> None:
        execute = self._cursor.execute
        for c in batch.commits:
            execute(
                "insert into commits values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    space, c.version, c.branch, c.hash, c.at, c.author, c.key, c.meta, c.event,
                    c.attempt,
                ),
            )  # fmt: skip
        for f in batch.facts:
            execute(
                "insert into facts values (null, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    space, f.branch, f.version, f.index, f.id, f.op, f.hash, f.parent, f.salt,
                    f.body, f.value,
                ),
            )  # fmt: skip
        for entity in batch.entities:
            self._point(space, entity)
        newest = batch.commits[-1]
        self._heads[space] = HeadRow(newest.version, newest.hash, newest.at)

    def _point(self, space: int, entity: EntityRow) -> None:
        """Move the thin pointer; a deletion moves it to the other table."""
        here, there = ("entities", "tombstones") if entity.live else ("tombstones", "entities")
        key = (space, entity.branch, entity.id)
        self._cursor.execute(PUT_ENTITY.format(here), (*key, entity.version, entity.index))
        if entity.revived or not entity.live:
            self._cursor.execute(DROP_ENTITY.format(there), key)

    def put_side(self, space: int, row: SideRecord) -> None:
        self._cursor.execute(
            "insert or replace into sides values (?, ?, ?, ?, ?, ?)",
            (space, row.kind, row.key, row.fence, row.body, row.seal),
        )

    def drop_side(self, space: int, kind: str, key: str) -> None:
        self._cursor.execute(
            "delete from sides where space = ? and kind = ? and key = ?", (space, kind, key)
        )

    def derive(
        self,
        space: int,
        index: str,
        *,
        rows: Sequence[DerivedRow],
        ended: Sequence[DerivedRow],
        indexed: int,
    ) -> None:
        self._cursor.executemany(
            "update derived set until = ? where space = ? and name = ? and term = ? and id = ?"
            " and branch = ? and start = ?",
            [(r.until, space, index, r.term, r.id, r.branch, r.start) for r in ended],
        )
        self._cursor.executemany(
            "insert into derived values (?, ?, ?, ?, ?, ?, ?)",
            [(space, index, r.term, r.id, r.branch, r.start, r.until) for r in rows],
        )
        self._cursor.execute(
            "insert or replace into derived_state values (?, ?, ?)", (space, index, indexed)
        )

    def drop_derived(self, space: int, index: str) -> None:
        for table in ("derived", "derived_state"):
            self._cursor.execute(
                f"delete from {table} where space = ? and name = ?", (space, index)
            )

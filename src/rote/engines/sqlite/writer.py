"""One write transaction on SQLite."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import apsw
from msgspec.structs import astuple

from rote.engines.posting_blocks import blocks_of
from rote.engines.protocol import OutcomeUnknown
from rote.engines.rows import (
    STORE,
    Batch,
    BlobRow,
    BranchRow,
    ChunkRow,
    DerivedRow,
    EntityRow,
    FactPlace,
    FactRow,
    HeadRow,
    SegmentRow,
    SideRecord,
    VectorRow,
)
from rote.engines.sqlite.reader import SqliteReader
from rote.engines.sqlite.schema import TABLES_OF_SPACES

_PLACE = "space = ? and id = ? and version = ? and position = ? and branch = ?"


class SqliteWriter(SqliteReader):
    """The engine's one writing connection, inside BEGIN IMMEDIATE."""

    _wants_mark = False  # its own commits would move it, and it knows the heads that they make

    def begin(self) -> None:
        self._cursor.execute("begin immediate")

    def commit(self) -> None:
        try:
            self._cursor.execute("commit")
        except (apsw.BusyError, apsw.FullError):
            # COMMIT changed nothing. When others are in the way, the transaction is still open. On a
            # full disk its last frame, which would make it count, did not fit into the log.
            raise
        except apsw.Error as error:
            raise OutcomeUnknown() from error
        if self._chunk_bytes:
            self._passed_chunks(())

    def rollback(self) -> None:
        self._heads.clear()
        # Some errors have already ended the transaction.
        if self.connection.in_transaction:
            self._cursor.execute("rollback")

    def drop_space(self, space: int, *, left: Sequence[SideRecord]) -> None:
        for table in TABLES_OF_SPACES:
            self._cursor.execute(f"delete from {table} where space = ?", (space,))
        self._cursor.execute("delete from spaces where number = ?", (space,))
        for row in left:
            self.put_side(STORE, row)
        self._heads.pop(space, None)

    def presume_absent(
        self, space: int, *, ids: Sequence[str] = (), sides: Sequence[tuple[str, str]] = ()
    ) -> bool:
        return False

    def append(self, space: int, batch: Batch) -> None:
        many = self._cursor.executemany
        many(_commits_into(space), map(astuple, batch.commits))
        many(_facts_into(space), map(astuple, batch.facts))
        many(
            _entities_into(space),
            [(e.branch, e.id, e.version, e.index) for e in batch.entities if e.live],
        )
        for entity in batch.entities:
            if entity.revived or not entity.live:
                self._move_pointer(space, entity)
        for branch in batch.branches:
            self.put_branch(space, branch)
        if batch.commits:
            newest = batch.commits[-1]
            self._heads[space] = HeadRow(newest.version, newest.hash, newest.at)

    def put_branch(self, space: int, row: BranchRow) -> None:
        self._cursor.execute(
            "insert into branches values (?, ?, ?, ?, ?, ?, ?, ?) on conflict (space, branch)"
            " do update set deleted_version = excluded.deleted_version, seal = excluded.seal",
            (space, *astuple(row)),
        )

    def _move_pointer(self, space: int, entity: EntityRow) -> None:
        """Move a pointer from one table to the other after a deletion or a revival."""
        key = (space, entity.branch, entity.id)
        if entity.live:
            self._cursor.execute(
                "delete from tombstones where space = ? and branch = ? and id = ?", key
            )
        else:
            self._cursor.execute(
                "insert or replace into tombstones values (?, ?, ?, ?, ?)",
                (*key, entity.version, entity.index),
            )
            self._cursor.execute(
                "delete from entities where space = ? and branch = ? and id = ?", key
            )

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
        if ended:
            self._cursor.executemany(
                "update derived set until = ? where space = ? and name = ? and term = ? and id = ?"
                " and branch = ? and until is null",
                [(r.until, space, index, r.term, r.id, r.branch) for r in ended],
            )
        self._cursor.executemany(_derived_into(space, index), map(astuple, rows))
        self._cursor.execute(
            "insert or replace into derived_state values (?, ?, ?)", (space, index, indexed)
        )

    def drop_derived(self, space: int, index: str) -> None:
        for table in ("derived", "derived_state", "segments", "postings"):
            self._cursor.execute(
                f"delete from {table} where space = ? and name = ?", (space, index)
            )

    def drop_derived_of(self, space: int, id: str) -> None:
        self._cursor.execute(
            "delete from derived indexed by derived_by_entity where space = ?1 and id = ?2"
            " and name in (select name from derived_state where space = ?1)",
            (space, id),
        )

    def put_segment(
        self, space: int, index: str, row: SegmentRow, postings: Iterable[tuple[str, bytes]]
    ) -> None:
        self._cursor.execute(
            "insert into segments values (null, ?, ?, ?, ?, ?, ?)", (space, index, *astuple(row))
        )
        self._cursor.executemany(_postings_into(space, index, row.number), blocks_of(postings))

    def drop_segments(self, space: int, index: str, numbers: Sequence[int]) -> None:
        for table in ("segments", "postings"):
            self._cursor.executemany(
                f"delete from {table} where space = ? and name = ? and segment = ?",
                [(space, index, number) for number in numbers],
            )

    def put_vectors(self, space: int, name: str, rows: Sequence[VectorRow]) -> None:
        self._cursor.executemany(
            "insert into vectors values (null, ?, ?, ?, ?, ?)"
            " on conflict (space, name, hash) do nothing",
            [(space, name, *astuple(row)) for row in rows],
        )

    def drop_vectors(self, space: int, name: str, hashes: Sequence[bytes]) -> None:
        self._cursor.executemany(
            "delete from vectors where space = ? and name = ? and hash = ?",
            [(space, name, hash) for hash in hashes],
        )

    def rewrite_facts(self, space: int, facts: Sequence[FactRow]) -> None:
        self._cursor.executemany(
            f"update facts set salt = ?, body = ?, value = ? where {_PLACE}",
            [(f.salt, f.body, f.value, space, f.id, f.version, f.index, f.branch) for f in facts],
        )

    def drop_facts(self, space: int, places: Sequence[FactPlace]) -> None:
        self._cursor.executemany(
            f"delete from facts where {_PLACE}", [(space, *place) for place in places]
        )

    def drop_commits(self, space: int, *, before: int) -> None:
        self._cursor.execute(
            "delete from commits where space = ? and version < ? and key is null and event is null",
            (space, before),
        )

    def put_blob(self, space: int, row: BlobRow) -> None:
        # Not "or replace", which would also delete the row of another upload that has the hash.
        self._cursor.execute(
            "insert into blobs values (?, ?, ?, ?, ?, ?) on conflict (space, upload) do update"
            " set hash = excluded.hash, size = excluded.size, at = excluded.at, seal = excluded.seal",
            (space, *astuple(row)),
        )

    def drop_blob(self, space: int, upload: bytes) -> None:
        self._cursor.execute("delete from blobs where space = ? and upload = ?", (space, upload))

    def put_chunks(self, space: int, upload: bytes, rows: Sequence[ChunkRow]) -> None:
        self._cursor.executemany(
            "insert into chunks values (null, ?, ?, ?, ?)",
            [(space, upload, row.until, row.data) for row in rows],
        )
        self._passed_chunks(map(astuple, rows))

    def drop_chunks(self, space: int, upload: bytes, *, until: int) -> None:
        self._cursor.execute(
            "delete from chunks where space = ? and upload = ? and until <= ?",
            (space, upload, until),
        )


@lru_cache
def _commits_into(space: int) -> str:
    """Return the statement that takes the fields of a CommitRow, in order."""
    return f"insert into commits values ({space:d}, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


@lru_cache
def _facts_into(space: int) -> str:
    """Return the statement that takes the fields of a FactRow, in order."""
    return f"insert into facts values (null, {space:d}, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


@lru_cache
def _derived_into(space: int, index: str) -> str:
    """Return the statement that takes the fields of a DerivedRow, in order."""
    name = apsw.format_sql_value(index)
    return f"insert into derived values ({space:d}, {name}, ?, ?, ?, ?, ?)"


def _postings_into(space: int, index: str, segment: int) -> str:
    """Return the statement that takes blocks of postings."""
    name = apsw.format_sql_value(index)
    return f"insert into postings values (null, {space:d}, {name}, {segment:d}, ?, ?, ?, ?)"


@lru_cache
def _entities_into(space: int) -> str:
    return f"insert or replace into entities values ({space:d}, ?, ?, ?, ?)"

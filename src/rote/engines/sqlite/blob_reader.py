"""Reads of blobs and of their data from SQLite."""

from collections.abc import Iterable
from typing import Any

import apsw

from rote.engines.rows import BlobRow, ChunkRow
from rote.values.limits import SQLITE_CHUNK_BYTES_KEPT

BLOB = "upload, hash, size, at, seal"


class BlobReader:
    """The part of a reader that is about blobs."""

    connection: apsw.Connection
    _chunk_bytes = 0  # of data read since memory was last given back

    def _all(self, sql: str, bindings: tuple[Any, ...]) -> list[Any]:
        raise NotImplementedError

    def blob(self, space: int, hash: bytes) -> BlobRow | None:
        rows = self._all(f"select {BLOB} from blobs where space = ? and hash = ?", (space, hash))
        return BlobRow(*rows[0]) if rows else None

    def blobs(self, space: int, *, after: bytes, limit: int) -> list[BlobRow]:
        rows = self._all(
            f"select {BLOB} from blobs where space = ? and hash > ? order by hash limit ?",
            (space, after, limit),
        )
        return [BlobRow(*row) for row in rows]

    def upload(self, space: int, upload: bytes) -> BlobRow | None:
        rows = self._all(
            f"select {BLOB} from blobs where space = ? and upload = ?", (space, upload)
        )
        return BlobRow(*rows[0]) if rows else None

    def uploads(self, space: int, *, after: bytes, limit: int) -> list[BlobRow]:
        rows = self._all(
            f"select {BLOB} from blobs where space = ? and hash is null and upload > ?"
            " order by upload limit ?",
            (space, after, limit),
        )
        return [BlobRow(*row) for row in rows]

    def blob_bytes(self, space: int) -> int:
        rows = self._all("select coalesce(sum(size), 0) from blobs where space = ?", (space,))
        size: int = rows[0][0]
        return size

    def chunks(self, space: int, upload: bytes, *, after: int, limit: int) -> list[ChunkRow]:
        rows = self._all(
            "select until, data from chunks where space = ? and upload = ? and until > ?"
            " order by until limit ?",
            (space, upload, after, limit),
        )
        self._passed_chunks(rows)
        return [ChunkRow(*row) for row in rows]

    def _passed_chunks(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """Give memory back after enough chunks: data passes through the connection only once."""
        self._chunk_bytes += sum(len(data) for _, data in rows)
        if self._chunk_bytes >= SQLITE_CHUNK_BYTES_KEPT and not self.connection.in_transaction:
            self._chunk_bytes = 0
            self._all("pragma shrink_memory", ())

    def chunk_strays(self, space: int) -> int:
        rows = self._all(
            "select count(*) from chunks as c where space = ?1 and not exists"
            " (select 1 from blobs as b where b.space = ?1 and b.upload = c.upload)",
            (space,),
        )
        count: int = rows[0][0]
        return count

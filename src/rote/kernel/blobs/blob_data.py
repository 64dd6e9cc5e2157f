"""The data of blobs: bytes in chunks, and a row that says whether they count.

    upload    each piece is written in a bounded transaction: its chunks, and a row without a hash.
              The data does not count yet
    count     the commit that describes the blob gives the row its hash. The data is durable before,
              and every reader sees the description and the data together
    condemn   the row loses its hash again and its time becomes 0; bounded transactions drop the chunks

A process that dies in between leaves rows without a hash, which gc drops later.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import Any

from msgspec import Struct

from rote.engines import Abandoning, Contended, OutcomeUnknown, Reader, Writer
from rote.engines.rows import BlobRow, ChunkRow
from rote.errors import Busy, InvalidInput, LimitExceeded, RoteError, Unavailable
from rote.kernel.committing.drafts import Draft
from rote.kernel.log.seals import blob_record
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceWriter
from rote.values.limits import (
    BLOB_BYTES_MAX,
    BLOB_CHUNK_BYTES,
    BLOB_DROP_BYTES,
    BLOB_PIECE_BYTES,
    BLOB_ROOM_PARTS,
    CONTENTION_ATTEMPTS_MAX,
    INTEGER_MAX,
    SPACE_BLOB_BYTES_MAX,
    TOKEN_BYTES_MAX,
    UPLOADS_HASHED_MAX,
)

# The time of a row whose chunks are being dropped: nothing may be added to it any more.
CONDEMNED = 0


class BlobDataGone(Unavailable):
    """Raised when gc has collected uploaded data before it counted."""

    def __init__(self) -> None:
        super().__init__(
            "the blob was collected while it was being put; put it again", code=Unavailable.code
        )


class BlobData(Struct, frozen=True, gc=False):
    """The data of a blob that counts from a commit on."""

    hash: bytes
    size: int
    upload: bytes | None  # the token of its chunks; None when the data was stored before

    def row(self, draft: Draft, at: int) -> BlobRow | None:
        """Return the row that makes the data count; None when there is one already."""
        number, rows = draft.space.number, draft.reads.rows
        if self.hash in draft.blobs or rows.blob(number, self.hash) is not None:
            return None
        row = None if self.upload is None else rows.upload(number, self.upload)
        if row is None or row.at == CONDEMNED or row.size != self.size:
            raise BlobDataGone()
        return blob_record(draft.space.did, row.upload, self.hash, row.size, at)


def token_of(upload: object) -> bytes:
    """Return the token that the name of an upload stands for."""
    try:
        token = bytes.fromhex(upload)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        token = b""
    if not 0 < len(token) <= TOKEN_BYTES_MAX:
        raise InvalidInput("an upload is named by what its first piece was answered with")
    return token


def chunks_of(rows: Reader, space: int, token: bytes) -> Iterator[bytes]:
    """Yield the bytes of an upload, in order."""
    after = 0
    while chunks := rows.chunks(space, token, after=after, limit=1):
        yield chunks[0].data
        after = chunks[0].until


class Uploads:
    """The uploads of a space, and the hashers of those that this process receives."""

    def __init__(self, space: OpenSpace) -> None:
        self._space = space
        self._hashed: OrderedDict[bytes, tuple[int, Any]] = OrderedDict()  # size and hasher

    def add(self, token: bytes, offset: int, piece: bytes) -> None:
        """Store a piece durably; it begins where the one before it ended."""
        space, size = self._space, offset + len(piece)
        if len(piece) > BLOB_PIECE_BYTES:
            raise LimitExceeded("a piece in bytes", size=len(piece), limit=BLOB_PIECE_BYTES)
        if size > BLOB_BYTES_MAX:
            raise LimitExceeded(
                "the blob in bytes", size=size, limit=BLOB_BYTES_MAX, advice="split it"
            )
        starts = range(0, len(piece), BLOB_CHUNK_BYTES)
        chunks = [
            ChunkRow(offset + min(start + BLOB_CHUNK_BYTES, len(piece)), chunk)
            for start in starts
            for chunk in [piece[start : start + BLOB_CHUNK_BYTES]]
        ]
        for _ in range(CONTENTION_ATTEMPTS_MAX):
            try:
                with Abandoning(space.engine), space.engine.writer(space.number) as rows:
                    self._append(rows, token, offset, chunks, size)
            except Contended:
                continue
            except OutcomeUnknown as error:
                raise Unavailable(
                    "the store failed while a blob was written; none of it counts, put it again",
                    outcome="not_written",
                ) from error
            self._note(token, offset, piece)
            return
        raise Busy("others write to this space all the time; try again")

    def data(self, token: bytes) -> BlobData:
        """Return the hash and the size of an upload's data."""
        row = self._space.engine.reader().upload(self._space.number, token)
        if row is None or row.at == CONDEMNED:
            raise BlobDataGone()
        size, hasher = self._hashed.get(token, (-1, None))
        if size != row.size:
            size, hasher = 0, sha256()  # another process took a part of it
            for chunk in chunks_of(self._space.engine.reader(), self._space.number, token):
                size += len(chunk)
                hasher.update(chunk)
        if size != row.size:
            raise BlobDataGone()
        return BlobData(hasher.digest(), row.size, token)

    def discard(self, token: bytes) -> None:
        """Drop an upload unless it counts. After an error gc drops it later."""
        self._hashed.pop(token, None)
        with suppress(RoteError):
            row = self._space.engine.reader().upload(self._space.number, token)
            if row is not None and give_up(self._space, row):
                drop(self._space, row)

    def _note(self, token: bytes, offset: int, piece: bytes) -> None:
        size, hasher = self._hashed.pop(token, (0, None))
        if size != offset:
            return
        # A copy: others may hold the old one, of the bytes up to here.
        hasher = sha256() if hasher is None else hasher.copy()
        hasher.update(piece)
        self._hashed[token] = (offset + len(piece), hasher)
        if len(self._hashed) > UPLOADS_HASHED_MAX:
            self._hashed.popitem(last=False)

    def _append(
        self, rows: Writer, token: bytes, offset: int, chunks: list[ChunkRow], size: int
    ) -> None:
        number = self._space.number
        rows.head(number)  # NotFound when the space was erased
        row = rows.upload(number, token)
        if offset and (row is None or row.at == CONDEMNED):
            raise BlobDataGone()
        if offset != (0 if row is None else row.size) or (row is not None and row.hash):
            raise InvalidInput("a piece begins where the last one of its upload ended")
        self._take_room(rows, size - offset)
        at = self._space.wiring.now()
        rows.put_chunks(number, token, chunks)
        rows.put_blob(number, blob_record(self._space.did, token, None, size, at))

    def _take_room(self, rows: Writer, size: int) -> None:
        """Raise LimitExceeded when the space has no room for so many bytes.

        To add up all blobs is slow when there are many. So it is done only after a small part of the
        room has been used up, since other processes use the same room.
        """
        space = self._space
        space.blob_room -= size
        if space.blob_room >= 0:
            return
        kept = rows.blob_bytes(space.number) + size
        if kept > SPACE_BLOB_BYTES_MAX:
            raise LimitExceeded(
                "all blobs of the space in bytes",
                size=kept,
                limit=SPACE_BLOB_BYTES_MAX,
                advice="delete what describes and refers to some, and run gc",
            )
        space.blob_room = (SPACE_BLOB_BYTES_MAX - kept) // BLOB_ROOM_PARTS


def condemn(writes: SpaceWriter, row: BlobRow) -> None:
    """Remove the hash of a row: its data counts no more, takes no pieces, and its chunks may be dropped."""
    record = blob_record(writes.space.did, row.upload, None, row.size, CONDEMNED)
    writes.rows.put_blob(writes.number, record)


def give_up(space: OpenSpace, row: BlobRow) -> bool:
    """Condemn an upload; False when it counts or its row has changed since it was read."""
    if row.hash is not None:
        return False
    with Abandoning(space.engine), space.engine.writer(space.number) as rows:
        if rows.upload(space.number, row.upload) != row:
            return False
        condemn(SpaceWriter(space, rows), row)
    return True


def drop(
    space: OpenSpace,
    row: BlobRow,
    *,
    then: Callable[[SpaceWriter], None] = lambda writes: None,
) -> None:
    """Drop condemned data in transactions of a bounded size.

    The last transaction also drops its row and calls `then`.
    """
    number = space.number
    for until in range(BLOB_DROP_BYTES, row.size, BLOB_DROP_BYTES):
        with Abandoning(space.engine), space.engine.writer(number) as rows:
            rows.drop_chunks(number, row.upload, until=until)
    with Abandoning(space.engine), space.engine.writer(number) as rows:
        rows.drop_chunks(number, row.upload, until=INTEGER_MAX)
        rows.drop_blob(number, row.upload)
        then(SpaceWriter(space, rows))

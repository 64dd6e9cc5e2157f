"""Payloads: bytes that are kept in chunks, and the moment from which they count.

    upload    chunks and a row without a hash, a bounded transaction for each piece; counts nothing
    count     the row gets its hash in the transaction of the commit that describes the blob, so
              the payload is durable before, and whoever sees the one sees the other
    condemn   the row loses its hash again and gets no time; the chunks go in bounded transactions

A process that dies on the way leaves rows without a hash, which gc drops later.
"""

from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256

from msgspec import Struct

from rote.contract import ByteStream, Clock
from rote.engines import Abandoning, Contended, OutcomeUnknown, Writer
from rote.engines.rows import BlobRow, ChunkRow
from rote.errors import Busy, InvalidInput, LimitExceeded, RoteError, Unavailable, invariant
from rote.kernel.committing.drafts import Draft
from rote.kernel.log.seals import blob_record
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceWriter
from rote.values import micros_of
from rote.values.limits import (
    BLOB_BYTES_MAX,
    BLOB_CHUNK_BYTES,
    BLOB_DROP_BYTES,
    BLOB_PIECE_BYTES,
    BLOB_ROOM_PARTS,
    CONTENTION_ATTEMPTS_MAX,
    INTEGER_MAX,
    SPACE_BLOB_BYTES_MAX,
)

# The time of a row whose chunks are being dropped: nothing may be added to it any more.
CONDEMNED = 0


class BlobDataGone(Unavailable):
    """What was uploaded has been collected since."""

    def __init__(self) -> None:
        super().__init__(
            "the blob was collected while it was being put; put it again", code=Unavailable.code
        )


class BlobData(Struct, frozen=True, gc=False):
    """Bytes that a commit makes count."""

    hash: bytes
    size: int
    upload: bytes | None  # where their chunks are; None when they were there before


def counted(draft: Draft, payload: BlobData, at: int) -> BlobRow | None:
    """The row that makes a payload count; None when there is one already."""
    number = draft.space.number
    if payload.hash in draft.blobs or draft.reads.rows.blob(number, payload.hash) is not None:
        return None
    row = None if payload.upload is None else draft.reads.rows.upload(number, payload.upload)
    if row is None or row.at == CONDEMNED:
        raise BlobDataGone()
    invariant(row.size == payload.size, "an upload has another size than was sent")
    return blob_record(draft.space.did, row.upload, payload.hash, row.size, at)


class Upload:
    """Bytes on their way in, under a token of their own."""

    def __init__(self, space: OpenSpace, *, clock: Clock, token: bytes) -> None:
        self._space = space
        self._clock = clock
        self._token = token
        self._size = 0

    def take(self, stream: ByteStream) -> BlobData:
        """Everything that the stream holds; what was taken of one that fails is dropped."""
        try:
            hasher = sha256()
            while True:
                # Nothing is held while the stream is read: it may take its time.
                piece = _read(stream, BLOB_PIECE_BYTES)
                if piece or not self._size:
                    hasher.update(piece)
                    self._keep(piece)
                if len(piece) < BLOB_PIECE_BYTES:
                    return BlobData(hasher.digest(), self._size, self._token)
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Drop it now unless it counts; what cannot be dropped now is collected later."""
        with suppress(RoteError):
            row = self._space.engine.reader().upload(self._space.number, self._token)
            if row is not None and give_up(self._space, row):
                drop(self._space, row)

    def _keep(self, piece: bytes) -> None:
        after = self._size + len(piece)
        if after > BLOB_BYTES_MAX:
            raise LimitExceeded(
                "the blob in bytes", size=after, limit=BLOB_BYTES_MAX, advice="split it"
            )
        starts = range(0, len(piece), BLOB_CHUNK_BYTES)
        chunks = [piece[start : start + BLOB_CHUNK_BYTES] for start in starts]
        rows = [
            ChunkRow(self._size + start + len(chunk), chunk)
            for start, chunk in zip(starts, chunks, strict=True)
        ]
        space = self._space
        for _ in range(CONTENTION_ATTEMPTS_MAX):
            try:
                with Abandoning(space.engine), space.engine.writer(space.number) as writes:
                    self._append(writes, rows, after)
            except Contended:
                continue
            except OutcomeUnknown as error:
                raise Unavailable(
                    "the store failed while a blob was written; none of it counts, put it again",
                    outcome="not_written",
                ) from error
            self._size = after
            return
        raise Busy("others write to this space all the time; try again")

    def _append(self, writes: Writer, rows: list[ChunkRow], size: int) -> None:
        number = self._space.number
        row = writes.upload(number, self._token)
        if self._size and (row is None or row.at == CONDEMNED):
            raise BlobDataGone()
        self._take_room(writes, size - self._size)
        at = micros_of(self._clock.now())
        writes.put_chunks(number, self._token, rows)
        writes.put_blob(number, blob_record(self._space.did, self._token, None, size, at))

    def _take_room(self, writes: Writer, size: int) -> None:
        """To add up all payloads costs more the more there are, so it is done only now and then:
        when a small part of what was left is used up, since others take of it too."""
        space = self._space
        space.blob_room -= size
        if space.blob_room >= 0:
            return
        kept = writes.blob_bytes(space.number) + size
        if kept > SPACE_BLOB_BYTES_MAX:
            raise LimitExceeded(
                "all blobs of the space in bytes", size=kept, limit=SPACE_BLOB_BYTES_MAX,
                advice="delete what describes and refers to some, and run gc",
            )  # fmt: skip
        space.blob_room = (SPACE_BLOB_BYTES_MAX - kept) // BLOB_ROOM_PARTS


def condemn(writes: SpaceWriter, row: BlobRow) -> None:
    """From here on the payload counts nothing and takes nothing; its chunks may go."""
    writes.rows.put_blob(
        writes.number, blob_record(writes.space.did, row.upload, None, row.size, CONDEMNED)
    )


def give_up(space: OpenSpace, row: BlobRow) -> bool:
    """Condemn an upload, unless it counts or has moved since its row was read."""
    if row.hash is not None:
        return False
    with Abandoning(space.engine), space.engine.writer(space.number) as rows:
        writes = SpaceWriter(space, rows)
        if writes.rows.upload(writes.number, row.upload) != row:
            return False
        condemn(writes, row)
    return True


def drop(
    space: OpenSpace,
    row: BlobRow,
    *,
    then: Callable[[SpaceWriter], None] = lambda writes: None,
) -> None:
    """Drop a condemned payload, in transactions of a bounded size, its row last; and what is to be
    done in that last one."""
    number = space.number
    for until in range(BLOB_DROP_BYTES, row.size, BLOB_DROP_BYTES):
        with Abandoning(space.engine), space.engine.writer(number) as writes:
            writes.drop_chunks(number, row.upload, until=until)
    with Abandoning(space.engine), space.engine.writer(number) as rows:
        rows.drop_chunks(number, row.upload, until=INTEGER_MAX)
        rows.drop_blob(number, row.upload)
        then(SpaceWriter(space, rows))


def _read(stream: ByteStream, size: int) -> bytes:
    """So many bytes, less only at the end: a stream may give fewer than it was asked for."""
    parts = []
    while size:
        data: object = stream.read(size)
        # Of its own and counted by itself: a view counts items, which may be of several bytes.
        part = bytes(data) if isinstance(data, bytes | bytearray | memoryview) else None
        if part is None or len(part) > size:
            raise InvalidInput("a blob is bytes, or a stream that is read in binary")
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)

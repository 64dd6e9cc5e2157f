"""Blobs as bytes and files: sent and read in pieces, over any port."""

from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from io import SEEK_CUR, SEEK_END, SEEK_SET, BufferedReader, BytesIO, RawIOBase
from typing import Any

from msgspec import structs

from rote.contract import ByteStream, Port
from rote.contract.commands import DropUpload, PutBlob, PutPiece, ReadPiece
from rote.errors import Corrupt, InvalidInput, RoteError, invariant
from rote.values.blobs import check_blob_hash, check_content_type, check_expected, check_labels
from rote.values.limits import BLOB_PIECE_BYTES

_BUFFER_BYTES = 64 * 1024


def check_data(data: Any) -> Any:
    """Return bytes, or the stream to read them from; raise InvalidInput for anything else."""
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    if isinstance(data, bytes) or callable(getattr(data, "read", None)):
        return data
    raise InvalidInput("a blob is bytes, or a stream that is read in binary")


def put_blob(port: Port, did: str, data: bytes | ByteStream, command: PutBlob) -> str:
    """Store data once and describe it; return its hash. After an error no part of it counts."""
    check_content_type(command.content_type)
    check_labels(command.labels)
    if command.expect is not None:
        check_blob_hash(command.expect)
    if isinstance(data, bytes):
        hash = sha256(data).hexdigest()
        check_expected(command.expect, hash)
        if port.answer(did, structs.replace(command, expect=hash)) is not None:
            return hash
        data = BytesIO(data)
    upload = send(port, did, data)
    try:
        put = port.answer(did, structs.replace(command, upload=upload))
    finally:
        # Drops the upload unless it counts now: others may have stored the same data before.
        drop_upload(port, did, upload)
    invariant(put is not None, "an upload was put and has no hash")
    return str(put)


def send(port: Port, did: str, stream: ByteStream) -> str:
    """Upload everything that a stream holds; return the name of the upload.

    When the stream fails, the upload is dropped.
    """
    upload: str | None = None
    offset = 0
    try:
        while True:
            # No lock or transaction is held while the stream is read: it may be slow.
            piece = _read(stream, BLOB_PIECE_BYTES)
            if piece or upload is None:
                upload = port.answer(did, PutPiece(upload, offset, piece))
                offset += len(piece)
            if len(piece) < BLOB_PIECE_BYTES:
                return upload
    except BaseException:
        if upload is not None:
            drop_upload(port, did, upload)
        raise


def drop_upload(port: Port, did: str, upload: str) -> None:
    with suppress(RoteError):  # after an error gc drops it later
        port.answer(did, DropUpload(upload))


class Joined:
    """A stream of bytes that joins parts."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._rest = b""

    def read(self, size: int) -> bytes:
        if not self._rest:
            self._rest = next(self._parts, b"")
        part, self._rest = self._rest[:size], self._rest[size:]
        return part


def _read(stream: ByteStream, size: int) -> bytes:
    """Return so many bytes, fewer only at the end. One read of a stream may return fewer."""
    parts = []
    while size:
        data: object = stream.read(size)
        # A copy as bytes: the length of a memoryview is in items, which may have several bytes.
        part = bytes(data) if isinstance(data, bytes | bytearray | memoryview) else None
        if part is None or len(part) > size:
            raise InvalidInput("a blob is bytes, or a stream that is read in binary")
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def open_blob(port: Port, did: str, hash: str, size: int) -> BufferedReader:
    return BufferedReader(BlobFile(port, did, hash, size), _BUFFER_BYTES)


class BlobFile(RawIOBase):
    """A blob as a file. It reads pieces as they are needed and holds one.

    When the bytes are read in order from first to last, their hash is compared at the end.
    """

    def __init__(self, port: Port, did: str, hash: str, size: int) -> None:
        super().__init__()
        self._port = port
        self._did = did
        self._hash = hash
        self._size = size
        self._place = 0
        self._piece = memoryview(b"")
        self._piece_start = 0
        self._hasher = sha256()
        self._proved = 0  # bytes that the hasher has seen, from the first on

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = SEEK_SET, /) -> int:
        starts = {SEEK_SET: 0, SEEK_CUR: self._place, SEEK_END: self._size}
        place = starts[whence] + offset
        if place < 0:
            raise ValueError("a file has no place before its beginning")
        self._place = place
        return place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: Any, /) -> int:
        part = self._next()[: len(buffer)]
        buffer[: len(part)] = part
        self._place += len(part)
        return len(part)

    def readall(self) -> bytes:
        # The buffer of a BytesIO becomes the answer without a copy.
        whole = BytesIO()
        while part := self._next():
            whole.write(part)
            self._place += len(part)
        return whole.getvalue()

    def _next(self) -> memoryview:
        """Return the bytes from the place on, up to the end of a piece; none at the end of the blob."""
        inside = self._place - self._piece_start
        if not 0 <= inside < len(self._piece):
            data = self._port.answer(self._did, ReadPiece(self._hash, self._place))
            self._piece, self._piece_start, inside = memoryview(data), self._place, 0
            self._prove()
        return self._piece[inside:]

    def _prove(self) -> None:
        if self._piece_start != self._proved or not self._piece:
            return
        self._hasher.update(self._piece)
        self._proved += len(self._piece)
        if self._proved >= self._size and self._hasher.hexdigest() != self._hash:
            raise Corrupt(f"the blob {self._hash} is damaged; run `rote verify`", blob=self._hash)

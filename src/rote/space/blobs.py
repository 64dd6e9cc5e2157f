"""A blob as a file to read, whoever answers the port."""

from hashlib import sha256
from io import SEEK_CUR, SEEK_END, SEEK_SET, BufferedReader, BytesIO, RawIOBase
from typing import Any

from rote.contract import Port
from rote.errors import Corrupt, InvalidInput

_BUFFER_BYTES = 64 * 1024


def check_data(data: Any) -> Any:
    """Bytes, or something to read bytes from."""
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    if isinstance(data, bytes) or callable(getattr(data, "read", None)):
        return data
    raise InvalidInput("a blob is bytes, or a stream that is read in binary")


def open_blob(port: Port, did: str, hash: str, size: int) -> BufferedReader:
    return BufferedReader(BlobFile(port, did, hash, size), _BUFFER_BYTES)


class BlobFile(RawIOBase):
    """Reads pieces as they are needed and holds one. Whoever reads from the first byte to the last
    in order gets them proved: at the end their hash is compared."""

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
        # Its buffer becomes the answer without a copy.
        whole = BytesIO()
        while part := self._next():
            whole.write(part)
            self._place += len(part)
        return whole.getvalue()

    def _next(self) -> memoryview:
        """What is at the place, as far as it is at hand; empty at the end."""
        inside = self._place - self._piece_start
        if not 0 <= inside < len(self._piece):
            data = self._port.blob_piece(self._did, self._hash, offset=self._place)
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

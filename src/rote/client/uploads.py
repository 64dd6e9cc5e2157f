"""Uploads: bytes that wait here until a command says what they are, and are then sent in one stream.

So a stream that breaks can be sent again, and a server never has a part of an upload that nobody ends.
"""

import threading
from collections.abc import Callable
from hashlib import sha256
from tempfile import SpooledTemporaryFile

from rote.client.calls import Body
from rote.contract import IdSource
from rote.contract.commands import PutPiece
from rote.errors import InvalidInput, LimitExceeded, NotFound, system_failure
from rote.values.client_limits import UPLOAD_MEMORY_BYTES_MAX
from rote.values.limits import BLOB_BYTES_MAX, BLOB_PIECE_BYTES


class Upload:
    """The bytes of one upload; up to some in memory, more in a file without a name."""

    def __init__(self) -> None:
        # It stays open until the upload is dropped.
        self._file: SpooledTemporaryFile[bytes] = SpooledTemporaryFile(  # noqa: SIM115
            UPLOAD_MEMORY_BYTES_MAX
        )
        self.size = 0

    def add(self, offset: int, piece: bytes) -> None:
        if offset != self.size:
            raise InvalidInput("a piece begins where the last one of its upload ended")
        if len(piece) > BLOB_PIECE_BYTES:
            raise LimitExceeded("a piece in bytes", size=len(piece), limit=BLOB_PIECE_BYTES)
        if offset + len(piece) > BLOB_BYTES_MAX:
            raise LimitExceeded(
                "the blob in bytes",
                size=offset + len(piece),
                limit=BLOB_BYTES_MAX,
                advice="split it",
            )
        try:
            self._file.seek(self.size)
            self._file.write(piece)
        except OSError as error:
            raise system_failure(
                "an upload cannot be kept", error, "the temporary folder"
            ) from None
        self.size += len(piece)

    @property
    def body(self) -> Body:
        return Body(self.size, self._from_start)

    def hash(self) -> str:
        """Return the SHA-256 of its bytes."""
        hasher, read = sha256(), self._from_start()
        while piece := read(BLOB_PIECE_BYTES):
            hasher.update(piece)
        return hasher.hexdigest()

    def close(self) -> None:
        self._file.close()

    def _from_start(self) -> Callable[[int], bytes]:
        self._file.seek(0)
        return self._file.read


class Uploads:
    """The uploads of a store, by their names."""

    def __init__(self, ids: IdSource) -> None:
        self._ids = ids
        self._lock = threading.Lock()
        self._named: dict[str, Upload] = {}

    def put(self, command: PutPiece) -> str:
        """Add a piece to an upload; return its name."""
        if type(command.data) is not bytes:
            raise InvalidInput("a piece is bytes")
        if type(command.offset) is not int or command.offset < 0:
            raise InvalidInput("an offset is an integer from 0 on, of 64 bits")
        if command.upload is not None:
            self.find(command.upload).add(command.offset, command.data)
            return command.upload
        name, upload = self._ids.random_bytes(16).hex(), Upload()
        upload.add(command.offset, command.data)
        with self._lock:
            self._named[name] = upload
        return name

    def find(self, name: object) -> Upload:
        found = self._named.get(name) if type(name) is str else None
        if found is None:
            raise NotFound("there is no such upload; it was dropped, or it has become a blob")
        return found

    def drop(self, name: object) -> None:
        with self._lock:
            found = self._named.pop(name, None) if type(name) is str else None
        if found is not None:
            found.close()

    def close(self) -> None:
        for name in tuple(self._named):
            self.drop(name)

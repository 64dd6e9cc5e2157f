"""The calls of a space that store large bytes and return them."""

from collections.abc import Sequence
from io import BufferedReader

from rote.contract import BlobInfo, ByteStream
from rote.contract.commands import GetBlobInfo, PutBlob
from rote.space.blobs import BlobFile, check_data, open_blob, put_blob
from rote.space.upkeep import Upkeep
from rote.values.blobs import CONTENT_TYPE_DEFAULT


class BlobCalls(Upkeep):
    """The part of a Space that keeps blobs; with the part that looks after it."""

    def put_blob(
        self,
        data: bytes | bytearray | memoryview | ByteStream,
        content_type: str = CONTENT_TYPE_DEFAULT,
        *,
        labels: Sequence[str] = (),
        expect: str | None = None,
        key: str | None = None,
    ) -> str:
        """Store bytes, or all that a stream holds; return their SHA-256, which names the blob.

        The same bytes are stored once. The entity `urn:blob-meta:<hash>` describes them.
        """
        self._check_writable("put_blob")
        command = PutBlob(None, content_type, labels, expect, key, self._view.branch)
        return put_blob(self._port, self._did, check_data(data), command)

    def blob(self, hash: str) -> bytes:
        """Return the bytes of a blob, compared with their hash."""
        return BlobFile(self._port, self._did, hash, self.blob_info(hash).size).readall()

    def open_blob(self, hash: str) -> BufferedReader:
        """Open a blob as a file, which needs little memory for any size."""
        return open_blob(self._port, self._did, hash, self.blob_info(hash).size)

    def blob_info(self, hash: str) -> BlobInfo:
        """Return size, type and labels of a blob, without reading its data."""
        return self._port.answer(self._did, GetBlobInfo(hash, self._view))

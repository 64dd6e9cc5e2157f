"""Blobs of a space: putting, describing and reading them. What becomes of their bytes is payloads.py."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from io import BytesIO

from rote.contract import (
    BlobInfo,
    BlobPart,
    BlobRequest,
    ByteStream,
    Clock,
    CommitRequest,
    State,
    View,
)
from rote.engines import Abandoning
from rote.engines.rows import BlobRow
from rote.errors import Corrupt, InvalidInput, NotFound
from rote.kernel.committing.blob_data import CONDEMNED, BlobData, BlobDataGone, Upload
from rote.kernel.log.page_sizes import page_size
from rote.kernel.log.seals import blob_record
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader
from rote.values import Json, canonical, micros_of
from rote.values.blobs import (
    CONTENT_TYPE_DEFAULT,
    check_blob_hash,
    check_content_type,
    check_labels,
    is_blob_hash,
    meta_id,
)

# Commits a request that makes a payload count.
CommitBlob = Callable[[OpenSpace, CommitRequest, BlobData], object]
ReadStates = Callable[[str, Sequence[str], View], tuple[State, ...]]


class BlobKeeper:
    """The blobs of the spaces of one engine."""

    def __init__(
        self,
        *,
        clock: Clock,
        token: Callable[[], bytes],
        commit: CommitBlob,
        read: ReadStates,
    ) -> None:
        self._clock = clock
        self._token = token
        self._commit = commit
        self._read = read

    # -- putting -----------------------------------------------------------------------------------

    def put(self, space: OpenSpace, data: bytes | ByteStream, request: BlobRequest) -> str:
        """Store the bytes once, then describe them by a commit; their hash."""
        space.engine.check_usable()
        _check(request)
        if isinstance(data, bytes):
            payload = BlobData(sha256(data).digest(), len(data), None)
            _check_expected(request, payload)
            if self._is_there(space, payload):
                try:
                    return self._describe(space, payload, request)
                except BlobDataGone:
                    pass  # collected in between
            data = BytesIO(data)
        return self._upload(space, data, request)

    def _upload(self, space: OpenSpace, stream: ByteStream, request: BlobRequest) -> str:
        upload = Upload(space, clock=self._clock, token=self._token())
        payload = upload.take(stream)
        try:
            _check_expected(request, payload)
            return self._describe(space, payload, request)
        finally:
            # Unless it counts now: others may have stored the same bytes before.
            upload.discard()

    def _describe(self, space: OpenSpace, payload: BlobData, request: BlobRequest) -> str:
        hash = payload.hash.hex()
        meta = {
            "blob": hash,
            "contentType": request.content_type,
            "labels": list(request.labels),
            "size": payload.size,
        }
        if request.key is None and self._is_there(space, payload):
            state = self._described(space, hash, View(request.branch))
            if state.exists and canonical(state.value) == canonical(meta):
                return hash  # the same bytes with the same words: nothing to say
        operation = {"op": "set", "id": meta_id(hash), "value": meta}
        wanted = CommitRequest([operation], branch=request.branch, key=request.key)
        self._commit(space, wanted, payload)
        return hash

    def _is_there(self, space: OpenSpace, payload: BlobData) -> bool:
        return space.engine.reader().blob(space.number, payload.hash) is not None

    # -- reading -----------------------------------------------------------------------------------

    def info(self, space: OpenSpace, hash: str, view: View) -> BlobInfo:
        """The size as it is stored, the rest as the view describes it."""
        row = self._row(space.reader(), hash)
        value = self._described(space, hash, view).value
        meta: dict[str, Json] = value if type(value) is dict else {}
        content_type, labels = meta.get("contentType"), meta.get("labels")
        return BlobInfo(
            hash,
            row.size,
            content_type if type(content_type) is str else CONTENT_TYPE_DEFAULT,
            tuple(str(label) for label in labels) if type(labels) is list else (),
        )

    def _described(self, space: OpenSpace, hash: str, view: View) -> State:
        return self._read(space.did, (meta_id(hash),), view)[0]

    def piece(self, space: OpenSpace, hash: str, offset: int) -> bytes:
        """Bytes from there on, as many as come at once; none at the end and beyond."""
        if type(offset) is not int or offset < 0:
            raise InvalidInput("an offset is an integer from 0 on")
        reads = space.reader()
        row = self._row(reads, hash)
        if offset >= row.size:
            return b""
        for chunk in reads.rows.chunks(reads.number, row.upload, after=offset, limit=1):
            start = chunk.until - len(chunk.data)
            if start <= offset and chunk.until <= row.size:
                return chunk.data[offset - start :] if offset > start else chunk.data
        # Perhaps it was collected between the two looks.
        self._row(reads, hash)
        raise Corrupt(f"the blob {hash} is damaged at byte {offset}; run `rote verify`", blob=hash)

    def _row(self, reads: SpaceReader, hash: str) -> BlobRow:
        check_blob_hash(hash)
        row = reads.rows.blob(reads.number, bytes.fromhex(hash))
        if row is None:
            raise NotFound(f"there is no blob {hash} in this space", blob=hash)
        if row != blob_record(reads.space.did, row.upload, row.hash, row.size, row.at):
            # Its bytes would tell, but there may be none of them left to look at.
            raise Corrupt(f"the row of blob {hash} was changed; run `rote verify`", blob=hash)
        return row

    # -- copies ------------------------------------------------------------------------------------

    def page(self, space: OpenSpace, *, after: str, limit: int) -> tuple[BlobPart, ...]:
        if after and not is_blob_hash(after):
            raise InvalidInput("a page begins after a hash, or after nothing")
        rows = space.engine.reader().blobs(
            space.number, after=bytes.fromhex(after), limit=page_size(limit)
        )
        return tuple(BlobPart((row.hash or b"").hex(), row.size) for row in rows)

    def adopt(self, space: OpenSpace, hash: str, stream: ByteStream) -> bool:
        """Take in a payload that another store has; whether it was new. The commit that describes
        it is copied as any other."""
        space.engine.check_usable()
        check_blob_hash(hash)
        wanted = bytes.fromhex(hash)
        if space.engine.reader().blob(space.number, wanted) is not None:
            return False
        upload = Upload(space, clock=self._clock, token=self._token())
        payload = upload.take(stream)
        try:
            if payload.hash != wanted:
                raise Corrupt(
                    f"the blob {hash} of the source is not what was written; nothing of it was"
                    " copied, run `rote verify` on the source",
                    blob=hash,
                )
            return self._count(space, payload)
        finally:
            upload.discard()

    def _count(self, space: OpenSpace, payload: BlobData) -> bool:
        assert payload.upload is not None
        at = micros_of(self._clock.now())
        with Abandoning(space.engine), space.engine.writer(space.number) as rows:
            if rows.blob(space.number, payload.hash) is not None:
                return False
            row = rows.upload(space.number, payload.upload)
            if row is None or row.at == CONDEMNED:
                raise BlobDataGone()
            record = blob_record(space.did, row.upload, payload.hash, row.size, at)
            rows.put_blob(space.number, record)
        return True


def _check(request: BlobRequest) -> None:
    check_content_type(request.content_type)
    check_labels(request.labels)
    if request.expect is not None:
        check_blob_hash(request.expect)


def _check_expected(request: BlobRequest, payload: BlobData) -> None:
    hash = payload.hash.hex()
    if request.expect not in (None, hash):
        raise InvalidInput(
            f"the bytes have the hash {hash}, not {request.expect}; nothing was stored",
            expected=request.expect,
            actual=hash,
        )

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
from rote.engines import Abandoning, Engine, Reader
from rote.engines.rows import BlobRow
from rote.errors import Corrupt, InvalidInput, NotFound
from rote.kernel.committing.blob_data import CONDEMNED, BlobData, BlobDataGone, Upload
from rote.kernel.log.page_sizes import page_size
from rote.kernel.log.seals import blob_record
from rote.kernel.state.cache import SpaceCache
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
CommitBlob = Callable[[SpaceCache, CommitRequest, BlobData], object]
ReadStates = Callable[[str, Sequence[str], View], tuple[State, ...]]


class BlobKeeper:
    """The blobs of the spaces of one engine."""

    def __init__(
        self,
        engine: Engine,
        *,
        clock: Clock,
        token: Callable[[], bytes],
        commit: CommitBlob,
        read: ReadStates,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._token = token
        self._commit = commit
        self._read = read

    # -- putting -----------------------------------------------------------------------------------

    def put(self, cache: SpaceCache, data: bytes | ByteStream, request: BlobRequest) -> str:
        """Store the bytes once, then describe them by a commit; their hash."""
        self._engine.check_usable()
        _check(request)
        if isinstance(data, bytes):
            payload = BlobData(sha256(data).digest(), len(data), None)
            _check_expected(request, payload)
            if self._is_there(cache, payload):
                try:
                    return self._describe(cache, payload, request)
                except BlobDataGone:
                    pass  # collected in between
            data = BytesIO(data)
        return self._upload(cache, data, request)

    def _upload(self, cache: SpaceCache, stream: ByteStream, request: BlobRequest) -> str:
        upload = Upload(self._engine, cache, clock=self._clock, token=self._token())
        payload = upload.take(stream)
        try:
            _check_expected(request, payload)
            return self._describe(cache, payload, request)
        finally:
            # Unless it counts now: others may have stored the same bytes before.
            upload.discard()

    def _describe(self, cache: SpaceCache, payload: BlobData, request: BlobRequest) -> str:
        hash = payload.hash.hex()
        meta = {
            "blob": hash,
            "contentType": request.content_type,
            "labels": list(request.labels),
            "size": payload.size,
        }
        if request.key is None and self._is_there(cache, payload):
            state = self._described(cache, hash, View(request.branch))
            if state.exists and canonical(state.value) == canonical(meta):
                return hash  # the same bytes with the same words: nothing to say
        operation = {"op": "set", "id": meta_id(hash), "value": meta}
        wanted = CommitRequest([operation], branch=request.branch, key=request.key)
        self._commit(cache, wanted, payload)
        return hash

    def _is_there(self, cache: SpaceCache, payload: BlobData) -> bool:
        return self._engine.reader().blob(cache.number, payload.hash) is not None

    # -- reading -----------------------------------------------------------------------------------

    def info(self, cache: SpaceCache, hash: str, view: View) -> BlobInfo:
        """The size as it is stored, the rest as the view describes it."""
        row = self._row(cache, self._engine.reader(), hash)
        value = self._described(cache, hash, view).value
        meta: dict[str, Json] = value if type(value) is dict else {}
        content_type, labels = meta.get("contentType"), meta.get("labels")
        return BlobInfo(
            hash,
            row.size,
            content_type if type(content_type) is str else CONTENT_TYPE_DEFAULT,
            tuple(str(label) for label in labels) if type(labels) is list else (),
        )

    def _described(self, cache: SpaceCache, hash: str, view: View) -> State:
        return self._read(cache.did, (meta_id(hash),), view)[0]

    def piece(self, cache: SpaceCache, hash: str, offset: int) -> bytes:
        """Bytes from there on, as many as come at once; none at the end and beyond."""
        if type(offset) is not int or offset < 0:
            raise InvalidInput("an offset is an integer from 0 on")
        reads = self._engine.reader()
        row = self._row(cache, reads, hash)
        if offset >= row.size:
            return b""
        for chunk in reads.chunks(cache.number, row.upload, after=offset, limit=1):
            start = chunk.until - len(chunk.data)
            if start <= offset and chunk.until <= row.size:
                return chunk.data[offset - start :] if offset > start else chunk.data
        # Perhaps it was collected between the two looks.
        self._row(cache, reads, hash)
        raise Corrupt(f"the blob {hash} is damaged at byte {offset}; run `rote verify`", blob=hash)

    def _row(self, cache: SpaceCache, reads: Reader, hash: str) -> BlobRow:
        check_blob_hash(hash)
        row = reads.blob(cache.number, bytes.fromhex(hash))
        if row is None:
            raise NotFound(f"there is no blob {hash} in this space", blob=hash)
        if row != blob_record(cache.did, row.upload, row.hash, row.size, row.at):
            # Its bytes would tell, but there may be none of them left to look at.
            raise Corrupt(f"the row of blob {hash} was changed; run `rote verify`", blob=hash)
        return row

    # -- copies ------------------------------------------------------------------------------------

    def page(self, cache: SpaceCache, *, after: str, limit: int) -> tuple[BlobPart, ...]:
        if after and not is_blob_hash(after):
            raise InvalidInput("a page begins after a hash, or after nothing")
        rows = self._engine.reader().blobs(
            cache.number, after=bytes.fromhex(after), limit=page_size(limit)
        )
        return tuple(BlobPart((row.hash or b"").hex(), row.size) for row in rows)

    def adopt(self, cache: SpaceCache, hash: str, stream: ByteStream) -> bool:
        """Take in a payload that another store has; whether it was new. The commit that describes
        it is copied as any other."""
        self._engine.check_usable()
        check_blob_hash(hash)
        wanted = bytes.fromhex(hash)
        if self._engine.reader().blob(cache.number, wanted) is not None:
            return False
        upload = Upload(self._engine, cache, clock=self._clock, token=self._token())
        payload = upload.take(stream)
        try:
            if payload.hash != wanted:
                raise Corrupt(
                    f"the blob {hash} of the source is not what was written; nothing of it was"
                    " copied, run `rote verify` on the source",
                    blob=hash,
                )
            return self._count(cache, payload)
        finally:
            upload.discard()

    def _count(self, cache: SpaceCache, payload: BlobData) -> bool:
        assert payload.upload is not None
        at = micros_of(self._clock.now())
        with Abandoning(self._engine), self._engine.writer(cache.number) as writes:
            if writes.blob(cache.number, payload.hash) is not None:
                return False
            row = writes.upload(cache.number, payload.upload)
            if row is None or row.at == CONDEMNED:
                raise BlobDataGone()
            record = blob_record(cache.did, row.upload, payload.hash, row.size, at)
            writes.put_blob(cache.number, record)
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

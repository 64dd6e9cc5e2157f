"""Blobs of a space: putting, describing and reading them. Their data is kept by blob_data.py."""

from rote.contract import BlobInfo, BlobPart, Caller, State, View
from rote.contract.commands import (
    AdoptBlob,
    DropUpload,
    GetBlobInfo,
    ListBlobs,
    MakeCommit,
    PutBlob,
    PutPiece,
    Read,
    ReadPiece,
)
from rote.engines import Abandoning
from rote.engines.rows import BlobRow
from rote.errors import Corrupt, InvalidInput, NotFound
from rote.kernel.blobs.blob_data import CONDEMNED, BlobData, BlobDataGone, Uploads, token_of
from rote.kernel.committing.committer import Committer
from rote.kernel.committing.conditions import check_form
from rote.kernel.committing.jobs import job_of
from rote.kernel.log.page_sizes import page_size
from rote.kernel.log.seals import blob_record
from rote.kernel.reading.entities import read
from rote.kernel.state.open_space import OpenSpace
from rote.kernel.state.space_reader import SpaceReader
from rote.values import Json, canonical
from rote.values.blobs import (
    CONTENT_TYPE_DEFAULT,
    check_blob_hash,
    check_content_type,
    check_expected,
    check_labels,
    is_blob_hash,
    meta_id,
)
from rote.values.limits import INTEGER_MAX

# -- uploads ---------------------------------------------------------------------------------------


def put_piece(space: OpenSpace, command: PutPiece) -> str:
    space.engine.check_usable()
    if type(command.data) is not bytes:
        raise InvalidInput("a piece is bytes")
    _check_offset(command.offset)
    upload = command.upload
    token = space.wiring.tokens.token() if upload is None else token_of(upload)
    space.part(Uploads).add(token, command.offset, command.data)
    return token.hex()


def drop_upload(space: OpenSpace, command: DropUpload) -> None:
    space.part(Uploads).discard(token_of(command.upload))


# -- putting ---------------------------------------------------------------------------------------


def put_blob(space: OpenSpace, command: PutBlob, caller: Caller) -> str | None:
    """Describe data by a commit, from which on it counts; return its hash."""
    space.engine.check_usable()
    check_form(command.only_if)
    check_content_type(command.content_type)
    check_labels(command.labels)
    if command.expect is not None:
        check_blob_hash(command.expect)
    if command.upload is not None:
        data = space.part(Uploads).data(token_of(command.upload))
        check_expected(command.expect, data.hash.hex())
        return _describe(space, data, command, caller)
    if command.expect is None:
        raise InvalidInput("a blob is put by its upload, or by the hash of bytes that are there")
    there = space.engine.reader().blob(space.number, bytes.fromhex(command.expect))
    if there is None:
        return None
    try:
        data = BlobData(bytes.fromhex(command.expect), there.size, None)
        return _describe(space, data, command, caller)
    except BlobDataGone:
        return None  # collected in between


def _describe(space: OpenSpace, data: BlobData, command: PutBlob, caller: Caller) -> str:
    hash = data.hash.hex()
    meta = {
        "blob": hash,
        "contentType": command.content_type,
        "labels": list(command.labels),
        "size": data.size,
    }
    is_there = space.engine.reader().blob(space.number, data.hash) is not None
    if command.key is None and is_there:
        state = _described(space, hash, View(command.branch))
        if state.exists and canonical(state.value) == canonical(meta):
            return hash  # the same data and the same description: nothing to commit
    operation = {"op": "set", "id": meta_id(hash), "value": meta}
    wanted = MakeCommit(
        [operation], branch=command.branch, key=command.key, attempt=command.attempt
    )
    job = job_of(wanted, caller, space.wiring.tokens.token())
    job.condition = command.only_if
    job.attachment = data
    space.part(Committer).commit(job)
    return hash


# -- reading ---------------------------------------------------------------------------------------


def blob_info(space: OpenSpace, command: GetBlobInfo) -> BlobInfo:
    """Return the stored size, and type and labels as the view describes them."""
    row = _row(space.reader(), command.hash)
    value = _described(space, command.hash, command.view).value
    meta: dict[str, Json] = value if type(value) is dict else {}
    content_type, labels = meta.get("contentType"), meta.get("labels")
    return BlobInfo(
        command.hash,
        row.size,
        content_type if type(content_type) is str else CONTENT_TYPE_DEFAULT,
        tuple(str(label) for label in labels) if type(labels) is list else (),
    )


def _described(space: OpenSpace, hash: str, view: View) -> State:
    return read(space, Read((meta_id(hash),), view))[0]


def read_piece(space: OpenSpace, command: ReadPiece) -> bytes:
    """Return bytes from an offset on, as many as one chunk holds; none at the end and beyond."""
    hash, offset = command.hash, command.offset
    _check_offset(offset)
    reads = space.reader()
    row = _row(reads, hash)
    if offset >= row.size:
        return b""
    for chunk in reads.rows.chunks(reads.number, row.upload, after=offset, limit=1):
        start = chunk.until - len(chunk.data)
        if start <= offset and chunk.until <= row.size:
            return chunk.data[offset - start :] if offset > start else chunk.data
    # Raises NotFound when gc has collected the blob between the two looks.
    _row(reads, hash)
    raise Corrupt(f"the blob {hash} is damaged at byte {offset}; run `rote verify`", blob=hash)


def _row(reads: SpaceReader, hash: str) -> BlobRow:
    check_blob_hash(hash)
    row = reads.rows.blob(reads.number, bytes.fromhex(hash))
    if row is None:
        raise NotFound(f"there is no blob {hash} in this space", blob=hash)
    if row != blob_record(reads.space.did, row.upload, row.hash, row.size, row.at):
        # The hash of its data would also show the change, but the chunks may be missing.
        raise Corrupt(f"the row of blob {hash} was changed; run `rote verify`", blob=hash)
    return row


def _check_offset(offset: object) -> None:
    if type(offset) is not int or not 0 <= offset <= INTEGER_MAX:
        raise InvalidInput("an offset is an integer from 0 on, of 64 bits")


# -- copies ----------------------------------------------------------------------------------------


def list_blobs(space: OpenSpace, command: ListBlobs) -> tuple[BlobPart, ...]:
    after = command.after
    if after and not is_blob_hash(after):
        raise InvalidInput("a page begins after a hash, or after nothing")
    rows = space.engine.reader().blobs(
        space.number, after=bytes.fromhex(after), limit=page_size(command.limit)
    )
    return tuple(BlobPart((row.hash or b"").hex(), row.size) for row in rows)


def adopt_blob(space: OpenSpace, command: AdoptBlob) -> bool | None:
    """Make an upload count as a blob that another store has; return True.

    False when the blob is stored already, None when it is not and no upload was named. The commit
    that describes the blob is copied like any other.
    """
    space.engine.check_usable()
    hash = command.hash
    check_blob_hash(hash)
    if space.engine.reader().blob(space.number, bytes.fromhex(hash)) is not None:
        return False
    if command.upload is None:
        return None
    data = space.part(Uploads).data(token_of(command.upload))
    if data.hash != bytes.fromhex(hash):
        raise Corrupt(
            f"the blob {hash} of the source is not what was written; nothing of it was copied,"
            " run `rote verify` on the source",
            blob=hash,
        )
    return _count(space, data)


def _count(space: OpenSpace, data: BlobData) -> bool:
    assert data.upload is not None
    at = space.wiring.now()
    with Abandoning(space.engine), space.engine.writer(space.number) as rows:
        if rows.blob(space.number, data.hash) is not None:
            return False
        row = rows.upload(space.number, data.upload)
        if row is None or row.at == CONDEMNED:
            raise BlobDataGone()
        rows.put_blob(space.number, blob_record(space.did, row.upload, data.hash, row.size, at))
    return True

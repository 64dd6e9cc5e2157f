"""Pass 4 of verify: the data of every blob against its hash, and that every described blob is stored."""

from hashlib import sha256

from rote.contract.operations import DELETE
from rote.engines import Reader
from rote.engines.rows import BlobRow
from rote.kernel.log.seals import blob_record
from rote.kernel.proving.inspection import Inspection
from rote.values.blobs import META_PREFIX, described_by
from rote.values.limits import INTEGER_MAX, INTEGER_MIN, VERIFY_PAGE_ROWS
from rote.values.ranges import prefix_end


def inspect_blobs(inspection: Inspection, reads: Reader) -> None:
    after = b""
    while rows := reads.blobs(inspection.number, after=after, limit=VERIFY_PAGE_ROWS):
        for row in rows:
            _inspect_blob(inspection, reads, row)
        after = rows[-1].hash or b""
    after = b""
    while rows := reads.uploads(inspection.number, after=after, limit=VERIFY_PAGE_ROWS):
        for row in rows:
            _inspect_row(inspection, row)
        after = rows[-1].upload
    strays = reads.chunk_strays(inspection.number)
    if strays:
        inspection.fault("blob", f"{strays} chunks belong to no payload")
    for branch in inspection.branches.rows():
        _inspect_described(inspection, reads, branch.branch)


def _inspect_row(inspection: Inspection, row: BlobRow) -> None:
    if row != blob_record(inspection.space.did, row.upload, row.hash, row.size, row.at):
        inspection.fault("blob", "its row was changed", id=(row.hash or row.upload).hex())


def _inspect_blob(inspection: Inspection, reads: Reader, row: BlobRow) -> None:
    _inspect_row(inspection, row)
    hasher, end, is_whole = sha256(), 0, True
    place = INTEGER_MIN
    while chunks := reads.chunks(inspection.number, row.upload, after=place, limit=1):
        [chunk] = chunks
        is_whole = is_whole and chunk.until - len(chunk.data) == end
        hasher.update(chunk.data)
        place = end = chunk.until
        inspection.advance(len(chunk.data))
    if is_whole and (end, hasher.digest()) == (row.size, row.hash):
        return
    # If the row has changed, gc collected the blob while it was read, and nothing is wrong.
    if reads.upload(inspection.number, row.upload) == row:
        assert row.hash is not None
        inspection.fault("blob", "its bytes do not match its hash", id=row.hash.hex())


def _inspect_described(inspection: Inspection, reads: Reader, branch: int) -> None:
    """Report each blob that an entity of the branch describes and that is not stored."""
    start, end = META_PREFIX, prefix_end(META_PREFIX)
    own = ((branch, inspection.version),)
    while ids := reads.entities(
        inspection.number, own, start=start, end=end, limit=VERIFY_PAGE_ROWS
    ):
        for id in ids:
            hash = described_by(id)
            if hash is None or reads.blob(inspection.number, bytes.fromhex(hash)) is not None:
                continue
            newest = reads.newest(inspection.number, [id], ((branch, INTEGER_MAX),))
            if newest and newest[0].op != DELETE and newest[0].salt is not None:
                inspection.fault("blob", "it is described and not there", id=hash)
        start = ids[-1] + "\0"

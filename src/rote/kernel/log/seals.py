"""Seals: what guards rows that no hash of the chain covers (names, branches, side rows, blobs).

A seal is a digest over the row's fields. It tells damage from content; it does not stop someone who
can rewrite the row and the seal, which is what checkpoints are for.
"""

from hashlib import sha256

from rote.engines.rows import BlobRow, BranchRow, SideRecord
from rote.values import canonical

SEAL_BYTES = 16
# The kind of side rows that say which commit a caller's key made.
KEY = "key"
# The kind of those that note what was erased while copies of it may still be in the store's files.
SCRUB = "scrub"
# The kind of the one that says from which version on a compacted space can be read.
COMPACTION = "compaction"


def seal_of(kind: str, *fields: str | int | None) -> bytes:
    return sha256(canonical([kind, *fields])).digest()[:SEAL_BYTES]


def space_seal(did: str, name: str) -> bytes:
    return seal_of("space", did, name)


def branch_seal(did: str, row: BranchRow) -> bytes:
    return seal_of(
        "branch",
        did,
        row.branch,
        row.name,
        row.parent,
        row.fork_version,
        row.created_version,
        row.deleted_version,
    )


def side_record(did: str, kind: str, key: str, fence: int, body: bytes) -> SideRecord:
    """A side row of a space, with its seal."""
    seal = seal_of("side", did, kind, key, fence, sha256(body).hexdigest())
    return SideRecord(kind, key, fence, body, seal)


def blob_record(did: str, upload: bytes, hash: bytes | None, size: int, at: int) -> BlobRow:
    """The row of a payload, with its seal."""
    shown = None if hash is None else hash.hex()
    return BlobRow(upload, hash, size, at, seal_of("blob", did, upload.hex(), shown, size, at))

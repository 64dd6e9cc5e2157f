"""Seals: digests in rows that no hash of the chain covers (names, branches, side rows, blobs, vectors).

A seal is a digest over the row's fields. It shows damage. It does not stop someone who can rewrite
both the row and the seal; checkpoints are for that. Frozen: the fields of each seal and their order.
"""

from hashlib import sha256

from rote.engines.rows import BlobRow, BranchRow, SideRecord, VectorRow
from rote.values import canonical

SEAL_BYTES = 16
# The kind of side rows that name the commit that a caller's key made.
KEY = "key"
# The kind of side rows that name the commit that an attempt of a caller made.
ATTEMPT = "attempt"
# The kind of side rows that note that copies of erased content may still be in the store's files.
SCRUB = "scrub"
# The kind of the one side row that holds the horizon of a compacted space.
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
    """Return a side row of a space, with its seal."""
    seal = seal_of("side", did, kind, key, fence, sha256(body).hexdigest())
    return SideRecord(kind, key, fence, body, seal)


def blob_record(did: str, upload: bytes, hash: bytes | None, size: int, at: int) -> BlobRow:
    """Return the row of a blob's data, with its seal."""
    shown = None if hash is None else hash.hex()
    return BlobRow(upload, hash, size, at, seal_of("blob", did, upload.hex(), shown, size, at))


def vector_record(did: str, name: str, hash: bytes, body: bytes) -> VectorRow:
    """Return the row of a text's vector, with its seal; `name` tells the embedder."""
    seal = seal_of("vector", did, name, hash.hex(), sha256(body).hexdigest())
    return VectorRow(hash, body, seal)

"""The hashes that make the log a chain. Frozen: docs/formats/chain.md.

Every hash is the SHA-256 of a canonical JSON object. The objects have fixed members, so their
canonical bytes are written here directly, members in order, instead of being sorted each time; a
test compares them with the encoder's.
"""

from collections.abc import Sequence
from hashlib import sha256

from rote.contract.operations import DELETE, PATCH, SET
from rote.engines.rows import FactRow
from rote.values.canonical import quoted

OPERATION_NAMES = {SET: "set", PATCH: "patch", DELETE: "delete"}


def empty_hash(quoted_id: str) -> bytes:
    """Return the parent of the first fact of an entity."""
    return sha256(f'{{"id":{quoted_id},"kind":"empty/1"}}'.encode()).digest()


def fact_hash(quoted_id: str, op: int, salt: bytes, body: bytes | None, parent: bytes) -> bytes:
    """Return the hash of a fact.

    It covers the body by a salted digest, so that body and salt can be erased and the chain stays valid.
    """
    return fact_hash_of(quoted_id, op, salted_digest(salt, body), parent)


def salted_digest(salt: bytes, data: bytes | None) -> str | None:
    return None if data is None else sha256(salt + data).hexdigest()


def fact_hash_of(quoted_id: str, op: int, digest: str | None, parent: bytes) -> bytes:
    """Return the hash of a fact, given the salted digest of its body."""
    body = "null" if digest is None else f'"{digest}"'
    return sha256(
        f'{{"body":{body},"id":{quoted_id},"kind":"fact/1",'
        f'"op":"{OPERATION_NAMES[op]}","parent":"{parent.hex()}"}}'.encode()
    ).digest()


def commit_hash(
    *,
    space: str,
    version: int,
    branch: str,
    previous: bytes | None,
    facts: Sequence[FactRow],
    at: str,
    author: str | None,
    key: str | None,
    meta: bytes | None,
    event: bytes | None,
) -> bytes:
    """Return the hash of a commit.

    `space` and `branch` need no escaping: their names allow nothing that JSON escapes.
    """
    hashes = ",".join([f'"{fact.hash.hex()}"' for fact in facts])
    meta_digest = "null" if meta is None else f'"{sha256(meta).hexdigest()}"'
    previous_hash = "null" if previous is None else f'"{previous.hex()}"'
    return sha256(
        f'{{"at":"{at}","author":{"null" if author is None else quoted(author)},"branch":"{branch}",'
        f'"event":{"null" if event is None else event.decode()},"facts":[{hashes}],'
        f'"key":{"null" if key is None else quoted(key)},"kind":"commit/1","meta":{meta_digest},'
        f'"previous":{previous_hash},"space":"{space}","version":{version}}}'.encode()
    ).digest()

"""The hashes that make the log a chain. Frozen: docs/formats/chain.md.

Every hash is the SHA-256 of a canonical JSON object. The objects have fixed members, so their
canonical bytes are written here directly, members in order, instead of being sorted each time; a
test compares them with the encoder's.
"""

from collections.abc import Sequence
from hashlib import sha256

import orjson

from rote.engines.rows import DELETE, PATCH, SET

OPERATION_NAMES = {SET: "set", PATCH: "patch", DELETE: "delete"}
_OPERATION_BYTES = {SET: b"set", PATCH: b"patch", DELETE: b"delete"}


def quoted(text: str) -> bytes:
    """The canonical JSON of a string."""
    return orjson.dumps(text)


def optional(text: str | None) -> bytes:
    return b"null" if text is None else orjson.dumps(text)


def empty_hash(quoted_id: bytes) -> bytes:
    """What the first fact of an entity has for a parent."""
    return sha256(b'{"id":%b,"kind":"empty/1"}' % quoted_id).digest()


def fact_hash(
    quoted_id: bytes, op: int, *, salt: bytes, body: bytes | None, parent: bytes
) -> bytes:
    """Covers the body by a salted digest, so that body and salt can be erased and the chain holds."""
    digest = b"null" if body is None else b'"%b"' % sha256(salt + body).hexdigest().encode()
    return sha256(
        b'{"body":%b,"id":%b,"kind":"fact/1","op":"%b","parent":"%b"}'
        % (digest, quoted_id, _OPERATION_BYTES[op], parent.hex().encode())
    ).digest()


def commit_hash(
    *,
    space: str,
    version: int,
    branch: str,
    previous: bytes | None,
    facts: Sequence[bytes],
    at: str,
    author: str | None,
    key: str | None,
    meta: bytes | None,
    event: bytes | None,
) -> bytes:
    hashes = b",".join([b'"%b"' % fact.hex().encode() for fact in facts])
    return sha256(
        b'{"at":"%b","author":%b,"branch":%b,"event":%b,"facts":[%b],"key":%b,"kind":"commit/1",'
        b'"meta":%b,"previous":%b,"space":%b,"version":%d}'
        % (
            at.encode(),
            optional(author),
            quoted(branch),
            event or b"null",
            hashes,
            optional(key),
            b"null" if meta is None else b'"%b"' % sha256(meta).hexdigest().encode(),
            b"null" if previous is None else b'"%b"' % previous.hex().encode(),
            quoted(space),
            version,
        )
    ).digest()

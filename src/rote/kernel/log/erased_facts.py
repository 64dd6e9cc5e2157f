"""The remains of an erased fact, stored in the place of its snapshot. Frozen: docs/formats/chain.md.

A fact without a salt is an erased one. Its hash covers the body only by a salted digest, which is
kept. Without the salt nobody can test a guessed value against it.
"""

from typing import Any

from msgspec import structs

from rote.contract import Remains
from rote.contract.operations import DELETE, PATCH, SET
from rote.engines.rows import FactRow
from rote.errors import Corrupt, InvalidInput, InvalidValue
from rote.kernel.log.chain import OPERATION_NAMES, fact_hash_of, salted_digest
from rote.values import canonical, decode_canonical
from rote.values.canonical import quoted
from rote.values.names import is_sha256

# For each operation the allowed pairs: has a digest of the body, has a digest of the value.
_KEPT = {
    SET: {(True, False)},
    PATCH: {(True, False), (True, True), (False, True)},
    DELETE: {(False, True)},
}


def erased_row(row: FactRow, version: int) -> FactRow:
    """Return the fact as the erase commit at `version` leaves it."""
    assert row.salt is not None
    # Of a delete the digest of the salt alone: a compaction may have signed it.
    value = b"" if row.op == DELETE else row.value
    body, value_digest = (salted_digest(row.salt, data) for data in (row.body, value))
    kept = encode_remains(Remains(version, body, value_digest))
    return structs.replace(row, salt=None, body=None, value=kept)


def encode_remains(remains: Remains) -> bytes:
    """Return the bytes that take the place of the snapshot."""
    return canonical(structs.asdict(remains))


def digest_in(kept: bytes | None) -> str | None:
    """Return the salted digest of the body from encoded remains that were checked."""
    remains: Any = decode_canonical(kept or b"")
    digest: str | None = remains["body"]
    return digest


def remains_in(row: FactRow) -> Remains:
    """Return the remains of an erased fact; Corrupt when its content is missing without an erasure."""
    try:
        found: Any = None if row.value is None else decode_canonical(row.value)
        if (
            row.body is None
            and type(found) is dict
            and found.keys() == set(Remains.__struct_fields__)
        ):
            remains = Remains(**found)
            check_remains(row.op, row.version, remains)
            if canonical(found) == row.value:
                return remains
    except (InvalidInput, InvalidValue):
        pass
    raise Corrupt(
        f"the content of {row.id} at version {row.version} is missing, and no erasure explains it;"
        " run `rote verify`"
    )


def check_fact(row: FactRow) -> None:
    """Raise Corrupt unless a fact has the hash of its content.

    A patch that a compaction has kept has no operations any more, and cannot be checked alone.
    """
    digest = remains_in(row).body if row.salt is None else salted_digest(row.salt, row.body)
    if digest is None and row.op != DELETE:
        return
    is_known = row.op in OPERATION_NAMES
    if not is_known or fact_hash_of(quoted(row.id), row.op, digest, row.parent) != row.hash:
        raise Corrupt(
            f"what {row.id} holds at version {row.version} was changed; run `rote verify`"
        )


def check_remains(op: int, version: int, remains: Remains) -> None:
    """Raise InvalidInput when these cannot be the remains of such a fact."""
    has_body, has_value = remains.body is not None, remains.value is not None
    is_later = type(remains.version) is int and remains.version > version
    digests = [text for text in (remains.body, remains.value) if text is not None]
    if (
        not is_later
        # A patch that a compaction kept has a digest of its result alone.
        or (has_body, has_value) not in _KEPT.get(op, ())
        or not all(type(text) is str and is_sha256(text) for text in digests)
    ):
        raise InvalidInput("that is not what an erasure leaves")

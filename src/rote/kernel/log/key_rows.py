"""The side rows of keys and of attempts: the version of the commit that one of them made, and the digest
of its payload.

The row of an attempt that was settled before it made a commit has version 0, and the time of that.
Frozen: the bodies, docs/formats/sqlite.md.
"""

from typing import Any

from rote.engines.rows import CommitRow, SideRecord
from rote.errors import Corrupt
from rote.kernel.log.seals import ATTEMPT, KEY, side_record
from rote.values import canonical, decode_canonical
from rote.values.limits import ATTEMPT_BYTES

# The name of the digest in the rows of each kind.
_DIGEST = {KEY: "payload", ATTEMPT: "digest"}


def made_record(did: str, kind: str, key: str, version: int, payload: str | None) -> SideRecord:
    """Return the row of a key or an attempt; its payload is None after an erasure has removed it."""
    body = canonical({_DIGEST[kind]: payload, "version": version})
    return side_record(did, kind, key, 1, body)


def settled_record(did: str, attempt: str, at: str) -> SideRecord:
    """Return the row of an attempt that has made no commit, and never will."""
    return side_record(
        did, ATTEMPT, attempt, 1, canonical({"at": at, "digest": None, "version": 0})
    )


def meaning_of(row: SideRecord) -> tuple[int, str | None]:
    """Return the version of the commit that it made, and the digest of its payload; 0 for none."""
    made: Any = decode_canonical(row.body)
    members = {_DIGEST[row.kind], "version"}
    if type(made) is not dict or made.keys() - {"at"} != members:
        raise Corrupt(f"the row of {row.kind} {row.key!r} was changed; run `rote verify`")
    return made["version"], made[_DIGEST[row.kind]]


def settled_at(row: SideRecord) -> str | None:
    """Return when an attempt was settled that had made no commit; None for one that has."""
    made: Any = decode_canonical(row.body)
    at: str | None = made.get("at") if type(made) is dict else None
    return at


def attempt_token(attempt: str, token: bytes) -> bytes:
    """Return the token of a commit that has an attempt: its row then leads to that of the attempt."""
    return bytes.fromhex(attempt) + token


def attempt_of(row: CommitRow) -> str | None:
    """Return the attempt that may have made a commit; only the attempt's row tells that it did."""
    return row.attempt[:ATTEMPT_BYTES].hex() if len(row.attempt) > ATTEMPT_BYTES else None

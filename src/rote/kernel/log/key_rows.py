"""The side rows of keys: the version of the commit that a key made, and the digest of its payload."""

from typing import Any

from rote.engines.rows import SideRecord
from rote.errors import Corrupt
from rote.kernel.log.seals import KEY, side_record
from rote.values import canonical, decode_canonical


def key_record(did: str, key: str, version: int, payload: str | None) -> SideRecord:
    """Return the row of a key; its payload is None after an erasure has removed it."""
    body = canonical({"payload": payload, "version": version})
    return side_record(did, KEY, key, 1, body)


def meaning_of(row: SideRecord) -> tuple[int, str | None]:
    """Return the version of the commit that the key made, and the digest of its payload."""
    made: Any = decode_canonical(row.body)
    if type(made) is not dict or made.keys() != {"payload", "version"}:
        raise Corrupt(f"the row of key {row.key!r} was changed; run `rote verify`")
    return made["version"], made["payload"]

"""The side rows of keys: the commit that a key made, and a digest of what was asked for."""

from typing import Any

from rote.engines.rows import SideRecord
from rote.errors import Corrupt
from rote.kernel.log.seals import KEY, side_record
from rote.values import canonical, decode_canonical


def key_record(did: str, key: str, version: int, payload: str | None) -> SideRecord:
    """The row of a key; it has no payload where an erasure has taken that."""
    body = canonical({"payload": payload, "version": version})
    return side_record(did, KEY, key, 1, body)


def meaning_of(row: SideRecord) -> tuple[int, str | None]:
    """The version of the commit that the key made, and the digest of what was asked for."""
    made: Any = decode_canonical(row.body)
    if type(made) is not dict or made.keys() != {"payload", "version"}:
        raise Corrupt(f"the row of key {row.key!r} was changed; run `rote verify`")
    return made["version"], made["payload"]

"""The identities of a run. Frozen: they are in ledgers, keys and traces."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from rote.contract import Head
from rote.errors import InvalidInput
from rote.values import Json, canonical, check_branch_name, digest, sha256_hex
from rote.values.limits import DEPTH_MAX, INTEGER_MAX

_EMPTY = "none"
_snapshot_parts = re.compile(r"([^:]+):(0|[1-9][0-9]{0,18}):([0-9a-f]{64}|none)").fullmatch


class SnapshotId(Struct, frozen=True):
    """The state that a run reads, by branch, version and hash."""

    branch: str
    version: int
    hash: str | None  # None for the empty space

    def __str__(self) -> str:
        return f"{self.branch}:{self.version}:{self.hash or _EMPTY}"


def snapshot_id(branch: str, snapshot: Head) -> str:
    return str(SnapshotId(branch, snapshot.version, snapshot.hash))


def parse_snapshot_id(text: Any) -> SnapshotId:
    match = _snapshot_parts(text) if type(text) is str else None
    if match is None or int(match[2]) > INTEGER_MAX or (match[2] == "0") != (match[3] == _EMPTY):
        raise InvalidInput(f"{text!r:.200} is no memory_snapshot_id: <branch>:<version>:<hash>")
    check_branch_name(match[1])
    return SnapshotId(match[1], int(match[2]), None if match[3] == _EMPTY else match[3])


def commit_id(run_id: str, memory_snapshot_id: str, policy_set_id: str) -> str:
    return digest(
        {
            "kind": "commit_id/1",
            "run_id": run_id,
            "memory_snapshot_id": memory_snapshot_id,
            "policy_set_id": policy_set_id,
        }
    )


def payload_fingerprint(branch: str, operations: Sequence[Mapping[str, Any]]) -> str:
    payload = {"kind": "commit_payload/1", "branch": branch, "operations": list(operations)}
    return deep_digest(payload)


def deep_digest(value: Json) -> str:
    """The digest of what holds values that may be as deep as values can be."""
    return sha256_hex(canonical(value, depth_max=2 * DEPTH_MAX))

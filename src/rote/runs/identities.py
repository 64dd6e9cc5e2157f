"""The identities of a run. Frozen: they are in ledgers, keys and traces."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from rote.contract import Head
from rote.errors import InvalidInput
from rote.values import check_branch_name, digest
from rote.values.limits import INTEGER_MAX, RUN_ID_CHARACTERS_MAX, RUN_NAME_BYTES_MAX

_EMPTY = "none"
_is_run_id = re.compile(rf"[A-Za-z0-9_\-][A-Za-z0-9._\-]{{0,{RUN_ID_CHARACTERS_MAX - 1}}}").fullmatch
_snapshot_parts = re.compile(r"([^:]+):(0|[1-9][0-9]{0,18}):([0-9a-f]{64}|none)").fullmatch


class SnapshotId(Struct, frozen=True):
    """Which state a run reads."""

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
    return digest(
        {"kind": "commit_payload/1", "branch": branch, "operations": list(operations)}
    )


def check_run_id(run_id: Any) -> str:
    if type(run_id) is not str or not _is_run_id(run_id):
        raise InvalidInput(
            f"{run_id!r:.120} is no run id; use 1 to {RUN_ID_CHARACTERS_MAX} characters of"
            " A-Z a-z 0-9 . _ - and do not start with .",
            argument="run_id",
        )
    return run_id


def check_name(text: Any, argument: str) -> str:
    """A workflow's name, or that of a set of policies."""
    if type(text) is not str or not text or len(text.encode(errors="replace")) > RUN_NAME_BYTES_MAX:
        raise InvalidInput(
            f"{argument} is text of 1 to {RUN_NAME_BYTES_MAX:,} bytes", argument=argument
        )
    digest(text)  # no lone surrogates
    return text

"""Rote: memory for AI agents that you can prove."""

from rote import errors, patch
from rote.contract import (
    BlobInfo,
    Commit,
    CopyReport,
    Fact,
    Fault,
    GcReport,
    State,
    VerifyReport,
)
from rote.errors import ReadConflict, RoteError
from rote.opening import open
from rote.space import Space, Store, Transaction
from rote.values import canonical, digest, fingerprint, json_v1

__all__ = [
    "BlobInfo",
    "Commit",
    "CopyReport",
    "Fact",
    "Fault",
    "GcReport",
    "ReadConflict",
    "RoteError",
    "Space",
    "State",
    "Store",
    "Transaction",
    "VerifyReport",
    "canonical",
    "digest",
    "errors",
    "fingerprint",
    "json_v1",
    "open",
    "patch",
]

"""Rote: memory for AI agents that you can prove."""

from rote import errors, patch, traces
from rote.contract import (
    DELETE,
    BlobInfo,
    Branch,
    Change,
    Commit,
    Compaction,
    CopyReport,
    Erasure,
    Fact,
    Fault,
    GcReport,
    MergeConflict,
    MergeResult,
    State,
    VerifyReport,
)
from rote.errors import ReadConflict, RoteError
from rote.opening import open
from rote.records import Memory
from rote.retrieval import receipt, retrieve
from rote.runs import Effects, Run, RunRecord
from rote.space import Space, Store, Transaction
from rote.traces import (
    Failure,
    ModelConfig,
    Report,
    ToolProfile,
    check_trace,
    compare_traces,
)
from rote.values import canonical, digest, fingerprint, json_v1

__all__ = [
    "DELETE",
    "BlobInfo",
    "Branch",
    "Change",
    "Commit",
    "Compaction",
    "CopyReport",
    "Effects",
    "Erasure",
    "Fact",
    "Failure",
    "Fault",
    "GcReport",
    "Memory",
    "MergeConflict",
    "MergeResult",
    "ModelConfig",
    "ReadConflict",
    "Report",
    "RoteError",
    "Run",
    "RunRecord",
    "Space",
    "State",
    "Store",
    "ToolProfile",
    "Transaction",
    "VerifyReport",
    "canonical",
    "check_trace",
    "compare_traces",
    "digest",
    "errors",
    "fingerprint",
    "json_v1",
    "open",
    "patch",
    "receipt",
    "retrieve",
    "traces",
]

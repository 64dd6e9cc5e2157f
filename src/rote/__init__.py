"""Rote: memory for AI agents that you can prove.

Names are loaded when they are asked for: a program pays for the parts that it uses.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from rote import aio, errors, patch, traces
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
        SpaceErasure,
        State,
        VerifyReport,
    )
    from rote.errors import ReadConflict, RoteError
    from rote.opening import open
    from rote.opening.delegating import delegate
    from rote.opening.hosts import Host
    from rote.recordings.calls import Effects
    from rote.records.memory import Memory
    from rote.retrieval import Embedder, package_text, receipt, retrieve
    from rote.runs.ledger import RunRecord
    from rote.runs.run import Run
    from rote.sessions.pending import Pending
    from rote.sessions.session import Session
    from rote.space import Space, Store, Transaction
    from rote.traces import Failure, ModelConfig, Report, ToolProfile, check_trace, compare_traces
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
    "Embedder",
    "Erasure",
    "Fact",
    "Failure",
    "Fault",
    "GcReport",
    "Host",
    "Memory",
    "MergeConflict",
    "MergeResult",
    "ModelConfig",
    "Pending",
    "ReadConflict",
    "Report",
    "RoteError",
    "Run",
    "RunRecord",
    "Session",
    "Space",
    "SpaceErasure",
    "State",
    "Store",
    "ToolProfile",
    "Transaction",
    "VerifyReport",
    "aio",
    "canonical",
    "check_trace",
    "compare_traces",
    "delegate",
    "digest",
    "errors",
    "fingerprint",
    "json_v1",
    "open",
    "package_text",
    "patch",
    "receipt",
    "retrieve",
    "traces",
]

_MODULES = (
    "aio",
    "bridges",
    "errors",
    "patch",
    "records",
    "retrieval",
    "testing",
    "traces",
    "values",
)
_PLACES = {
    "BlobInfo": "rote.contract",
    "Branch": "rote.contract",
    "Change": "rote.contract",
    "Commit": "rote.contract",
    "Compaction": "rote.contract",
    "CopyReport": "rote.contract",
    "DELETE": "rote.contract",
    "Effects": "rote.recordings.calls",
    "Embedder": "rote.retrieval",
    "Erasure": "rote.contract",
    "Fact": "rote.contract",
    "Failure": "rote.traces",
    "Fault": "rote.contract",
    "GcReport": "rote.contract",
    "Host": "rote.opening.hosts",
    "Memory": "rote.records.memory",
    "MergeConflict": "rote.contract",
    "MergeResult": "rote.contract",
    "ModelConfig": "rote.traces",
    "Pending": "rote.sessions.pending",
    "ReadConflict": "rote.errors",
    "Report": "rote.traces",
    "RoteError": "rote.errors",
    "Run": "rote.runs.run",
    "RunRecord": "rote.runs.ledger",
    "Session": "rote.sessions.session",
    "Space": "rote.space",
    "SpaceErasure": "rote.contract",
    "State": "rote.contract",
    "Store": "rote.space",
    "ToolProfile": "rote.traces",
    "Transaction": "rote.space",
    "VerifyReport": "rote.contract",
    "canonical": "rote.values",
    "check_trace": "rote.traces",
    "compare_traces": "rote.traces",
    "delegate": "rote.opening.delegating",
    "digest": "rote.values",
    "fingerprint": "rote.values",
    "json_v1": "rote.values",
    "open": "rote.opening",
    "package_text": "rote.retrieval",
    "receipt": "rote.retrieval",
    "retrieve": "rote.retrieval",
}


if not TYPE_CHECKING:  # a name that is not here is an error for type checkers

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"rote.{name}")
        if name == "__version__":
            return import_module("importlib.metadata").version("rote")
        if name not in _PLACES:
            raise AttributeError(f"module 'rote' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_PLACES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})

"""The seam: what the layers above may ask of a store, and the frozen values that answer."""

from rote.contract.blobs import BlobInfo, BlobPart, BlobRequest, ByteStream, GcReport
from rote.contract.branches import (
    DELETE,
    Branch,
    BranchRequest,
    Change,
    MergeConflict,
    MergeRequest,
    MergeResult,
    Resolution,
)
from rote.contract.copies import (
    CHECKPOINT,
    CopyPage,
    CopyReport,
    SidePage,
    check_row_follows,
)
from rote.contract.facts import Commit, Fact, Glance, State
from rote.contract.index import Hit, Index
from rote.contract.port import CopyProgress, Port, Progress
from rote.contract.reports import Fault, VerifyReport
from rote.contract.requests import (
    CommitRequest,
    FactPage,
    Guard,
    Head,
    ScanPage,
    SideRow,
    SpaceInfo,
    View,
)
from rote.contract.sources import Clock, IdSource, KeyRing, TokenSource

__all__ = [
    "CHECKPOINT",
    "DELETE",
    "BlobInfo",
    "BlobPart",
    "BlobRequest",
    "Branch",
    "BranchRequest",
    "ByteStream",
    "Change",
    "Clock",
    "Commit",
    "CommitRequest",
    "CopyPage",
    "CopyProgress",
    "CopyReport",
    "Fact",
    "FactPage",
    "Fault",
    "GcReport",
    "Glance",
    "Guard",
    "Head",
    "Hit",
    "IdSource",
    "Index",
    "KeyRing",
    "MergeConflict",
    "MergeRequest",
    "MergeResult",
    "Port",
    "Progress",
    "Resolution",
    "ScanPage",
    "SidePage",
    "SideRow",
    "SpaceInfo",
    "State",
    "TokenSource",
    "VerifyReport",
    "View",
    "check_row_follows",
]

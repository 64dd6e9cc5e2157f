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
from rote.contract.compactions import Compaction
from rote.contract.copies import (
    CHECKPOINT,
    CopyPage,
    CopyReport,
    FoundationCursor,
    FoundationPage,
    LeftFact,
    SidePage,
    check_row_follows,
)
from rote.contract.erasures import Erasure, Remains
from rote.contract.facts import Commit, Fact, Glance, State
from rote.contract.index import Hit, Index
from rote.contract.port import CopyProgress, Holds, Port, Progress
from rote.contract.reports import UNDECIDED, Fault, VerifyReport
from rote.contract.requests import (
    CommitRequest,
    FactPage,
    Guard,
    Head,
    Rehearsal,
    ScanPage,
    SideRow,
    SpaceInfo,
    View,
)
from rote.contract.sources import Clock, IdSource, KeyRing, TokenSource

__all__ = [
    "CHECKPOINT",
    "DELETE",
    "UNDECIDED",
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
    "Compaction",
    "CopyPage",
    "CopyProgress",
    "CopyReport",
    "Erasure",
    "Fact",
    "FactPage",
    "Fault",
    "FoundationCursor",
    "FoundationPage",
    "GcReport",
    "Glance",
    "Guard",
    "Head",
    "Hit",
    "Holds",
    "IdSource",
    "Index",
    "KeyRing",
    "LeftFact",
    "MergeConflict",
    "MergeRequest",
    "MergeResult",
    "Port",
    "Progress",
    "Rehearsal",
    "Remains",
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

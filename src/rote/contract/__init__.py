"""The seam between callers and stores: commands, the port that answers them, and frozen answers."""

from rote.contract.blobs import BlobInfo, BlobPart, ByteStream, GcReport
from rote.contract.branches import DELETE, Branch, Change, MergeConflict, MergeResult, Resolution
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
from rote.contract.declarations import (
    Conditions,
    ContentRule,
    Erased,
    Matcher,
    Questions,
    SideRule,
    TextRule,
)
from rote.contract.erasures import Erasure, Remains, SpaceErasure
from rote.contract.facts import Commit, Fact, Glance, State
from rote.contract.index import Hit, Index
from rote.contract.local import Local
from rote.contract.paging import all_sides, all_spaces, all_written, paged
from rote.contract.port import Caller, Port, PortLayer, Task, Tell, Watching
from rote.contract.reports import UNDECIDED, Fault, VerifyReport
from rote.contract.requests import (
    AnswerRead,
    FactPage,
    Guard,
    Head,
    Rehearsal,
    ScanPage,
    SideRow,
    SpaceInfo,
    SpacePage,
    SpaceSummary,
    Times,
    View,
)
from rote.contract.sources import Clock, IdSource, KeyRing, TokenSource

__all__ = [
    "CHECKPOINT",
    "DELETE",
    "UNDECIDED",
    "AnswerRead",
    "BlobInfo",
    "BlobPart",
    "Branch",
    "ByteStream",
    "Caller",
    "Change",
    "Clock",
    "Commit",
    "Compaction",
    "Conditions",
    "ContentRule",
    "CopyPage",
    "CopyReport",
    "Erased",
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
    "IdSource",
    "Index",
    "KeyRing",
    "LeftFact",
    "Local",
    "Matcher",
    "MergeConflict",
    "MergeResult",
    "Port",
    "PortLayer",
    "Questions",
    "Rehearsal",
    "Remains",
    "Resolution",
    "ScanPage",
    "SidePage",
    "SideRow",
    "SideRule",
    "SpaceErasure",
    "SpaceInfo",
    "SpacePage",
    "SpaceSummary",
    "State",
    "Task",
    "Tell",
    "TextRule",
    "Times",
    "TokenSource",
    "VerifyReport",
    "View",
    "Watching",
    "all_sides",
    "all_spaces",
    "all_written",
    "check_row_follows",
    "paged",
]

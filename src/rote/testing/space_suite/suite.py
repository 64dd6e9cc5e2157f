"""SpaceSuite: the base class for the test of an implementation of contract.Port.

class TestMyStore(SharedSpaceSuite):
    def open_store(self, place: Path, settings: StoreSettings) -> Store:
        return open_on(MyEngine(place / "store"), settings, keys=MyKeys(place))
"""

from rote.testing.space_suite.attempts import AttemptTests, SharedAttemptTests
from rote.testing.space_suite.backups import BackupTests
from rote.testing.space_suite.besides import BesidesTests
from rote.testing.space_suite.blobs import BlobTests
from rote.testing.space_suite.bodies import BodyTests
from rote.testing.space_suite.branch_copies import BranchCopyTests
from rote.testing.space_suite.branches import BranchTests
from rote.testing.space_suite.chain import ChainTests
from rote.testing.space_suite.collection import CollectionTests
from rote.testing.space_suite.compacted_copies import CompactedCopyTests
from rote.testing.space_suite.compactions import CompactionTests
from rote.testing.space_suite.conditions import ConditionTests
from rote.testing.space_suite.conformance import ConformanceTests, SharedConformanceTests
from rote.testing.space_suite.copies import CopyTests
from rote.testing.space_suite.determinism import DeterminismTests
from rote.testing.space_suite.diffs import DiffTests
from rote.testing.space_suite.documents import DocumentTests
from rote.testing.space_suite.erased_foundations import ErasedFoundationTests
from rote.testing.space_suite.erased_keys import ErasedKeyTests
from rote.testing.space_suite.erasure_copies import ErasureCopyTests
from rote.testing.space_suite.erasures import ErasureTests
from rote.testing.space_suite.erasures_of_many import ErasureOfManyTests
from rote.testing.space_suite.forgeries import ForgeryTests
from rote.testing.space_suite.guards import GuardTests
from rote.testing.space_suite.histories import HistoryTests
from rote.testing.space_suite.indexes import IndexTests
from rote.testing.space_suite.keys import KeyTests
from rote.testing.space_suite.looks import SharedLookTests
from rote.testing.space_suite.merges import MergeTests
from rote.testing.space_suite.operations import OperationTests
from rote.testing.space_suite.overlaps import OverlapTests
from rote.testing.space_suite.packed_indexes import PackedIndexTests
from rote.testing.space_suite.packed_keeping import PackedKeepingTests, SharedPackedIndexTests
from rote.testing.space_suite.pages import PageTests, SharedPageTests
from rote.testing.space_suite.queries import QueryTests
from rote.testing.space_suite.queues import QueueTests, SharedQueueTests
from rote.testing.space_suite.reads import ReadTests
from rote.testing.space_suite.record_contents import RecordContentTests
from rote.testing.space_suite.record_erasures import RecordErasureTests
from rote.testing.space_suite.record_files import RecordFileTests
from rote.testing.space_suite.record_histories import RecordHistoryTests
from rote.testing.space_suite.record_lists import RecordListTests, SharedRecordTests
from rote.testing.space_suite.record_orders import RecordOrderTests
from rote.testing.space_suite.record_transactions import RecordTransactionTests
from rote.testing.space_suite.record_writes import RecordWriteTests
from rote.testing.space_suite.records import RecordTests
from rote.testing.space_suite.refusals import RefusalTests
from rote.testing.space_suite.rehearsals import RehearsalTests
from rote.testing.space_suite.reserved_names import ReservedNameTests
from rote.testing.space_suite.retrievals import RetrievalTests, SharedRetrievalTests
from rote.testing.space_suite.rights import RightTests
from rote.testing.space_suite.run_conflicts import RunConflictTests
from rote.testing.space_suite.run_ends import RunEndTests
from rote.testing.space_suite.run_failures import RunFailureTests
from rote.testing.space_suite.run_interruptions import SharedRunInterruptionTests
from rote.testing.space_suite.run_ledgers import RunLedgerTests
from rote.testing.space_suite.run_reads import RunReadTests
from rote.testing.space_suite.run_recovery import SharedRunTests
from rote.testing.space_suite.run_replays import RunReplayTests
from rote.testing.space_suite.run_searches import RunSearchTests
from rote.testing.space_suite.run_tier_replays import RunTierReplayTests
from rote.testing.space_suite.run_tiers import RunTierTests
from rote.testing.space_suite.run_traces import RunTraceTests
from rote.testing.space_suite.run_vectors import RunVectorTests
from rote.testing.space_suite.runs import RunTests
from rote.testing.space_suite.scans import ScanTests
from rote.testing.space_suite.searches import SearchTests
from rote.testing.space_suite.sessions import SharedSessionTests
from rote.testing.space_suite.sharing import SharingTests
from rote.testing.space_suite.sides import SideRowTests
from rote.testing.space_suite.space_erasures import SharedSpaceErasureTests, SpaceErasureTests
from rote.testing.space_suite.spaces import SpaceTests
from rote.testing.space_suite.transactions import TransactionTests
from rote.testing.space_suite.trust import TrustTests
from rote.testing.space_suite.vectors import SharedVectorTests, VectorTests
from rote.testing.space_suite.versions import SharedVersionTests, VersionTests
from rote.testing.space_suite.views import ViewTests
from rote.testing.space_suite.watches import SharedWatchTests, WatchTests


class SpaceSuite(
    SpaceTests,
    ReservedNameTests,
    ChainTests,
    DeterminismTests,
    OperationTests,
    DocumentTests,
    RefusalTests,
    ReadTests,
    BesidesTests,
    OverlapTests,
    KeyTests,
    AttemptTests,
    ConditionTests,
    BodyTests,
    ViewTests,
    VersionTests,
    ScanTests,
    PageTests,
    HistoryTests,
    QueryTests,
    WatchTests,
    TransactionTests,
    SideRowTests,
    GuardTests,
    IndexTests,
    PackedIndexTests,
    PackedKeepingTests,
    BranchTests,
    DiffTests,
    MergeTests,
    ConformanceTests,
    TrustTests,
    ErasedKeyTests,
    ErasureTests,
    ErasureOfManyTests,
    SpaceErasureTests,
    BackupTests,
    CopyTests,
    BlobTests,
    CollectionTests,
    CompactionTests,
    CompactedCopyTests,
    ForgeryTests,
    BranchCopyTests,
    ErasureCopyTests,
    ErasedFoundationTests,
    RecordTests,
    RecordErasureTests,
    RecordWriteTests,
    RecordContentTests,
    RecordOrderTests,
    RecordTransactionTests,
    RecordFileTests,
    RecordHistoryTests,
    RecordListTests,
    RetrievalTests,
    RightTests,
    SearchTests,
    VectorTests,
    RehearsalTests,
    QueueTests,
    RunTests,
    RunConflictTests,
    RunReadTests,
    RunSearchTests,
    RunVectorTests,
    RunLedgerTests,
    RunEndTests,
    RunFailureTests,
    RunReplayTests,
    RunTierTests,
    RunTierReplayTests,
    RunTraceTests,
):
    """The tests for every store, also for one whose data ends with it."""


class SharedSpaceSuite(
    SpaceSuite,
    SharingTests,
    SharedAttemptTests,
    SharedVersionTests,
    SharedPageTests,
    SharedPackedIndexTests,
    SharedSpaceErasureTests,
    SharedConformanceTests,
    SharedRecordTests,
    SharedQueueTests,
    SharedVectorTests,
    SharedRetrievalTests,
    SharedWatchTests,
    SharedLookTests,
    SharedRunTests,
    SharedRunInterruptionTests,
    SharedSessionTests,
):
    """The tests for a store whose place can be opened again and by several at once."""

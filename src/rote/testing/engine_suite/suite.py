"""EngineSuite: the base class of an engine's own test.

class TestMyEngine(SharedEngineSuite):
    def make_engine(self, place: Path) -> Engine:
        return MyEngine(place / "store")
"""

from rote.testing.engine_suite.blobs import BlobRowTests
from rote.testing.engine_suite.branches import BranchRowTests
from rote.testing.engine_suite.derived import DerivedRowTests
from rote.testing.engine_suite.entities import EntityTests
from rote.testing.engine_suite.hoping import HopingTests
from rote.testing.engine_suite.keeping import KeepingTests
from rote.testing.engine_suite.lines import LineTests
from rote.testing.engine_suite.log import LogTests
from rote.testing.engine_suite.packed import PackedRowTests
from rote.testing.engine_suite.ranges import RangeTests
from rote.testing.engine_suite.rewriting import RewritingTests
from rote.testing.engine_suite.sharing import SharingTests
from rote.testing.engine_suite.sides import SideTests
from rote.testing.engine_suite.spaces import SpaceRowTests
from rote.testing.engine_suite.writing import WritingTests


class EngineSuite(
    SpaceRowTests,
    BranchRowTests,
    LogTests,
    LineTests,
    RangeTests,
    EntityTests,
    SideTests,
    DerivedRowTests,
    PackedRowTests,
    BlobRowTests,
    WritingTests,
    RewritingTests,
    HopingTests,
    KeepingTests,
):
    """The tests for every engine, also for one whose data ends with it."""


class SharedEngineSuite(EngineSuite, SharingTests):
    """The tests for an engine whose place can be opened again and by several at once."""

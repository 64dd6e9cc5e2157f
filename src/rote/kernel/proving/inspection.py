"""An inspection: the progress of verify through one space, and the faults that it has found."""

from rote.contract import Fault, Tell
from rote.engines.rows import (
    CommitRow,
)
from rote.kernel.log.branch_replay import Lineage
from rote.kernel.log.branches import Branches
from rote.kernel.proving.erased_fact_checks import Erasers
from rote.kernel.state.open_space import OpenSpace
from rote.values.limits import (
    FAULTS_MAX,
    MIB,
)


class Inspection:
    """The space that is inspected, the counts so far, and the faults."""

    def __init__(
        self,
        space: OpenSpace,
        version: int,
        tell: Tell,
        *,
        blob_bytes: int = 0,
    ) -> None:
        self.space = space
        self.number = space.number
        self.version = version
        self.branches = Branches([])
        self.lineage = Lineage(space.did)
        self.faults: list[Fault] = []
        self.warnings: list[Fault] = []
        self.commits = 0
        self.facts = 0
        self.erased = 0  # of the facts
        self.erasers = Erasers()
        self.oldest = 0  # the horizon; 0 when the space was never compacted
        self.previous: CommitRow | None = None  # the commit below the horizon
        self.gone = 0  # commits that were compacted away
        self._tell = tell
        self.raised: Exception | None = None  # an exception of `tell`, which ends the inspection
        self._blob_bytes = 0  # that were read so far
        self._blob_bytes_all = blob_bytes

    def fault(
        self, kind: str, message: str, *, version: int | None = None, id: str | None = None
    ) -> None:
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(Fault(kind, version, id, message))

    def warn(self, kind: str, message: str, *, version: int, id: str) -> None:
        if len(self.warnings) < FAULTS_MAX:
            self.warnings.append(Fault(kind, version, id, message))

    def advance(self, blob_bytes: int = 0) -> None:
        """Report progress, counted in commits and mebibytes of blobs."""
        self._blob_bytes += blob_bytes
        total = self.version + self._blob_bytes_all // MIB
        done = self.gone + self.commits + self._blob_bytes // MIB
        try:
            self._tell("verifying", min(done, total), total)
        except Exception as error:
            self.raised = error
            raise

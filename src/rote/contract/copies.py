"""Pages that carry a space from one store to another, and the report of a copy. Frozen values."""

from typing import Any

from msgspec import Struct

from rote.contract.erasures import Remains
from rote.contract.facts import Commit
from rote.contract.reports import VerifyReport
from rote.contract.requests import SideRow
from rote.errors import InvalidInput
from rote.values import Json, canonical

# The kind of the side rows that hold checkpoints. Nobody relies on their fences: each checkpoint is
# signed, and all checkpoints of a version state the same.
CHECKPOINT = "checkpoint"


class CopyPage(Struct, frozen=True, gc=False):
    """Whole commits in log order, with the rows of the keys that they used.

    Snapshots are not sent: no hash covers them, so the target makes its own. Of an erased fact its
    remains are sent.
    """

    commits: tuple[Commit, ...]
    keys: tuple[SideRow, ...]  # one for each commit with a key, in the same order
    remains: tuple[Remains, ...] = ()  # one for each erased fact, in the same order

    def erased_by(self) -> int:
        """Return the newest version that erased a fact of the page; 0 when none did.

        A copy has to go on to that version: before it, no commit in the copy records the erasure.
        """
        return max([0, *(remains.version for remains in self.remains)])


# The place where a page of a foundation ends: (branch, id, version). Commits come first; among them
# the branch and the id are empty.
FoundationCursor = tuple[str, str, int]


class LeftFact(Struct, frozen=True, gc=False):
    """A fact that a compaction has kept, with the entity's value after it instead of its body."""

    branch: str
    id: str
    op: str
    version: int
    index: int
    hash: str
    parent: str
    salt: str | None
    data: bytes | None  # canonical; None after a delete
    remains: Remains | None = None  # None unless it was erased


class FoundationPage(Struct, frozen=True, gc=False):
    """A part of the foundation of a compacted space: what is left up to its horizon, inclusive."""

    before: int  # the horizon
    version: int  # of the commit that records the compaction
    checkpoint: dict[str, Any]  # of the commit at the horizon, signed
    commits: tuple[
        Commit, ...
    ]  # that are left, without facts; the one at the horizon has its facts
    keys: tuple[SideRow, ...]  # one for each commit with a key, in the same order
    facts: tuple[LeftFact, ...]  # by branch, id and version; the last of an entity in a commit
    next: FoundationCursor | None  # None at the end
    remains: tuple[Remains, ...] = ()  # one for each erased fact of the commits, in the same order


class SidePage(Struct, frozen=True, gc=False):
    """All side rows above `after` and up to `until`, without those that are sent with commits."""

    after: tuple[str, str]  # kind, key
    until: tuple[str, str] | None  # None: to the end
    rows: tuple[SideRow, ...]


def check_row_follows(there: SideRow, sent: SideRow) -> None:
    """Raise InvalidInput when the target's row is not older than the sent one, and not equal to it.

    A copy never moves a fence back.
    """
    if there.fence < sent.fence:
        return
    if there.fence == sent.fence and canonical(there.body) == canonical(sent.body):
        return
    raise InvalidInput(
        f"the target's side row {there.kind} {there.key!r} has gone its own way: fence"
        f" {there.fence} there, {sent.fence} in the source, and not the same content; drop it there"
        " if the source is right, or copy to another store",
        kind=there.kind,
        key=there.key,
        source_fence=sent.fence,
        target_fence=there.fence,
    )


class CopyReport(Struct, frozen=True):
    """The outcome of a copy.

    `ok` is true only when verify of the target finds no fault and its commit at `version` is that of
    the source.
    """

    ok: bool
    did: str
    name: str  # in the target
    version: int  # of the source, which was copied
    head: str | None  # its hash, the same in both stores
    since: int  # the target's version before the copy; 0 when it had nothing
    commits: int  # that this run copied
    sides: int  # side rows that this run looked at
    blobs: int  # that this run copied
    with_key: bool  # whether this run gave the target the private key of the space
    verified: VerifyReport  # of the target

    def to_dict(self) -> dict[str, Json]:
        return {
            "ok": self.ok,
            "did": self.did,
            "name": self.name,
            "version": self.version,
            "head": self.head,
            "since": self.since,
            "commits": self.commits,
            "sides": self.sides,
            "blobs": self.blobs,
            "with_key": self.with_key,
            "verified": self.verified.to_dict(),
        }

"""What travels when a space is copied from one store to another."""

from typing import Any

from msgspec import Struct

from rote.contract.erasures import Remains
from rote.contract.facts import Commit
from rote.contract.reports import VerifyReport
from rote.contract.requests import SideRow
from rote.errors import InvalidInput
from rote.values import Json, canonical

# The kind of the side rows that hold checkpoints. Nobody holds a fence of theirs: each is signed,
# and says the same of a version as any other.
CHECKPOINT = "checkpoint"


class CopyPage(Struct, frozen=True, gc=False):
    """Whole commits in log order, with the rows of the keys that they used.

    Snapshots do not travel: no hash covers them, so whoever takes a page makes its own. What was
    erased travels as what remains of it.
    """

    commits: tuple[Commit, ...]
    keys: tuple[SideRow, ...]  # one for each commit with a key, in the same order
    remains: tuple[Remains, ...] = ()  # one for each erased fact, in the same order

    def erased_by(self) -> int:
        """The newest version that erased something of it; it makes sense only with that commit."""
        return max([0, *(remains.version for remains in self.remains)])


# Where a page of a foundation ends: (branch, id, version); in the commits, which come first, the
# branch and the id are empty.
FoundationCursor = tuple[str, str, int]


class LeftFact(Struct, frozen=True, gc=False):
    """A fact that a compaction has left, with the value that it leaves instead of what it did."""

    branch: str
    id: str
    op: str
    version: int
    index: int
    hash: str
    parent: str
    salt: str | None
    data: bytes | None  # canonical; None after a delete
    remains: Remains | None = None  # where it was erased


class FoundationPage(Struct, frozen=True, gc=False):
    """A part of what a compacted space stands on, up to its line and with it."""

    before: int  # the line
    version: int  # of the commit that records the compaction
    checkpoint: dict[str, Any]  # of the line, signed
    commits: tuple[Commit, ...]  # that are left, without facts; the line's own has all of its
    keys: tuple[SideRow, ...]  # one for each commit with a key, in the same order
    facts: tuple[LeftFact, ...]  # by branch, id and version; the last of an entity in a commit
    next: FoundationCursor | None  # None at the end
    remains: tuple[Remains, ...] = ()  # one for each erased fact of the commits, in the same order


class SidePage(Struct, frozen=True, gc=False):
    """All side rows above `after` and up to `until`, but for those that travel with commits."""

    after: tuple[str, str]  # kind, key
    until: tuple[str, str] | None  # None: to the end
    rows: tuple[SideRow, ...]


def check_row_follows(there: SideRow, sent: SideRow) -> None:
    """InvalidInput when the target's row has gone its own way: a copy never moves a fence back."""
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
    """The outcome of a copy: ok only when the target, recomputed, is the source at a version."""

    ok: bool
    did: str
    name: str  # in the target
    version: int  # of the source, which was copied
    head: str | None  # its hash, the same in both stores
    since: int  # the target's version before; 0 when nothing was there
    commits: int  # that this run brought
    sides: int  # side rows that this run looked at
    blobs: int  # that this run brought
    with_key: bool  # whether the target has the private key of the space now from here
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

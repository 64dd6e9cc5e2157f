"""The Port: everything the layers above may ask of a space, whoever answers.

The kernel answers in process, a client answers over the wire; both pass the same suite. Every call
is atomic and sees one committed state. Reads may be retried freely; `commit` may be retried with
its key. Errors are those of rote.errors, nothing else.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from rote.contract.blobs import BlobInfo, BlobPart, BlobRequest, ByteStream, GcReport
from rote.contract.branches import Branch, BranchRequest, Change, MergeRequest, MergeResult
from rote.contract.compactions import Compaction
from rote.contract.copies import CopyPage, FoundationCursor, FoundationPage, SidePage
from rote.contract.erasures import Erasure
from rote.contract.facts import Commit, Glance, State
from rote.contract.index import Hit
from rote.contract.reports import VerifyReport
from rote.contract.requests import (
    CommitRequest,
    FactPage,
    Head,
    Rehearsal,
    ScanPage,
    SideRow,
    SpaceInfo,
    View,
)
from rote.errors import ReadConflict
from rote.values import Json

Progress = Callable[[int, int], None]  # (done, total)
CopyProgress = Callable[[str, int, int], None]  # (what is being done, how far, of how much)
Holds = Callable[[int], Sequence[ReadConflict]]  # what no longer holds at a version


class Port(Protocol):
    """A store of spaces. Spaces are named by their did."""

    def spaces(self) -> tuple[SpaceInfo, ...]: ...

    def space(self, name: str, *, create: bool) -> SpaceInfo:
        """The space of that name or did; made on first use when `create`, else NotFound."""
        ...

    def now(self) -> int:
        """The store's clock, microseconds since the epoch."""
        ...

    def shared_now(self) -> int:
        """The clock that all who share the store go by: the database's own, where it has one."""
        ...

    def head(self, space: str) -> Head: ...

    def head_at(self, space: str, *, version: int | None = None, at: int | None = None) -> Head:
        """The head as it was at a version, or at an instant (the newest commit not after it)."""
        ...

    def snapshot(self, space: str, view: View) -> Head:
        """The newest commit that made the view what it is: one with facts, a merge or an erasure on
        its line. Where that was compacted away, the oldest commit that can be read."""
        ...

    def commit(self, space: str, request: CommitRequest, *, holds: Holds | None = None) -> Commit:
        """Validate, append and make durable, or raise and write nothing.

        With `holds`, nobody else writes to the space while it is asked whether what the caller
        relies on holds at the newest version; what does not is a Conflict.
        """
        ...

    def rehearse(
        self, space: str, operations: Sequence[Mapping[str, Any]], *, view: View,
        own: Mapping[str, State], now: int,
    ) -> tuple[Rehearsal, ...]:  # fmt: skip
        """What operations would do at a view on which `own` entities are laid, each on what those
        before it left; raises what a commit of them there, at the instant `now`, would raise."""
        ...

    def read(self, space: str, ids: Sequence[str], view: View) -> tuple[State, ...]:
        """The states of `ids`, in that order, all from one state of the space."""
        ...

    def glance(
        self,
        space: str,
        id: str,
        *,
        values: Sequence[str],
        sizes: Sequence[str],
        view: View,
        may_be_new: bool = False,
    ) -> Glance:
        """What an entity holds at some pointers, and how long the arrays at others are. With
        `may_be_new` one that nothing is known of may be taken for absent without a look: whoever
        writes by that says so in the reads of the commit, and looks when they do not hold."""
        ...

    def scan(
        self, space: str, *, start: str, end: str | None, after: str | None, limit: int, view: View
    ) -> ScanPage:
        """Existing entities with start <= id < end and id > after, in code point order."""
        ...

    def history(
        self, space: str, id: str, *, before: tuple[int, int] | None, limit: int, view: View
    ) -> FactPage: ...

    def log(self, space: str, *, since: int, limit: int) -> tuple[Commit, ...]:
        """Commits above `since`, oldest first, over all branches."""
        ...

    def find(
        self, space: str, index: str, *, start: str, end: str | None, after: Hit | None,
        limit: int, view: View,
    ) -> tuple[Hit, ...]:  # fmt: skip
        """Entities that a declared index lists under terms in [start, end), in (term, id) order."""
        ...

    def reindex(self, space: str, *, progress: Progress | None) -> None:
        """Drop all declared indexes and build them anew from the log. Not atomic; an index that is
        only half built is finished before it answers."""
        ...

    def query(self, space: str, query: Mapping[str, Any], view: View) -> dict[str, Json]:
        """Selected entities and those that links lead to, all from one state."""
        ...

    def values(self, space: str, query: Mapping[str, Any], view: View) -> dict[str, Json]:
        """The values of selected entities, with those that links lead to in the links' places."""
        ...

    def watch(
        self, space: str, query: Mapping[str, Any], view: View, *, since: int | None,
        timeout: float | None,
    ) -> Iterator[dict[str, Any]]:  # fmt: skip
        """Frames {from, to, upserts, removes} of a query's result, first from `since` to now, then
        as it changes; ends after `timeout` seconds without one. A frame from None starts over."""
        ...

    # Branches. Making, deleting and merging are commits, and may be retried with their key.

    def branches(self, space: str, *, version: int | None) -> tuple[Branch, ...]:
        """All branches as of a version (None: now), deleted ones too, in the order of creation."""
        ...

    def create_branch(self, space: str, request: BranchRequest) -> Commit: ...

    def delete_branch(self, space: str, name: str, *, key: str | None) -> Commit: ...

    def merge(self, space: str, request: MergeRequest) -> MergeResult:
        """What the source has changed, applied to the target as one commit; conflicts are an
        answer, and then nothing is written."""
        ...

    def diff(self, space: str, before: View, after: View) -> tuple[Change, ...]:
        """What turns one state into another, in id order."""
        ...

    def side(self, space: str, kind: str, key: str) -> SideRow | None: ...

    def sides(self, space: str, kind: str, *, after: str, limit: int) -> tuple[SideRow, ...]:
        """The rows of a kind, in key order, above `after`."""
        ...

    def put_side(self, space: str, kind: str, key: str, body: Json, *, fence: int) -> SideRow:
        """Write a row if its fence is `fence` (0: if it is absent); a stale fence is Denied."""
        ...

    def drop_side(self, space: str, kind: str, key: str, *, fence: int) -> None: ...

    def put_blob(self, space: str, data: bytes | ByteStream, request: BlobRequest) -> str:
        """Store bytes once and describe them by a commit; the hash. The payload is durable before
        anything refers to it; after an error nothing of it counts."""
        ...

    def blob_info(self, space: str, hash: str, view: View) -> BlobInfo: ...

    def blob_piece(self, space: str, hash: str, *, offset: int) -> bytes:
        """Bytes from `offset` on, as many as come at once; none at the end and beyond."""
        ...

    def gc(self, space: str, *, grace_seconds: float, progress: CopyProgress | None) -> GcReport:
        """Let go of payloads that nothing has referred to for that long, and of uploads that were
        given up; finish erasures. Not atomic: many short transactions, each of which leaves
        everything whole."""
        ...

    def verify(
        self, space: str, *, against: dict[str, Any] | None, progress: Progress | None
    ) -> VerifyReport: ...

    def checkpoint(self, space: str) -> dict[str, Any]: ...

    def erase(self, space: str, id: str, *, reason: str, key: str | None) -> Erasure:
        """Take the content of an entity away, on all branches and at all versions, by a commit; then
        out of the store's files. Busy when only the latter could not be done: call it again."""
        ...

    def compact(
        self,
        space: str,
        *,
        before: int | None,
        keep: int | None,
        dry_run: bool,
        key: str | None,
        progress: CopyProgress | None,
    ) -> Compaction:
        """Let go of history below a version, or of all but the last `keep` commits that are no
        compactions, but for what reads and merges from there on need; a signed commit records it,
        and may be retried with its key."""
        ...

    def backup(self, path: Path) -> None: ...

    # Copies: a space leaves one store and enters another, as it is. Everything that enters is
    # checked first. All of it may be repeated: what is there already is not written again.

    def adopt(self, did: str, name: str, *, seed: bytes | None) -> SpaceInfo:
        """The space of that did; made empty when it is new, and its private key kept if given."""
        ...

    def seed(self, space: str) -> bytes:
        """The private key of a space, for another store; Denied where it is not at hand."""
        ...

    def copy_out(self, space: str, *, since: int, until: int) -> CopyPage:
        """Commits in (since, until], oldest first; a page is bounded in count and in bytes."""
        ...

    def copy_in(self, space: str, page: CopyPage) -> Head:
        """Append what is not there yet, in one transaction; the head then, from where to go on.

        It may take a part of the page only. InvalidInput when the page does not continue this
        log, Corrupt when it is not what was written; then nothing is.
        """
        ...

    def foundation_out(
        self, space: str, *, after: FoundationCursor | None
    ) -> FoundationPage | None:
        """A page of what a compacted space stands on; None when it was never compacted."""
        ...

    def foundation_in(self, space: str, pages: Iterable[FoundationPage]) -> Head:
        """Take over all pages into a space that is empty, in one transaction; it is at the line
        then. InvalidInput when it is not empty, Corrupt when it is not what was left; then nothing
        is written."""
        ...

    def sides_out(self, space: str, *, after: tuple[str, str]) -> SidePage:
        """Side rows above (kind, key), but for those that copy_out gives."""
        ...

    def sides_in(self, space: str, page: SidePage) -> None:
        """Take over the rows of the page, all or none; rows that it does not have stay.

        InvalidInput when a row here has a higher fence, or the same one and another body: no
        fence moves back. Of two checkpoints of a version the one with the higher fence stays.
        """
        ...

    def blobs(self, space: str, *, after: str, limit: int) -> tuple[BlobPart, ...]:
        """The blobs above a hash, in the order of their hashes."""
        ...

    def adopt_blob(self, space: str, hash: str, stream: ByteStream) -> bool:
        """Take in the bytes of a blob; False when they are there. Corrupt when they have another
        hash; then nothing of them counts."""
        ...

    def close(self) -> None: ...

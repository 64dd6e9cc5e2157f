"""Commands about blobs and vectors, about trust and keeping, and about copies."""

from collections.abc import Mapping, Sequence
from typing import Any

from rote.contract.blobs import BlobInfo, BlobPart, GcReport
from rote.contract.commands.command import HEAD, Command, Work
from rote.contract.compactions import Compaction
from rote.contract.copies import CopyPage, FoundationCursor, FoundationPage, SidePage
from rote.contract.erasures import Erasure
from rote.contract.reports import VerifyReport
from rote.contract.requests import (
    Head,
    OnlyIf,
    View,
)
from rote.values.blobs import CONTENT_TYPE_DEFAULT
from rote.values.limits import GC_GRACE_SECONDS, PAGE_MAX

# -- blobs -----------------------------------------------------------------------------------------


class PutPiece(Command[str], frozen=True, gc=False):
    """Add bytes to an upload; the answer is its name. An upload is no blob yet.

    The first piece has the name None and begins an upload. Each next piece begins where the one
    before it ended.
    """

    upload: str | None
    offset: int
    data: bytes


class DropUpload(Command[None], frozen=True, gc=False):
    """Drop an upload, unless it has become a blob meanwhile."""

    upload: str


class PutBlob(Command[str | None], frozen=True, gc=False):
    """Make an upload a blob by a commit that describes it; the answer is the hash of its data.

    Without an upload, `expect` names a blob that may be stored already; None when it is not.
    """

    upload: str | None = None
    content_type: str = CONTENT_TYPE_DEFAULT
    labels: Sequence[str] = ()
    expect: str | None = None  # the hash that the data must have
    key: str | None = None
    branch: str = "main"
    attempt: str | None = None
    only_if: OnlyIf | None = None


class GetBlobInfo(Command[BlobInfo], frozen=True, gc=False):
    """Ask for size, type and labels of a blob."""

    hash: str
    view: View = HEAD


class ReadPiece(Command[bytes], frozen=True, gc=False):
    """Read bytes of a blob from `offset` on, as many as one chunk holds; none at the end and beyond."""

    hash: str
    offset: int = 0


class ListBlobs(Command[tuple[BlobPart, ...]], frozen=True, gc=False):
    """List blobs above a hash, in the order of their hashes."""

    after: str = ""
    limit: int = PAGE_MAX


class AdoptBlob(Command[bool | None], frozen=True, gc=False):
    """Make an upload a blob that another store has described; True when it did.

    False when the blob is stored already. None when it is not, and no upload was named. Corrupt when
    the data has another hash.
    """

    hash: str
    upload: str | None = None


# -- vectors ---------------------------------------------------------------------------------------
# Vectors lie beside the log, by the embedder and the SHA-256 of a text (contract/vectors.py). Hashes
# and rows are bytes, one after the other.


class GetVectors(Command[bytes], frozen=True, gc=False):
    """Ask for the vectors of texts; the answer has the rows of those that are stored."""

    name: str
    data: bytes  # hashes


class PutVectors(Command[None], frozen=True, gc=False):
    """Store the vectors of texts that have none.

    Nothing is written when something was erased, or compacted away, above a version: the texts may be
    gone.
    """

    name: str
    data: bytes  # rows
    unerased_since: int  # a version from before the texts were read


class ListVectorNames(Command[tuple[str, ...]], frozen=True, gc=False):
    """List the names under which there are vectors."""


class VectorsOut(Command[bytes], frozen=True, gc=False):
    """Ask for the next rows above a hash, in the order of hashes; none at the end."""

    name: str
    data: bytes = b""  # the hash


# -- trust and keeping -----------------------------------------------------------------------------


class Verify(Work[VerifyReport], frozen=True, gc=False):
    """Recompute everything, and prove that the log extends a checkpoint."""

    against: Mapping[str, Any] | None = None


class MakeCheckpoint(Command[dict[str, Any]], frozen=True, gc=False):
    """Sign the head."""


class FindWritten(Command[tuple[str, ...]], frozen=True, gc=False):
    """List ids that start with a prefix, in order, of entities that have content at some version on
    some branch; with `where` of those that met its conditions there (contract.Matcher)."""

    prefix: str
    where: Mapping[str, Any] | None = None
    after: str | None = None
    limit: int = PAGE_MAX


class Erase(Command[Erasure], frozen=True, gc=False):
    """Erase the content of entities, on all branches and at all versions, by one commit.

    Copies in the store's files are removed after the commit. Busy when only that failed: ask again.
    """

    reason: str
    id: str | None = None
    ids: Sequence[str] | None = None  # instead of `id`
    prefix: str | None = None  # instead of both: all ids that start with it
    where: Mapping[str, Any] | None = None  # with a prefix: of these, as FindWritten finds them
    key: str | None = None
    attempt: str | None = None
    only_if: OnlyIf | None = None


class Compact(Work[Compaction], frozen=True, gc=False):
    """Drop history below a version, or all but the last `keep` commits that are no compactions.

    Facts that reads and merges from there on need are kept. A signed commit records it.
    """

    before: int | None = None
    keep: int | None = None
    dry_run: bool = False
    key: str | None = None
    attempt: str | None = None
    only_if: OnlyIf | None = None


class CollectGarbage(Work[GcReport], frozen=True, gc=False):
    """Drop blobs that nothing has referred to for the grace period, and abandoned uploads; finish
    erasures. Not atomic: it runs many short transactions, and each leaves the store whole."""

    grace_seconds: float = GC_GRACE_SECONDS


class Reindex(Work[None], frozen=True, gc=False):
    """Drop all declared indexes and build them anew from the log.

    Not atomic: an index that is only half built is finished before it answers.
    """


# -- copies: a space leaves one store and enters another, as it is ---------------------------------
# Everything that comes in is checked first. Calls may be repeated: rows that are there already are
# not written again.


class CopyOut(Command[CopyPage], frozen=True, gc=False):
    """List commits in (since, until], oldest first; a page is bounded in count and in bytes."""

    since: int
    until: int


class CopyIn(Command[Head], frozen=True, gc=False):
    """Append the commits that this store does not have, in one transaction; the answer is the new head.

    It may take only the first part of the page: the next page begins after the head. InvalidInput
    when the page does not continue this log, Corrupt when a check fails; then nothing is written.
    """

    page: CopyPage


class FoundationOut(Command[FoundationPage | None], frozen=True, gc=False):
    """Ask for a page of the foundation of a compacted space; None when it was never compacted."""

    after: FoundationCursor | None = None


class FoundationIn(Command[Head], frozen=True, gc=False):
    """Write all pages of a foundation into an empty space, in one transaction.

    The head of the space is then the commit at the horizon. The pages are an upload with the JSON of
    one page per line of text. InvalidInput when the space is not empty, Corrupt when a check fails;
    then nothing is written.
    """

    upload: str


class SidesOut(Command[SidePage], frozen=True, gc=False):
    """List side rows above (kind, key), without those that CopyOut sends."""

    after: tuple[str, str] = ("", "")


class SidesIn(Command[None], frozen=True, gc=False):
    """Write the rows of a page, all or none; other rows stay.

    InvalidInput when a row here has a higher fence, or the same fence and another body: no fence
    moves back. Of two checkpoints of a version the one with the higher fence is kept.
    """

    page: SidePage

"""The Engine: it keeps the bytes of a store, and only the kernel calls it. Five chapters:

    log            commits and facts: appended; erasures, compactions and gc take content away
    pointers       the branches, and the entities of each branch
    side rows      small rows beside the log, by kind and key
    derived rows   rows and segments of indexes, which can be made anew from the log; vectors of
                   texts, which only their embedder could make anew
    blobs          bytes in chunks

What is atomic: everything written inside one `writer()` block, which becomes durable when the block
is left without an error. What may be retried: every read, and a block that raised anything but
OutcomeUnknown. Facts at or below a committed version never change, so reads at a version need no
transaction. Every method raises rote.errors only; a driver's own errors never leave the engine.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from rote.engines.rows import (
    Batch,
    BlobRow,
    BranchRow,
    ChunkRow,
    CommitRow,
    DerivedRow,
    EntityRow,
    FactPlace,
    FactRow,
    HeadRow,
    Line,
    SegmentRow,
    SideRecord,
    SpaceRow,
    Span,
    VectorRow,
)
from rote.errors import Busy, Denied, NotFound, Unavailable


class OutcomeUnknown(Unavailable):
    """COMMIT failed, and whether it took effect is unknown; ask `settle`."""

    def __init__(self) -> None:
        super().__init__(
            "the store failed while committing and cannot say whether it did;"
            " when it is back, look, or repeat the call with the same key",
            code=Unavailable.code,
            outcome="unknown",
        )


class Contended(Busy):
    """Another writer moved the space first. Nothing was written; plan again."""

    def __init__(self) -> None:
        super().__init__("others wrote to this space at the same moment; try again", code=Busy.code)


# Why a store is read only, where its user wants that.
ASKED_FOR = "it was opened with read_only=True; open it without that to write"


def refused_write(why: str) -> Denied:
    """Return the error for a write to a store that was opened read only."""
    return Denied(f"nothing can be written to this store: {why}", read_only=True)


def no_space() -> NotFound:
    return NotFound("the space is no longer in this store; it was erased")


class Scrubbed(Struct, frozen=True):
    """The outcome of a scrub."""

    remaining: tuple[str, ...] = ()  # places that it cannot reach, in words
    is_whole: bool = True  # False when this user may not rewrite a part of the store; its owner may


class Reader(Protocol):
    """Reads of one space. Each sees one committed state; inside a writer also its own writes."""

    is_audit: bool  # of a store that was opened read only: what is read is checked by its hashes

    def head(self, space: int) -> HeadRow | None:
        """Return the newest commit, at least as new as any that another process has been answered for.

        NotFound when there is no such space any more.
        """
        ...

    def branches(self, space: int) -> list[BranchRow]: ...

    def commits(self, space: int, *, after: int, limit: int) -> list[CommitRow]:
        """Commits above version `after`, oldest first."""
        ...

    def events(self, space: int, *, after: int, limit: int) -> list[CommitRow]:
        """Commits with an event above version `after`, oldest first."""
        ...

    def facts(self, space: int, *, after: int, until: int) -> list[FactRow]:
        """Facts of the commits in (after, until], in log order."""
        ...

    def changed(self, space: int, *, after: int, until: int, limit: int) -> list[tuple[int, str]]:
        """(branch, id) of the facts of the commits in (after, until]."""
        ...

    def counts(self, space: int, *, until: int) -> tuple[int, int]:
        """Return the numbers of commits and of facts up to a version."""
        ...

    def strays(self, space: int) -> int:
        """Return the number of facts and pointers whose version no commit has, or could have."""
        ...

    def newest(self, space: int, ids: Sequence[str], line: Line) -> list[FactRow]:
        """Return for each id its newest fact on the line; leave out ids without one."""
        ...

    def history(
        self,
        space: int,
        id: str,
        line: Line,
        *,
        before: tuple[int, int] | None,
        after: int,
        limit: int,
        is_last: Callable[[FactRow], bool] | None = None,
    ) -> list[FactRow]:
        """Facts of one entity on the line above version `after`, newest first.

        None comes below the first that `is_last` is true of.
        """
        ...

    def places(
        self, space: int, *, branch: int | None, until: int, after: FactPlace | None, limit: int
    ) -> list[FactPlace]:
        """Return the places of the facts up to version `until` that come after a given place, in
        order; on one branch, or on all."""
        ...

    def facts_from(self, space: int, *, until: int, after: FactPlace, limit: int) -> list[FactRow]:
        """Return facts up to version `until` that come after a given place, in the order of places."""
        ...

    def operations_at(self, space: int, places: Sequence[FactPlace]) -> dict[FactPlace, int]:
        """Return the operation codes of the facts at these places; places without a fact are left out."""
        ...

    def salts(self, space: int, ids: Sequence[str]) -> dict[str, bytes]:
        """Return the salts of those entities that have one, on any branch."""
        ...

    def written(self, space: int, spans: Sequence[Span]) -> list[str]:
        """Return the ids of the entities written in the spans, each once, in any order."""
        ...

    def last_written(self, space: int, line: Line) -> dict[int, int]:
        """Return for each branch the version of its own newest fact up to its cap; none is left out."""
        ...

    def entities(
        self, space: int, line: Line, *, start: str, end: str | None, limit: int,
        descending: bool = False,
    ) -> list[str]:  # fmt: skip
        """Return ids in [start, end) that may exist on the line, in code point order or its reverse.

        All that exist are among them, and some that a nearer branch has deleted.
        """
        ...

    def entity_at(
        self, space: int, branch: int, *, start: str, end: str | None, place: int, unless_after: int
    ) -> str | None:
        """Return the id at a place, from 0, among those in [start, end) that live on a branch now.

        None when there are not so many, and when the branch was written after a version.
        """
        ...

    def entity_rows(
        self, space: int, *, after: tuple[int, str] | None, limit: int
    ) -> list[EntityRow]: ...

    def pointers(self, space: int, branch: int, ids: Sequence[str]) -> list[EntityRow]:
        """The entity rows of `ids` on a branch."""
        ...

    def newest_in_range(
        self, space: int, line: Line, *, start: str, end: str | None, after: int
    ) -> FactRow | None:
        """The newest fact above version `after` on the line whose id is in [start, end)."""
        ...

    def side(self, space: int, kind: str, key: str) -> SideRecord | None: ...

    def sides(
        self, space: int, kind: str | None, *, after: tuple[str, str], limit: int
    ) -> list[SideRecord]:
        """Return side rows above (kind, key), in that order; of one kind, or of all."""
        ...

    def indexes(self, space: int) -> list[str]:
        """Return the names of the derived indexes that were ever built."""
        ...

    def indexed(self, space: int, index: str) -> int:
        """The version up to which a derived index is complete; 0 when it was never built."""
        ...

    def derived(
        self,
        space: int,
        index: str,
        line: Line,
        *,
        start: str,
        end: str | None,
        after: tuple[str, str] | None,
        limit: int,
        prefix: str = "",
        descending: bool = False,
    ) -> list[DerivedRow]:
        """Return rows with a term in [start, end) above (term, id), in (term, id) order; with
        `descending` those below it, in the reverse order.

        Each is on a branch of the line and open at its cap, and has an id that starts with
        `prefix`. A (term, id) pair is never split between two pages.
        """
        ...

    def derived_of(self, space: int, index: str, id: str) -> list[DerivedRow]: ...

    def derived_strays(self, space: int, index: str) -> int:
        """Return the number of an index's rows that start or end above the version it is complete up to."""
        ...

    def derived_count(self, space: int, index: str, *, until: int) -> int:
        """Return the number of an index's rows that start at or below a version."""
        ...

    def segments(self, space: int, index: str) -> list[SegmentRow]:
        """Return the segments of a packed index by number, with empty bodies."""
        ...

    def segment_bodies(self, space: int, index: str, numbers: Sequence[int]) -> dict[int, bytes]:
        """Return the bodies of those segments that exist, by number."""
        ...

    def postings(
        self, space: int, index: str, numbers: Sequence[int], terms: Sequence[str]
    ) -> list[tuple[int, str, bytes]]:
        """Return (segment, term, body) of those that exist, in any order.

        Nothing tells a segment that was dropped from one without these terms; `segments` does.
        """
        ...

    def postings_of(
        self, space: int, index: str, number: int, *, after: str, limit: int
    ) -> list[tuple[str, bytes]]:
        """Return (term, body) of one segment above a term, in code point order; no term is empty."""
        ...

    def vectors(self, space: int, name: str, hashes: Sequence[bytes]) -> dict[bytes, VectorRow]:
        """Return the vectors of those texts that have one, by hash."""
        ...

    def vector_names(self, space: int) -> list[str]:
        """Return the names under which there are vectors, in order."""
        ...

    def vector_rows(self, space: int, name: str, *, after: bytes, limit: int) -> list[VectorRow]:
        """Return vectors above a hash, in the order of their hashes."""
        ...

    def blob(self, space: int, hash: bytes) -> BlobRow | None:
        """Return the blob of that hash, if its data is complete."""
        ...

    def blobs(self, space: int, *, after: bytes, limit: int) -> list[BlobRow]:
        """Return complete blobs above a hash, in the order of their hashes."""
        ...

    def upload(self, space: int, upload: bytes) -> BlobRow | None:
        """Return the blob under an upload token, complete or not."""
        ...

    def uploads(self, space: int, *, after: bytes, limit: int) -> list[BlobRow]:
        """Return incomplete blobs above a token, in the order of their tokens."""
        ...

    def blob_bytes(self, space: int) -> int:
        """Return the sum of the sizes of all blobs, complete or not."""
        ...

    def chunks(self, space: int, upload: bytes, *, after: int, limit: int) -> list[ChunkRow]:
        """Return chunks that end above byte `after`, in order; so the first one holds that byte."""
        ...

    def chunk_strays(self, space: int) -> int:
        """Return the number of chunks that belong to no blob."""
        ...


class Writer(Reader, Protocol):
    """One transaction. Reads see what it has written."""

    def drop_space(self, space: int, *, left: Sequence[SideRecord]) -> None:
        """Drop a space with all its rows, and put rows of the store itself (STORE)."""
        ...

    def presume_absent(
        self, space: int, *, ids: Sequence[str] = (), sides: Sequence[tuple[str, str]] = ()
    ) -> bool:
        """Whether to go on as if these ids and side rows were absent, instead of looking for them.

        The ids have no fact on any branch then, and there are no side rows of these (kind, key).
        Leaving the block proves that, or raises Contended and writes nothing. An engine on which a
        look costs nothing returns False.
        """
        ...

    def append(self, space: int, batch: Batch) -> None:
        """Add the rows; the last of the commits, if there are any, becomes the head."""
        ...

    def put_side(self, space: int, row: SideRecord) -> None: ...

    def drop_side(self, space: int, kind: str, key: str) -> None: ...

    def derive(
        self,
        space: int,
        index: str,
        *,
        rows: Sequence[DerivedRow],
        ended: Sequence[DerivedRow],
        indexed: int,
    ) -> None:
        """Insert `rows`, set `until` of open rows, and move the index to `indexed`.

        The open rows are those with the term, id and branch of a row in `ended`.
        """
        ...

    def drop_derived(self, space: int, index: str) -> None:
        """Drop all rows and segments of an index, and the version it is complete up to."""
        ...

    def drop_derived_of(self, space: int, id: str) -> None:
        """Drop the rows of an entity in every index."""
        ...

    def put_segment(
        self, space: int, index: str, row: SegmentRow, postings: Iterable[tuple[str, bytes]]
    ) -> None:
        """Insert a segment under a number that no other has, with its postings in the order of terms."""
        ...

    def drop_segments(self, space: int, index: str, numbers: Sequence[int]) -> None:
        """Drop segments with their postings."""
        ...

    def put_vectors(self, space: int, name: str, rows: Sequence[VectorRow]) -> None:
        """Insert the vectors of texts that have none; the others stay as they are."""
        ...

    def drop_vectors(self, space: int, name: str, hashes: Sequence[bytes]) -> None: ...

    def rewrite_facts(self, space: int, facts: Sequence[FactRow]) -> None:
        """Give existing facts the salt, body and value of these; their other fields stay."""
        ...

    def drop_facts(self, space: int, places: Sequence[FactPlace]) -> None: ...

    def drop_commits(self, space: int, *, before: int) -> None:
        """Drop the commits below a version that have neither a key nor an event."""
        ...

    def put_blob(self, space: int, row: BlobRow) -> None:
        """Insert or replace the row of an upload token; a hash stands in one row only."""
        ...

    def drop_blob(self, space: int, upload: bytes) -> None: ...

    def put_chunks(self, space: int, upload: bytes, rows: Sequence[ChunkRow]) -> None: ...

    def drop_chunks(self, space: int, upload: bytes, *, until: int) -> None:
        """Drop the chunks that end at or below a byte, so that data is deleted in bounded transactions."""
        ...


class Engine(Protocol):
    is_remote: bool  # every read of the store is a round trip
    read_only: str | None  # why every write raises `refused_write`; None where all can be written

    def why_not_written(self) -> str | None:
        """Return the reason why this user could write nothing, as far as a look can tell; or None."""
        ...

    def now(self) -> int | None:
        """Return the time of a clock that all users of the store share, in microseconds since the
        epoch; None where there is no such clock."""
        ...

    def mark(self) -> bytes | None:
        """Return a value that changes with every commit of any process; None where that cannot be told
        without a look at the store."""
        ...

    def spaces(self) -> list[SpaceRow]:
        """Return all spaces, by name."""
        ...

    def space(self, name: str) -> SpaceRow | None:
        """Return the space of that name or did."""
        ...

    def leased_spaces(self) -> list[SpaceRow]:
        """Return the spaces that have side rows of the kind `lease`, by one look at the store."""
        ...

    def create_space(self, *, did: str, name: str, seal: bytes, main: BranchRow) -> SpaceRow:
        """Make the space with its main branch; when name or did is taken, return the space that has it.

        The number of a space that was dropped is never given again: others may still use it. The
        store's rows of kind ERASED_SPACE have these numbers as fences.
        """
        ...

    def drop_store_row(self, kind: str, key: str) -> None:
        """Drop a side row of the store itself."""
        ...

    def check_usable(self) -> None:
        """Raise when the engine is closed, failed, or opened by a parent process; wait for no lock.

        It is called before a call begins, so it also releases whatever this thread still holds.
        """
        ...

    def reader(self) -> Reader:
        """Return a reader for the calling thread alone."""
        ...

    def writer(self, space: int, *, optimistic: bool = False) -> AbstractContextManager[Writer]:
        """Return a transaction that no other writer of the space overlaps.

        Leaving the block without an exception proves that everything read in it was the newest
        state. When `optimistic`, an engine may hold no lock; if others wrote to the space since the
        block began, it then raises Contended at the end and writes nothing. Reads in such a block
        need not see the block's own writes.

        Callers put it into an Abandoning block, or call `abandon` themselves after an interruption.
        """
        ...

    def abandon(self) -> None:
        """Release every lock and transaction of this thread, after an interruption.

        A `with` block may not have seen the interruption, which can come before the first line of
        its own end.
        """
        ...

    def harden(self) -> None:
        """Make every commit durable, also those that a killed process left behind."""
        ...

    def settle(self, space: int, version: int, attempt: bytes) -> bool:
        """Return whether that attempt is in the log, durably, after OutcomeUnknown. The answer is final."""
        ...

    def scrub(self, *, payloads: bool = False) -> Scrubbed:
        """Remove old copies of rewritten or dropped rows from this store, and give the room back.

        Raise Busy when someone is in the way. The data of blobs is large, and may be left alone
        unless `payloads` is true.
        """
        ...

    def tidy(self) -> None:
        """Remove files with content that killed processes have left beside the store."""
        ...

    def damage(self) -> list[str]:
        """Return the findings of the engine's own integrity check, in words."""
        ...

    def backup(self, path: Path) -> None:
        """Write all spaces, each at one committed version, to a new SQLite file."""
        ...

    def close(self) -> None: ...


def check_writable(engine: Engine) -> None:
    """Raise Denied for an engine that was opened read only."""
    if engine.read_only is not None:
        raise refused_write(engine.read_only)

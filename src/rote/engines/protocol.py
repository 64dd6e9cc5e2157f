"""The Engine: where bytes live. Small on purpose; the kernel is the only caller.

What is atomic: everything written inside one `writer()` block, which becomes durable when the block
is left without an error. What may be retried: every read, and a block that raised anything but
OutcomeUnknown. Facts at or below a committed version never change, so reads at a version need no
transaction. Every method raises rote.errors only; a driver's own errors never leave the engine.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

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
    SideRecord,
    SpaceRow,
    Span,
)
from rote.errors import Busy, Unavailable


class OutcomeUnknown(Unavailable):
    """COMMIT failed in a way that leaves open whether it took effect; ask `settle`."""

    def __init__(self) -> None:
        super().__init__(
            "the store failed while committing and cannot say whether it did;"
            " when it is back, look, or repeat the call with the same key",
            code=Unavailable.code,
            outcome="unknown",
        )


class Contended(Busy):
    """Another writer moved the space first; nothing was written, plan again."""

    def __init__(self) -> None:
        super().__init__("others wrote to this space at the same moment; try again", code=Busy.code)


class Reader(Protocol):
    """Reads of one space, each from one committed state (inside a writer: its own writes too)."""

    def head(self, space: int) -> HeadRow | None:
        """The newest commit; never misses one that another process has been answered for."""
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
        """How many commits and facts there are up to a version."""
        ...

    def strays(self, space: int) -> int:
        """How many facts and pointers have a version that no commit has, or could have."""
        ...

    def newest(self, space: int, ids: Sequence[str], line: Line) -> list[FactRow]:
        """For each id its newest fact on the line; ids without one are left out."""
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
    ) -> list[FactRow]:
        """Facts of one entity on the line above version `after`, newest first."""
        ...

    def places(
        self, space: int, *, branch: int | None, until: int, after: FactPlace | None, limit: int
    ) -> list[FactPlace]:
        """Where the facts up to version `until` are, above a place, in the order of places; on one
        branch, or on all."""
        ...

    def operations_at(self, space: int, places: Sequence[FactPlace]) -> dict[FactPlace, int]:
        """The operation codes of the facts at these places; those where none is are left out."""
        ...

    def salts(self, space: int, ids: Sequence[str]) -> dict[str, bytes]:
        """The salts of entities that have one, whatever the branch."""
        ...

    def written(self, space: int, spans: Sequence[Span]) -> list[str]:
        """The ids of what was written in the spans, each once, in any order."""
        ...

    def last_written(self, space: int, line: Line) -> dict[int, int]:
        """For each branch the version of its own newest fact up to its cap; none is left out."""
        ...

    def entities(
        self, space: int, line: Line, *, start: str, end: str | None, limit: int
    ) -> list[str]:
        """Ids in [start, end) that may exist on the line, in code point order: all that do, and
        some that a nearer branch has deleted."""
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
        """Side rows above (kind, key), in that order; of one kind, or of all."""
        ...

    def indexes(self, space: int) -> list[str]:
        """The derived indexes that were ever built, by name."""
        ...

    def indexed(self, space: int, index: str) -> int:
        """The version up to which a derived index is complete; 0 when it was never built."""
        ...

    def derived(
        self, space: int, index: str, line: Line, *, start: str, end: str | None,
        after: tuple[str, str] | None, limit: int,
    ) -> list[DerivedRow]:  # fmt: skip
        """Rows with a term in [start, end) above (term, id), on a branch of the line and open at
        its cap, in (term, id) order; a (term, id) pair is never split between two pages."""
        ...

    def derived_of(self, space: int, index: str, id: str) -> list[DerivedRow]: ...

    def derived_strays(self, space: int, index: str) -> int:
        """How many rows of an index start or end above the version it is complete up to."""
        ...

    def derived_count(self, space: int, index: str, *, until: int) -> int:
        """How many rows of an index start at or below a version."""
        ...

    def blob(self, space: int, hash: bytes) -> BlobRow | None:
        """The payload of that hash, if it is whole."""
        ...

    def blobs(self, space: int, *, after: bytes, limit: int) -> list[BlobRow]:
        """Whole payloads above a hash, in the order of their hashes."""
        ...

    def upload(self, space: int, upload: bytes) -> BlobRow | None:
        """What is kept under a token, whole or not."""
        ...

    def uploads(self, space: int, *, after: bytes, limit: int) -> list[BlobRow]:
        """Payloads that are not whole, above a token, in the order of their tokens."""
        ...

    def blob_bytes(self, space: int) -> int:
        """The sizes of all payloads, whole or not, added up."""
        ...

    def chunks(self, space: int, upload: bytes, *, after: int, limit: int) -> list[ChunkRow]:
        """Chunks that end above byte `after`, in order; so the first one holds that byte."""
        ...

    def chunk_strays(self, space: int) -> int:
        """How many chunks belong to no payload."""
        ...


class Writer(Reader, Protocol):
    """One transaction. Reads see what it has written."""

    def presume_absent(
        self, space: int, *, ids: Sequence[str] = (), sides: Sequence[tuple[str, str]] = ()
    ) -> bool:
        """Whether to go on as if no branch had a fact of these ids, and as if there were no side rows
        of these (kind, key), instead of looking. Leaving the block then proves it, or raises
        Contended, having written nothing. Where a look costs nothing the answer is no."""
        ...

    def append(self, space: int, batch: Batch) -> None:
        """Add the rows; the last of the commits, if there are any, is the head then."""
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
        """Insert `rows`, set `until` of the open rows that have the term, id and branch of those in
        `ended`, and move the index to `indexed`."""
        ...

    def drop_derived(self, space: int, index: str) -> None: ...

    def drop_derived_of(self, space: int, id: str) -> None:
        """Drop the rows of an entity in every index."""
        ...

    def rewrite_facts(self, space: int, facts: Sequence[FactRow]) -> None:
        """Give facts that are there the salt, body and value of these; what else they hold stays."""
        ...

    def drop_facts(self, space: int, places: Sequence[FactPlace]) -> None: ...

    def drop_commits(self, space: int, *, before: int) -> None:
        """Drop the commits below a version that have neither a key nor an event."""
        ...

    def put_blob(self, space: int, row: BlobRow) -> None:
        """Insert or replace what is kept under the row's token; a hash stands in one row only."""
        ...

    def drop_blob(self, space: int, upload: bytes) -> None: ...

    def put_chunks(self, space: int, upload: bytes, rows: Sequence[ChunkRow]) -> None: ...

    def drop_chunks(self, space: int, upload: bytes, *, until: int) -> None:
        """Drop the chunks that end at or below a byte: a payload goes in bounded transactions."""
        ...


class Engine(Protocol):
    is_remote: bool  # a look at the store is a round trip

    def now(self) -> int | None:
        """The time by a clock that all who share the store see, microseconds since the epoch; None
        where there is no such clock."""
        ...

    def spaces(self) -> list[SpaceRow]: ...

    def create_space(self, *, did: str, name: str, seal: bytes, main: BranchRow) -> SpaceRow:
        """Make the space with its main branch; when name or did is taken, the one that has it."""
        ...

    def check_usable(self) -> None:
        """Raise when the engine is closed, failed, or of a parent process; waits for no lock. Called
        before a call begins, so whatever this thread still holds is let go."""
        ...

    def reader(self) -> Reader:
        """Reads for the calling thread alone."""
        ...

    def writer(self, space: int, *, optimistic: bool = False) -> AbstractContextManager[Writer]:
        """A transaction that no other writer of the space overlaps.

        To leave the block without an exception proves that everything read in it was the newest
        state. When `optimistic`, an engine may hold no lock meanwhile and raise Contended at the
        end, having written nothing, when others wrote to the space since the block began; reads
        in the block then need not see what the block itself has written.

        It stands in an Abandoning block, or where `abandon` is called after an interruption.
        """
        ...

    def abandon(self) -> None:
        """Leave no lock and no transaction of this thread behind, after an interruption that a `with`
        block may not have seen: one can come before the first line of its own end."""
        ...

    def harden(self) -> None:
        """Make everything that is committed durable, also what a killed process left behind."""
        ...

    def settle(self, space: int, version: int, attempt: bytes) -> bool:
        """After OutcomeUnknown: is that attempt in the log, durably? Final either way."""
        ...

    def scrub(self, *, payloads: bool = False) -> list[str]:
        """Leave nothing of what was rewritten or dropped where this store keeps its rows, and give
        the room back; Busy when someone is in the way. What it cannot reach, in words. Chunks of
        payloads are a lot, and may be left alone unless `payloads` are asked for."""
        ...

    def damage(self) -> list[str]:
        """What the engine's own integrity check finds, in words."""
        ...

    def backup(self, path: Path) -> None:
        """Write all spaces, each at one committed version, to a new SQLite file."""
        ...

    def close(self) -> None: ...

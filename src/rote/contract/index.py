"""Derived indexes: what the kernel keeps beside the log to find entities by term.

    Index         a row for each term of an entity; the kernel finds the entities of a term
    PackedIndex   segments, whose bytes only the index itself reads; the kernel finds segments

    Change   →   rows of bytes, kept in a Note   →   Packed, a segment
         notes(…)                             pack(…)

A segment holds the changes of a range of the log, on all branches, and never changes. Many small ones
are merged into one; an erasure replaces those that hold an erased entity. The number of a segment is
drawn at random and tells nothing, except that a body with the same number is the same body.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from msgspec import UNSET, Struct, UnsetType

from rote.patch import Operation
from rote.values import Json


class Index(Protocol):
    """Declare an index. `terms` must be pure: the same arguments always give the same terms."""

    name: str  # changes whenever `terms` changes meaning, so old rows are not mistaken for new ones
    prefix: (
        str  # only entities whose ids start with it are looked at; writes of others cost nothing
    )

    def terms(self, id: str, value: Json, version: int, place: int, /) -> Iterable[str]:
        """Return the terms of an entity.

        version, place  of the commit that has written the value, and of the fact in it, from 0; both
                        are 0 for a value that is not committed yet
        """
        ...


class Hit(Struct, frozen=True):
    """One entity that an index lists under a term."""

    term: str
    id: str


class Change(Struct, frozen=True):
    """One entity before and after one commit, for a packed index."""

    version: int  # of the commit
    branch: int  # the number of the branch inside the store
    id: str
    # The value that the branch showed before the commit, written there or inherited; UNSET when
    # there was none. The values are shared: an index must not change them.
    before: Json | UnsetType = UNSET
    after: Json | UnsetType = UNSET
    # In normal form, if they have made the one value of the other: what they do not touch is the same.
    operations: Sequence[Operation] | None = None


class Note(Struct, frozen=True):
    """All that a packed index must know of a change, without the values before and after."""

    version: int
    branch: int
    id: str
    rows: tuple[bytes, ...]

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.rows))


class Packed(Struct, frozen=True):
    """The content of a segment."""

    size: int  # rows; decides which segments are merged
    body: bytes  # read whole by every question
    postings: Mapping[str, bytes]  # by term, read term by term; a small segment may have none


@runtime_checkable
class PackedIndex(Protocol):
    """Declare a packed index. All methods must be pure: the same arguments give the same bytes."""

    name: str  # changes whenever the bytes or the rows change meaning
    prefix: str  # only entities whose ids start with it are looked at
    is_eager: bool  # False: nothing is kept before the first question

    def notes(self, change: Change, /) -> Iterator[bytes]:
        """Yield the rows of a change, of which each is packed into one row of a segment.

        It costs what the change has changed: a commit does it while all other writers wait, and stops
        when there are too many rows. A change without a value before and after has none.
        """
        ...

    def pack(self, notes: Sequence[Note], /) -> list[Packed]:
        """Return segments of the notes of changes, which are given oldest first; none without rows."""
        ...

    def merge(self, segments: Sequence[Packed], /) -> Packed:
        """Return one segment with the rows of all.

        They are given oldest first. Their ranges of versions may overlap after a compaction.
        """
        ...

    def holds(self, body: bytes, ids: Collection[str], /) -> bool:
        """Whether a segment with this body has rows of one of these entities."""
        ...

    def without(self, segment: Packed, ids: Collection[str], /) -> Packed:
        """Return the segment as it would be if these entities had never been."""
        ...

    def rows(self, segment: Packed, /) -> Iterator[bytes]:
        """Yield every row as bytes that hold all that is known of it, in one form only.

        The rows of segments are those of `pack` of all their notes, however they came to be.
        """
        ...


class FoundSegment(Struct, frozen=True):
    """A segment of a packed index, as a question gets it."""

    number: int
    until: int  # the newest version that it covers
    body: bytes | None  # None where the caller has it, or where the answer is full


class Found(Struct, frozen=True):
    """The parts of a packed index that answer a question, all from one state of the space.

    A row counts on a line if its branch is on the line and its version is not above the branch's cap.
    Of several rows of one thing the one with the newest version counts.

    An answer is bounded in bytes. When it is full, the caller has neither got the bodies of some
    segments nor any postings, and asks again with the numbers of all bodies that it has by then.
    """

    version: int  # of that state
    line: tuple[tuple[int, int], ...]  # (branch, its cap) of the view, the nearest branch first
    segments: tuple[FoundSegment, ...]  # oldest first
    postings: tuple[tuple[int, str, bytes], ...]  # (segment, term, bytes) of the terms asked for
    pending: tuple[Note, ...]  # on all branches, above the segments, up to the version

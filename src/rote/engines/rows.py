"""Rows as engines keep them: raw bytes and integers. Only the kernel knows their meaning.

Branches are small integers here (main is 1 in every space) and spaces are the engine's own numbers;
neither ever enters a hash.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct, field

MAIN = 1
# Side rows of the store itself have this number in the place of a space's.
STORE = 0
# The kind of the rows of the store that tell of spaces that were erased.
ERASED_SPACE = "erased_space"

# Operation codes of FactRow.op.

# A line: (branch, highest version that counts) from the branch itself up through its ancestors.
Line = tuple[tuple[int, int], ...]

# (id, version, index, branch) of a fact, in the order in which the facts of an entity are kept.
FactPlace = tuple[str, int, int, int]

# (branch, after, until): the versions (after, until] of what was written on that branch itself.
Span = tuple[int, int, int]


class SpaceRow(Struct, frozen=True, gc=False):
    number: int
    did: str
    name: str
    seal: bytes  # see kernel/log/seals.py


class BranchRow(Struct, frozen=True, gc=False):
    branch: int
    name: str
    parent: int | None
    fork_version: int
    created_version: int
    deleted_version: int | None
    seal: bytes


class HeadRow(Struct, frozen=True, gc=False):
    """The newest commit of a space."""

    version: int
    hash: bytes
    at: int


class CommitRow(Struct, frozen=True, gc=False):
    version: int
    branch: int
    hash: bytes
    at: int  # microseconds since the epoch
    author: str | None
    key: str | None
    meta: bytes | None
    event: bytes | None
    attempt: bytes  # tells one try to commit from another; not part of the history


class FactRow(Struct, frozen=True, gc=False):
    branch: int
    version: int
    index: int
    id: str
    op: int
    hash: bytes
    parent: bytes
    salt: bytes | None
    body: bytes | None  # canonical value of a set, canonical operations of a patch
    value: bytes | None  # a snapshot: the canonical value after a patch, where policy keeps one


def up_to(
    is_last: Callable[[FactRow], bool] | None, rows: Iterable[Sequence[Any]]
) -> list[FactRow]:
    """Return facts up to the first that `is_last` is true of; no row behind it is read."""
    facts = []
    for row in rows:
        facts.append(fact := FactRow(*row))
        if is_last is not None and is_last(fact):
            break
    return facts


class EntityRow(Struct, frozen=True, gc=False):
    """A thin pointer, for scans, to a fact of an entity on a branch.

    After a deletion it points to the fact that deleted the entity. While the entity lives, it
    points to one that gave it a value, which need not be the newest.
    """

    branch: int
    id: str
    version: int
    index: int
    live: bool
    revived: bool = False  # live now, deleted before: its tombstone is removed


class SideRecord(Struct, frozen=True, gc=False):
    kind: str
    key: str
    fence: int
    body: bytes
    seal: bytes


class DerivedRow(Struct, frozen=True, gc=False):
    """`term` leads to entity `id` on `branch` for versions in [start, until)."""

    term: str
    id: str
    branch: int
    start: int
    until: int | None


class SegmentRow(Struct, frozen=True, gc=False):
    """A part of a packed index, which covers a range of the log and never changes."""

    number: int
    size: int  # of the index's own rows
    until: int  # the newest version it covers
    body: bytes  # empty in lists of segments


class VectorRow(Struct, frozen=True, gc=False):
    """The vector that an embedder gave for a text."""

    hash: bytes  # SHA-256 of the text
    body: bytes
    seal: bytes


class BlobRow(Struct, frozen=True, gc=False):
    """A blob, or the part of it that is uploaded so far."""

    upload: bytes  # the token under which its chunks are kept
    hash: bytes | None  # SHA-256 of the data; None until it is complete and counts
    size: int  # bytes, so far
    at: int  # when it was last written to, microseconds since the epoch
    seal: bytes


class ChunkRow(Struct, frozen=True, gc=False):
    """A piece of a blob's data, found by its end."""

    until: int  # the data's bytes up to here, this piece included
    data: bytes


class Batch(Struct):
    """Everything one transaction appends to one space, in log order."""

    commits: list[CommitRow]
    facts: list[FactRow]
    entities: list[EntityRow]
    branches: list[BranchRow] = field(default_factory=list)  # new, or replacing the old row

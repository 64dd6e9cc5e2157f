"""Facts, commits, and the state of one entity. Frozen values, also sent over the wire.

Frozen: the hashes that they carry. docs/formats/chain.md defines them, and they never change meaning.
"""

from typing import Any

from msgspec import Struct

from rote.values import Json, decode_canonical


class Fact(Struct, frozen=True, gc=False):
    """One state change of one entity on one branch."""

    id: str  # the entity
    op: str  # "set", "patch" or "delete"
    data: bytes | None  # canonical bytes of the body; None for a delete or after an erasure
    salt: str | None  # the entity's salt, hex; None after an erasure
    parent: str  # hash of the entity's previous fact on this line, or its Empty reference
    hash: str
    version: int  # the commit's version
    index: int  # the position in the commit, from 0
    commit: str | None  # the commit's hash; None when the commit was compacted away
    erased: bool = False
    # Of its commit, too; None when that was compacted away:
    at: str | None = None
    author: str | None = None
    meta_data: bytes | None = None  # canonical bytes of meta

    @property
    def body(self) -> Json:
        """The value of a set, the operations of a patch, None for a delete; decoded on each access."""
        return None if self.data is None else decode_canonical(self.data)

    @property
    def meta(self) -> Json:
        """The JSON that the caller gave with the commit; decoded on each access."""
        return None if self.meta_data is None else decode_canonical(self.meta_data)

    def to_dict(self) -> dict[str, Json]:
        return {**self.own_dict(), "at": self.at, "author": self.author, "meta": self.meta}

    def own_dict(self) -> dict[str, Json]:
        """Return what is the fact's own, for a place that tells the rest of its commit."""
        return {
            "id": self.id,
            "op": self.op,
            "body": self.body,
            "salt": self.salt,
            "parent": self.parent,
            "hash": self.hash,
            "version": self.version,
            "index": self.index,
            "commit": self.commit,
            "erased": self.erased,
        }

    def __repr__(self) -> str:
        return f"Fact({self.op} {self.id} @{self.version}.{self.index} {self.hash[:12]})"


class Commit(Struct, frozen=True, gc=False):
    """One link of a space's chain: facts that were applied together."""

    version: int
    hash: str
    previous: str | None  # hash of the commit one version below; None for the first
    branch: str
    facts: tuple[Fact, ...]
    at: str  # UTC, microseconds, `Z`
    author: str | None
    key: str | None  # the caller's idempotency key
    meta_data: bytes | None  # canonical bytes of meta
    event: dict[str, Any] | None  # what else this commit means: a branch, a merge, an erasure, …

    @property
    def meta(self) -> Json:
        """The caller's JSON about the commit; decoded on each access."""
        return None if self.meta_data is None else decode_canonical(self.meta_data)

    def to_dict(self) -> dict[str, Json]:
        return {
            "version": self.version,
            "hash": self.hash,
            "previous": self.previous,
            "branch": self.branch,
            "facts": [fact.own_dict() for fact in self.facts],
            "at": self.at,
            "author": self.author,
            "key": self.key,
            "meta": self.meta,
            "event": self.event,
        }

    def __repr__(self) -> str:
        return f"Commit({self.version} on {self.branch}, {len(self.facts)} facts, {self.hash[:12]})"


class Glance(Struct, frozen=True, gc=False):
    """Parts of one entity at one version. To read them costs nothing for the rest of the entity."""

    exists: bool
    version: int  # of the fact that made this state; 0 when never written
    hash: str | None  # of that fact; None when never written
    values: tuple[Json, ...]  # one for each pointer of `values`; None where nothing is
    sizes: tuple[int | None, ...]  # the length of the array at each pointer of `sizes`, or None


class State(Struct, frozen=True, gc=False):
    """One entity as a branch sees it at one version."""

    id: str
    value: Json
    exists: bool
    version: int  # of the fact that made this state; 0 when never written
    hash: str | None  # of that fact; None when never written
    erased: bool = False

    def to_dict(self) -> dict[str, Json]:
        return {
            "id": self.id,
            "value": self.value,
            "exists": self.exists,
            "version": self.version,
            "hash": self.hash,
            "erased": self.erased,
        }

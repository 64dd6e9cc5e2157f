"""Branches, and the results of comparing and merging them. Frozen values, also sent over the wire."""

from enum import Enum
from typing import Final

from msgspec import Struct

from rote.contract.facts import Commit, State
from rote.values import Json


class Branch(Struct, frozen=True, gc=False):
    """A branch of a space, as of one version."""

    name: str
    parent: str | None  # None for main
    fork_version: int  # the branch does not see the parent's facts above it
    created_version: int  # of the commit that made it; 0 for main
    head_version: int  # of the newest commit on it; 0 when there is none
    deleted: bool

    def to_dict(self) -> dict[str, Json]:
        return {
            "name": self.name,
            "parent": self.parent,
            "fork_version": self.fork_version,
            "created_version": self.created_version,
            "head_version": self.head_version,
            "deleted": self.deleted,
        }


class Change(Struct, frozen=True, gc=False):
    """One entity that differs between two states."""

    id: str
    kind: str  # "added", "removed" or "changed"
    before: Json  # None when added
    after: Json  # None when removed
    patch: list[dict[str, Json]] | None  # only when changed: turns before into after

    def to_dict(self) -> dict[str, Json]:
        return {
            "id": self.id,
            "kind": self.kind,
            "before": self.before,
            "after": self.after,
            "patch": self.patch,
        }


class ChangePage(Struct, frozen=True, gc=False):
    """Changes in id order, from one state to another."""

    changes: tuple[Change, ...]
    before: int  # the versions of the two states: ask for the rest at these
    after: int
    next: str | None  # the id to go on after; None at the end


class Resolution(Enum):
    """Take the place of a value in `resolutions`: DELETE resolves a conflict by a delete."""

    DELETE = "delete"

    def __repr__(self) -> str:
        return f"rote.{self.name}"


DELETE: Final = Resolution.DELETE


class MergeConflict(Struct, frozen=True, gc=False):
    """An entity that both sides changed, each in its own way."""

    id: str
    base: State  # absent also when the bases disagree
    ours: State  # on the target
    theirs: State  # on the source

    def to_dict(self) -> dict[str, Json]:
        return {
            "id": self.id,
            "base": self.base.to_dict(),
            "ours": self.ours.to_dict(),
            "theirs": self.theirs.to_dict(),
        }


class MergeResult(Struct, frozen=True, gc=False):
    """The outcome of a merge."""

    status: str  # "merged", "conflict" or "nothing"
    commit: Commit | None  # None unless it merged; None also in a dry run
    merged: tuple[str, ...]  # ids that the merge writes on the target
    conflicts: tuple[MergeConflict, ...]  # that neither a resolution nor the strategy settled

    def to_dict(self) -> dict[str, Json]:
        return {
            "status": self.status,
            "commit": None if self.commit is None else self.commit.to_dict(),
            "merged": list(self.merged),
            "conflicts": [conflict.to_dict() for conflict in self.conflicts],
        }

"""The outcome of a compaction: a frozen value, also sent over the wire."""

from typing import Any

from msgspec import Struct

from rote.contract.facts import Commit
from rote.values import Json


class Compaction(Struct, frozen=True, gc=False):
    """The outcome of compact."""

    commit: Commit | None  # that records it; None when there was nothing to do, or in a dry run
    # The signed statement of the commit at the horizon and of all that is left below it. None when
    # the space was never compacted.
    checkpoint: dict[str, Any] | None
    facts: int  # that this call dropped; in a dry run: would drop
    commits: int  # the same of commits
    oldest: int  # the oldest readable version afterwards: the horizon
    is_shrunk: bool = (
        True  # False when others use or own the files: they stay large until the next gc
    )

    def to_dict(self) -> dict[str, Json]:
        return {
            "commit": None if self.commit is None else self.commit.to_dict(),
            "checkpoint": self.checkpoint,
            "facts": self.facts,
            "commits": self.commits,
            "oldest": self.oldest,
            "is_shrunk": self.is_shrunk,
        }

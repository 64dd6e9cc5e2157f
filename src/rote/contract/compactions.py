"""What a compaction did."""

from typing import Any

from msgspec import Struct

from rote.contract.facts import Commit
from rote.values import Json


class Compaction(Struct, frozen=True, gc=False):
    """The outcome of compact."""

    commit: Commit | None  # that records it; None when there was nothing to do, or in a dry run
    # Signed: the first commit that is left, and all that is below it; None when there is none yet.
    checkpoint: dict[str, Any] | None
    facts: int  # that went by this call, or would go
    commits: int
    oldest: int  # the version that history begins with, or would begin with
    is_shrunk: bool = True  # False when others were in the way of making the files smaller: gc does

    def to_dict(self) -> dict[str, Json]:
        return {
            "commit": None if self.commit is None else self.commit.to_dict(),
            "checkpoint": self.checkpoint,
            "facts": self.facts,
            "commits": self.commits,
            "oldest": self.oldest,
            "is_shrunk": self.is_shrunk,
        }

"""What a compaction did."""

from typing import Any

from msgspec import Struct

from rote.contract.facts import Commit
from rote.values import Json


class Compaction(Struct, frozen=True, gc=False):
    """The outcome of compact: history begins with the version of the checkpoint."""

    commit: Commit | None  # that records it; None when the space was compacted to there already
    checkpoint: dict[str, Any]  # signed: the first commit that is left, and all that is below it
    facts: int  # that went by this call
    commits: int

    def to_dict(self) -> dict[str, Json]:
        return {
            "commit": None if self.commit is None else self.commit.to_dict(),
            "checkpoint": self.checkpoint,
            "facts": self.facts,
            "commits": self.commits,
        }

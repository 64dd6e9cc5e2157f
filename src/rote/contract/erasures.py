"""What is said about erasing an entity, and what is kept of its facts."""

from msgspec import Struct

from rote.contract.facts import Commit
from rote.values import Json


class Erasure(Struct, frozen=True):
    """What erasing an entity did."""

    commit: Commit  # that records it
    facts: int  # that lost their content by this call; 0 when it had been erased before
    remaining: tuple[str, ...]  # places that this store cannot reach, in words
    # Hashes of payloads that are still stored: those that the values referred to, as far as it is
    # known (not when it had been erased before), and the one that the entity describes.
    blobs: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Json]:
        return {
            "commit": self.commit.to_dict(),
            "facts": self.facts,
            "remaining": list(self.remaining),
            "blobs": list(self.blobs),
        }


class Remains(Struct, frozen=True, gc=False):
    """What is kept of an erased fact: its hash can be recomputed, its content not be guessed."""

    version: int  # of the commit that erased it
    body: str | None  # hex SHA-256 of salt and body; None where there was none
    value: str | None  # the same of salt and snapshot, or of the salt of a delete; None without

"""The outcomes of erasing entities and spaces, and the remains that are kept of its facts. Frozen values."""

from msgspec import Struct

from rote.contract.facts import Commit
from rote.values import Json


class Erasure(Struct, frozen=True):
    """The outcome of erasing an entity."""

    commit: Commit  # that records it
    facts: int  # that lost their content by this call; 0 when it had been erased before
    remaining: tuple[str, ...]  # places that this store cannot reach, in words
    # Hashes of blobs that are still stored: the one that the entity describes, and those that its
    # values referred to. The latter are not known when the entity had been erased before.
    blobs: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Json]:
        return {
            "commit": self.commit.to_dict(),
            "facts": self.facts,
            "remaining": list(self.remaining),
            "blobs": list(self.blobs),
        }


class SpaceErasure(Struct, frozen=True):
    """The outcome of erasing a whole space."""

    did: str
    version: int  # its last one
    head: str | None  # the hash of its last commit; None when it was empty
    at: str  # when it was erased
    remaining: tuple[str, ...] = ()  # places that this store cannot reach, in words

    def to_dict(self) -> dict[str, Json]:
        return {
            "did": self.did,
            "version": self.version,
            "head": self.head,
            "at": self.at,
            "remaining": list(self.remaining),
        }


class Remains(Struct, frozen=True, gc=False):
    """The salted digests that are kept of an erased fact.

    They suffice to recompute its hash, and do not allow to guess its content.
    """

    version: int  # of the commit that erased it
    body: str | None  # hex SHA-256 of salt and body; None where there was no body
    value: str | None  # the same of salt and snapshot, or of the salt of a delete; None without

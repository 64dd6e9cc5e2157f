"""What a commit records besides facts, read back. Frozen: docs/formats/chain.md.

branch.create   name, parent, fork_version          on the branch of that name
branch.delete   name                                on the branch of that name
merge           source, source_version, bases       on the target
compact         before, checkpoint                  on main
"""

from typing import Any

from msgspec import Struct, ValidationError, convert

from rote.errors import InvalidInput


class BaseOfMerge(Struct, frozen=True, forbid_unknown_fields=True):
    branch: str
    version: int


class BranchCreated(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="branch.create"
):
    name: str
    parent: str
    fork_version: int


class BranchDeleted(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="branch.delete"
):
    name: str


class BranchMerged(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="merge"):
    source: str
    source_version: int
    bases: tuple[BaseOfMerge, ...]


class SpaceCompacted(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="compact"
):
    before: int
    checkpoint: dict[str, Any]


EVENTS = frozenset({"branch.create", "branch.delete", "merge", "compact"})

Happening = BranchCreated | BranchDeleted | BranchMerged | SpaceCompacted


def read_event(event: Any) -> Happening:
    """The event of a commit, or what is wrong with it."""
    try:
        happening: Happening = convert(event, Happening)
        return happening
    except ValidationError as error:
        raise InvalidInput(f"its event cannot be one: {error}") from None

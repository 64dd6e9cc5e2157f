"""Rights in their order, and what a principal holds of them in a space."""

from typing import Any, Literal, get_args

from msgspec import Struct

from rote.contract.table import Right
from rote.errors import InvalidInput

SpaceRight = Literal[
    "read", "write", "owner"
]  # the rights that an ACL, a token or a delegation gives

SPACE_RIGHTS: tuple[SpaceRight, ...] = get_args(SpaceRight)
_RANKS: dict[str, int] = {right: rank for rank, right in enumerate(get_args(Right))}


class Held(Struct, frozen=True):
    """A right in one space."""

    right: Right
    path: str | None = None  # the entities it is for; None: all
    is_lent: bool = False  # whether it comes from a chain of delegations


def covers(held: Right, needed: Right) -> bool:
    """Whether who holds a right may do what needs another."""
    return _RANKS[held] >= _RANKS[needed]


def lower_of(left: Right, right: Right) -> Right:
    return left if _RANKS[left] <= _RANKS[right] else right


def higher_of(left: Right, right: Right) -> Right:
    return left if _RANKS[left] >= _RANKS[right] else right


def check_right(text: Any) -> None:
    """Check for a right that can be given: read, write or owner."""
    if type(text) is not str or text not in SPACE_RIGHTS:
        raise InvalidInput(f"a right is {', '.join(SPACE_RIGHTS[:-1])} or {SPACE_RIGHTS[-1]}")

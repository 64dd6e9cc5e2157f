"""Principals: who a request comes from, once that is known."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from rote.contract.table import Right


class TokenRight(Struct, frozen=True):
    """The right that a named token carries."""

    right: Right
    space: str | None = None  # the did of the only space; None: every space
    path: str | None = None  # the only ids; None: every id


class Principal(Struct, frozen=True):
    """The one who asks."""

    name: str  # "did:key:z…", "token:NAME", "operator"
    author: str | None  # of its commits
    is_operator: bool = False
    bound: TokenRight | None = None  # a named token's right
    proofs: tuple[Mapping[str, Any], ...] = ()  # a did's chain of delegations

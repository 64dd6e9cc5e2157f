"""A question with all that is needed to answer it by any policy, and its answer."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from rote.questions import Request
from rote.retrieval.package import Dropped, Package
from rote.retrieval.ranking.excerpts import TokenCounter
from rote.retrieval.scoring import Reasons
from rote.retrieval.trust import Denials
from rote.retrieval.vector_homes import Embedded

Held = TypeVar("Held")  # what a policy reads a store into


class NamedCorpus(Struct, Generic[Held], frozen=True):
    """A store that was asked."""

    name: str  # as the package names it
    corpus: Held


class Reading(Struct, frozen=True):
    """A question, as it is known when stores are read for it."""

    request: Request
    is_plain: bool  # whether all of a store must be read, not only what an index leads to


class Asked(Struct, Generic[Held], frozen=True):
    request: Request
    stores: Sequence[NamedCorpus[Held]]  # in the order of their names
    denials: Denials
    dropped: Dropped
    counter: TokenCounter | None  # None: the estimate by bytes
    embedded: Embedded | None = None  # of hybrid-1 alone


class Answered(Struct, frozen=True):
    """A package, and what it does not say of its memories: one entry for each."""

    package: Package
    reasons: Callable[[], list[Reasons]]  # for their scores; found when they are asked for
    tags: list[tuple[str, ...]]
    terms: frozenset[str] = frozenset()  # of the question, that any memory has; of ranking alone
    query_vector: bytes = b""  # of hybrid-1 alone

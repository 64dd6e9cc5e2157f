"""The sources of a space, for layers above that need time and randomness: those of its store."""

from rote.contract import IdSource
from rote.contract.commands import GetTimes
from rote.space.space import Space


def now_of(space: Space) -> int:
    """Return the time of the store's clock in microseconds, also for a pinned view."""
    return space._port.answer("", GetTimes(shared=False)).now


def ids_of(space: Space) -> IdSource | None:
    """Return the store's source of randomness; None where it has none that can be asked."""
    return space._ids

"""Turns of a run: the time of one call, or of one list of calls. One comes after the other.

A function that an interruption left behind is still inside its turn when that is over, and so is
whatever shares its context.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Turn:
    """The time of one call, or of one list of calls."""

    turns: "Turns"  # of its run
    is_side_by_side: bool


# The turns whose functions have led here, of any run.
_INSIDE: ContextVar[tuple[Turn, ...]] = ContextVar("rote_inside", default=())


class Turns:
    """The turns of one run. Its owner sees to it that one begins when there is none."""

    def __init__(self) -> None:
        self.current: Turn | None = None  # of any thread

    @property
    def inside(self) -> Turn | None:
        """The turn in whose function this is asked; it may be over."""
        return next((turn for turn in _INSIDE.get() if turn.turns is self), None)

    def begin(self, *, side_by_side: bool) -> Turn:
        self.current = turn = Turn(self, side_by_side)
        return turn

    @contextmanager
    def lasting(self, turn: Turn) -> Iterator[None]:
        """Let a turn last as long as this block, in which its functions are called."""
        token = _INSIDE.set((*_INSIDE.get(), turn))
        try:
            yield
        finally:
            _INSIDE.reset(token)
            self.current = None

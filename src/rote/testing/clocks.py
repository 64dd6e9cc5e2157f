"""Clocks that a test controls."""

from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


class FixedClock:
    """A clock that stands still until it is set or moved; it may go back."""

    def __init__(self, now: datetime = START) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now

    def set(self, now: datetime) -> None:
        self._now = now

    def move(self, *, seconds: float) -> None:
        """Move the clock forward, or back when negative."""
        self._now += timedelta(seconds=seconds)


class SteppingClock(FixedClock):
    """A clock that moves on by one step at each call, so that no two answers are equal."""

    def __init__(
        self, now: datetime = START, *, step: timedelta = timedelta(milliseconds=1)
    ) -> None:
        super().__init__(now)
        self._step = step

    def now(self) -> datetime:
        now = self._now
        self._now += self._step
        return now

from datetime import UTC, datetime, timedelta

from rote.testing import FixedClock, SteppingClock

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def test_a_fixed_clock_stands_still_until_it_is_moved_or_set() -> None:
    clock = FixedClock(NOON)
    assert clock.now() == clock.now() == NOON
    clock.move(seconds=1.5)
    assert clock.now() == NOON + timedelta(seconds=1.5)
    clock.move(seconds=-2)
    assert clock.now() == NOON - timedelta(seconds=0.5)
    clock.set(NOON)
    assert clock.now() == NOON


def test_a_stepping_clock_never_says_the_same_twice_and_can_be_set_back() -> None:
    clock = SteppingClock(NOON, step=timedelta(seconds=1))
    assert [clock.now(), clock.now()] == [NOON, NOON + timedelta(seconds=1)]
    clock.set(NOON)
    assert clock.now() == NOON


def test_clocks_are_aware_and_in_utc() -> None:
    assert FixedClock().now().utcoffset() == timedelta(0)
    assert SteppingClock().now().utcoffset() == timedelta(0)

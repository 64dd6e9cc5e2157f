"""Times as people type them. 2026-11-18 is a Wednesday."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from rote.cli.times import time_in
from rote.errors import InvalidInput

NOW = "2026-11-18 10:00"


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Be in a place with summer time: UTC+1 in November, UTC+2 in July."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def seen(text: str, *, now: str = NOW, is_start: bool = False) -> str:
    local = datetime.fromisoformat(now).astimezone()
    return time_in(text, now=local, is_start=is_start).isoformat(" ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-31T12:00:00Z", "2026-01-31 12:00:00+00:00"),
        ("2026-01-31 12:00:00.5+02:00", "2026-01-31 10:00:00.500000+00:00"),
        ("2026-01-31 12:00", "2026-01-31 12:00:00+01:00"),
        ("2026-07-31T12:00", "2026-07-31 12:00:00+02:00"),
        ("2026-07-31t12:00:30", "2026-07-31 12:00:30+02:00"),
        ("2026-07-31 12:00+00:00", "2026-07-31 12:00:00+00:00"),
        ("  2026-07-31   12:00 ", "2026-07-31 12:00:00+02:00"),
        ("9999-12-31T23:59:59Z", "9999-12-31 23:59:59+00:00"),
        ("14:00", "2026-11-18 14:00:00+01:00"),
        ("9:05:07", "2026-11-18 09:05:07+01:00"),
        ("now", "2026-11-18 10:00:00+01:00"),
        ("3 hours ago", "2026-11-18 07:00:00+01:00"),
        ("1 day ago", "2026-11-17 10:00:00+01:00"),
        ("2 Weeks Ago", "2026-11-04 10:00:00+01:00"),
        ("yesterday 14:00", "2026-11-17 14:00:00+01:00"),
        ("today at 9:00", "2026-11-18 09:00:00+01:00"),
        ("Tuesday 14:00", "2026-11-17 14:00:00+01:00"),
        ("last Tuesday at 14:00", "2026-11-17 14:00:00+01:00"),
        ("tue 00:00", "2026-11-17 00:00:00+01:00"),
        ("thursday 14:00", "2026-11-12 14:00:00+01:00"),
        ("wednesday 9:59", "2026-11-18 09:59:00+01:00"),
        ("wednesday 10:01", "2026-11-11 10:01:00+01:00"),
        ("last wednesday 9:00", "2026-11-11 09:00:00+01:00"),
    ],
)
def test_a_time_is_taken_as_it_is_typed(text: str, expected: str) -> None:
    assert seen(text) == expected


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2026-07-31", "2026-07-31"),
        ("yesterday", "2026-11-17"),
        ("today", "2026-11-18"),
        ("sunday", "2026-11-15"),
        ("wednesday", "2026-11-18"),
        ("last wednesday", "2026-11-11"),
    ],
)
def test_a_day_is_the_end_of_it_or_the_start_where_something_begins(text: str, day: str) -> None:
    offset = "+02:00" if day == "2026-07-31" else "+01:00"
    assert seen(text) == f"{day} 23:59:59.999999{offset}"
    assert seen(text, is_start=True) == f"{day} 00:00:00{offset}"


@pytest.mark.parametrize("days", range(1, 8))
def test_a_weekday_is_the_newest_that_has_come(days: int) -> None:
    now = datetime.fromisoformat(NOW)
    then = now - timedelta(days=days)
    found = seen(f"last {then:%A} 12:00")
    assert found == f"{then:%Y-%m-%d} 12:00:00+01:00"


@pytest.mark.parametrize(
    "text",
    ["", " ", "x", "-1", "someday", "tomorrow", "last yesterday", "25:00", "14", "tuesday 14",
     "tuesday 14:61", "2026-02-30", "2026-02-30T00:00:00Z", "2026-1-1", "2026-01-31T12:00:60Z",
     "999999999 weeks ago", "-3 hours ago", "3 moons ago", "last", "at 14:00", "0000-01-01",
     "2026-01-31 noon", "\ud800", "１４:００"],
)  # fmt: skip
def test_what_is_no_time_is_told_how_times_are_written(text: str) -> None:
    with pytest.raises(InvalidInput, match="is no time; write it like 2026-01-31T12:00:00Z"):
        seen(text)


def test_every_found_time_has_an_offset() -> None:
    assert time_in("now", now=datetime(2026, 1, 1, tzinfo=UTC)).tzinfo is UTC

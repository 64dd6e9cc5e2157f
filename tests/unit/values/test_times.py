"""Times are exact instants: RFC 3339 in, microseconds inside, one form out."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rote.errors import InvalidInput
from rote.values import datetime_of, format_time, micros_of, parse_time
from rote.values.times import MICROS_MAX, MICROS_MIN

ACCEPTED = [
    ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z"),
    ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000000Z"),
    ("2026-01-31t12:00:00z", "2026-01-31T12:00:00.000000Z"),
    ("2026-01-31 12:00:00+00:00", "2026-01-31T12:00:00.000000Z"),
    ("2026-01-31T12:00:00-00:00", "2026-01-31T12:00:00.000000Z"),
    ("2026-01-31T12:00:00.1Z", "2026-01-31T12:00:00.100000Z"),
    ("2026-01-31T12:00:00.123456Z", "2026-01-31T12:00:00.123456Z"),
    ("2026-01-31T12:00:00.1234569Z", "2026-01-31T12:00:00.123456Z"),
    ("2026-01-31T12:00:00." + "9" * 100 + "Z", "2026-01-31T12:00:00.999999Z"),
    ("2026-01-31T12:00:00+02:30", "2026-01-31T09:30:00.000000Z"),
    ("2026-01-31T23:30:00.5-23:59", "2026-02-01T23:29:00.500000Z"),
    ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00.000000Z"),
    ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z"),
    ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
    ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
]


@pytest.mark.parametrize(("text", "stored"), ACCEPTED)
def test_every_rfc_3339_form_becomes_the_one_stored_form(text: str, stored: str) -> None:
    micros = parse_time(text)
    assert format_time(micros) == stored
    assert parse_time(stored) == micros
    assert micros_of(datetime_of(micros)) == micros


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "2026-01-31T12:00Z",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00,5Z",
        "2026-01-31T12:00:00+02",
        "2026-01-31T12:00:00+0200",
        "2026-01-31T12:00:00+24:00",
        "2026-01-31T12:00:00+02:60",
        "2026-1-31T12:00:00Z",
        "2026-02-30T12:00:00Z",
        "2025-02-29T12:00:00Z",
        "2026-13-01T12:00:00Z",
        "2026-00-01T12:00:00Z",
        "2026-01-00T12:00:00Z",
        "0000-01-01T00:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:60:00Z",
        "2016-12-31T23:59:60Z",
        "2026-01-31T12:00:61Z",
        "2026-01-31T12:00:00Z\n",
        " 2026-01-31T12:00:00Z",
        "2026-01-31_12:00:00Z",
        "\u0662026-01-31T12:00:00Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        None,
        0,
        b"2026-01-31T12:00:00Z",
    ],
)
def test_what_is_not_an_instant_is_refused(text: Any) -> None:
    with pytest.raises(InvalidInput):
        parse_time(text)


def test_the_message_for_a_leap_second_says_what_to_write() -> None:
    with pytest.raises(InvalidInput, match=r"leap second.*second 59"):
        parse_time("2016-12-31T23:59:60Z")


def test_equal_instants_are_equal_whatever_their_offset() -> None:
    assert parse_time("2026-01-31T12:00:00+02:00") == parse_time("2026-01-31T05:00:00-05:00")


def test_datetimes_are_exact_in_both_directions() -> None:
    moment = datetime(2026, 1, 31, 12, 0, 0, 123457, tzinfo=timezone(timedelta(hours=5, seconds=7)))
    assert datetime_of(micros_of(moment)) == moment
    assert datetime_of(0) == datetime(1970, 1, 1, tzinfo=UTC)
    assert datetime_of(0).tzinfo is UTC
    assert micros_of(datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)) == MICROS_MAX
    assert micros_of(datetime(1, 1, 1, tzinfo=UTC)) == MICROS_MIN


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 1, 31),
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
        "2026-01-31T12:00:00Z",
        None,
        0,
    ],
)
def test_datetimes_without_a_zone_and_out_of_range_are_refused(moment: Any) -> None:
    with pytest.raises(InvalidInput):
        micros_of(moment)


@pytest.mark.parametrize("micros", [MICROS_MIN - 1, MICROS_MAX + 1, 10**30, -(10**30)])
def test_instants_outside_the_calendar_are_refused(micros: int) -> None:
    with pytest.raises(OverflowError):
        format_time(micros)
    with pytest.raises(InvalidInput):
        datetime_of(micros)


@given(
    st.tuples(st.integers(0, 9999), st.integers(0, 13), st.integers(0, 32)),
    st.tuples(st.integers(0, 23), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999_999)),
)
def test_the_form_that_we_write_is_read_in_one_step_as_any_other(
    day: tuple[int, ...], clock: tuple[int, ...]
) -> None:
    text = "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}".format(*day, *clock)
    assert _parsed(text + "Z") == _parsed(text + "+00:00")


def _parsed(text: str) -> int | None:
    try:
        return parse_time(text)
    except InvalidInput:
        return None

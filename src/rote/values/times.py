"""Instants: microseconds since 1970-01-01T00:00:00Z as one integer, RFC 3339 at the edges.

Integers compare as instants and lose nothing; no float ever touches a time.
"""

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any

from rote.errors import InvalidInput

_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SECOND = 1_000_000
_DAY_SECONDS = 86_400
_EPOCH_DAY = date(1970, 1, 1).toordinal()
# The years that have four digits, which is all that RFC 3339 can write.
MICROS_MIN = (date(1, 1, 1).toordinal() - _EPOCH_DAY) * _DAY_SECONDS * _SECOND
MICROS_MAX = (date(9999, 12, 31).toordinal() + 1 - _EPOCH_DAY) * _DAY_SECONDS * _SECOND - 1

SECONDS_REMEMBERED = 1024

# RFC 3339 section 5.6; its notes allow lower case, and a space in the place of T.
_rfc_3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))",
).fullmatch
# The form that `format_time` writes.
_as_written = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{6}Z"
).fullmatch


def instant(time: Any) -> int:
    """Return the instant of an aware datetime, or of an RFC 3339 time."""
    return micros_of(time) if isinstance(time, datetime) else parse_time(time)


def as_text(time: Any) -> Any:
    """Return an aware datetime as RFC 3339 text, and anything else as it is."""
    return format_time(micros_of(time)) if isinstance(time, datetime) else time


def parse_time(text: Any) -> int:
    """Return the instant of an RFC 3339 time with an offset; digits beyond microseconds are cut."""
    if type(text) is str and _as_written(text):
        # Most texts have this form, so it has a short path.
        try:
            return (datetime.fromisoformat(text[:-1]) - _EPOCH) // _MICROSECOND
        except ValueError:
            pass  # the text names no day; the code below says so
    match = _rfc_3339(text) if type(text) is str else None
    if match is None:
        raise InvalidInput(
            f"{text!r:.80} is not an RFC 3339 time with an offset; "
            "write it like 2026-01-31T12:00:00Z",
        )
    fraction, sign, hours, minutes = match.groups()
    since = _wall_time(text) - _EPOCH
    seconds = since.days * _DAY_SECONDS + since.seconds
    if sign is not None:
        seconds -= _offset_seconds(text, sign, int(hours), int(minutes))
    micros = 0 if fraction is None else int(fraction[:6].ljust(6, "0"))
    return _checked(seconds * _SECOND + micros, text)


def format_time(micros: int) -> str:
    """Return the time as `YYYY-MM-DDTHH:MM:SS.ffffffZ`.

    OverflowError for an instant that is none: all that are given were checked, so it was damaged.
    """
    seconds, fraction = divmod(micros, _SECOND)
    return f"{_second_text(seconds)}.{fraction:06d}Z"


@lru_cache(maxsize=SECONDS_REMEMBERED)
def _second_text(seconds: int) -> str:
    # Many commits share a second, and this part is most of the cost of formatting.
    return (_EPOCH + timedelta(0, seconds)).isoformat()


def micros_of(moment: Any) -> int:
    """Return the instant of an aware datetime."""
    if type(moment) is datetime and moment.tzinfo is UTC:
        return (moment - _EPOCH_UTC) // _MICROSECOND
    offset = moment.utcoffset() if isinstance(moment, datetime) else None
    if offset is None:
        raise InvalidInput(
            f"{moment!r:.80} is not a datetime with a time zone; add one, such as tzinfo=UTC",
        )
    # Subtracting the epoch in wall time first avoids an overflow at the ends of the calendar.
    local = moment.replace(tzinfo=None) - _EPOCH
    return _checked((local - offset) // _MICROSECOND, moment)


def datetime_of(micros: int) -> datetime:
    """Return the instant as an aware datetime in UTC."""
    try:
        return _EPOCH_UTC + timedelta(0, 0, micros)
    except OverflowError:
        raise InvalidInput(f"{micros} microseconds lie outside the years 1 to 9999") from None


def _wall_time(text: str) -> datetime:
    """Return the day and the whole seconds of a text of the right form; ignore its offset."""
    day_and_clock = text[:19]
    if day_and_clock.endswith("60"):
        # Clamping would make one instant of two, and Rote has never written a leap second.
        raise InvalidInput(f"{text!r} is a leap second, which has no place here; write second 59")
    if not (text[11:13] <= "23" and text[14:16] <= "59" and text[17:19] <= "59"):
        raise InvalidInput(f"{text!r} names no time of day")
    try:
        return datetime.fromisoformat(day_and_clock)
    except ValueError as error:
        raise InvalidInput(f"{text!r} names no day: {error}") from None


def _offset_seconds(text: str, sign: str, hours: int, minutes: int) -> int:
    if hours > 23 or minutes > 59:
        raise InvalidInput(f"{text!r} has no valid offset; it is at most 23:59")
    seconds = hours * 3600 + minutes * 60
    return -seconds if sign == "-" else seconds


def _checked(micros: int, shown: object) -> int:
    if not MICROS_MIN <= micros <= MICROS_MAX:
        raise InvalidInput(f"{shown!r:.80} lies outside the years 1 to 9999 in UTC")
    return micros

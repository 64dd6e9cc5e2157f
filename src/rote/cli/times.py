"""Times as people type them: RFC 3339, a local time, a day, a weekday, or so long ago.

    2026-01-31T12:00:00Z   2026-01-31 12:00   2026-01-31   14:00   now
    yesterday   tuesday 14:00   last tuesday at 14:00   3 hours ago

A time without an offset is in the time zone of this machine. A day without a time is the end of it,
because a state of that day has all that was written on it.
"""

import re
from datetime import date, datetime, time, timedelta

from rote.errors import InvalidInput
from rote.values import datetime_of, micros_of, parse_time

FORMS = "2026-01-31T12:00:00Z, '2026-01-31 12:00', 2026-01-31, 'tuesday 14:00' or '3 hours ago'"

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_UNITS = {
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
_ago = re.compile(rf"(\d{{1,9}}) ({'|'.join(_UNITS)})s? ago").fullmatch
_day = re.compile(r"(last )?([a-z]{3,9})(?: (?:at )?([\d:.]+))?").fullmatch
_clock = re.compile(r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?").fullmatch
_is_day = re.compile(r"\d{4}-\d{2}-\d{2}").fullmatch


def time_in(text: str, *, now: datetime, is_start: bool = False) -> datetime:
    """Return the time that a text names, seen from a local `now`; InvalidInput when it names none.

    is_start  whether a day without a time is the start of it
    """
    edge = time.min if is_start else time.max
    try:
        moment = _time_in(" ".join(text.casefold().split()), now, edge)
        if moment.tzinfo is None:
            moment = moment.astimezone()  # by the rules of this machine's time zone on that day
        micros_of(moment)
    except (ValueError, OverflowError, OSError, InvalidInput):
        raise InvalidInput(f"{text!r:.80} is no time; write it like {FORMS}") from None
    return moment


def _time_in(words: str, now: datetime, edge: time) -> datetime:
    """Return a time, in local time unless it has an offset; ValueError when it is none."""
    if words == "now":
        return now
    if _is_day(words):
        return datetime.combine(date.fromisoformat(words), edge)
    if _is_day(words[:10]):
        try:
            return datetime_of(parse_time(words))
        except InvalidInput:
            # ISO 8601 allows what RFC 3339 does not: no offset, no seconds.
            return datetime.fromisoformat(words.upper())
    if _clock(words):
        return datetime.combine(now.date(), _time_of_day(words))
    if ago := _ago(words):
        return now - int(ago[1]) * _UNITS[ago[2]]
    if named := _day(words):
        clock = None if named[3] is None else _time_of_day(named[3])
        day = _day_named(named[2], clock, is_last=named[1] is not None, now=now)
        return datetime.combine(day, clock or edge)
    raise ValueError(words)


def _day_named(name: str, clock: time | None, *, is_last: bool, now: datetime) -> date:
    """Return the newest such day: today counts, unless it is `last`, or the time is still to come."""
    today = now.date()
    if name in ("today", "yesterday") and not is_last:
        return today - timedelta(days=name == "yesterday")
    [number] = [number for number, day in enumerate(_DAYS) if name in (day, day[:3])]
    back = (now.weekday() - number) % 7
    is_to_come = clock is not None and clock > now.time()
    return today - timedelta(days=7 if back == 0 and (is_last or is_to_come) else back)


def _time_of_day(text: str) -> time:
    """Return a time of day; the hour may have one digit."""
    if not _clock(text):
        raise ValueError(text)
    return time.fromisoformat(text if text[2] == ":" else f"0{text}")

"""The times of stored memories: written by many programs, so more forms are read than elsewhere.

    date                          2026-01-31
    date and time                 2026-01-31T12:00, 2026-01-31 12:00:00.25
    with an offset                Z, +02:00, +0200; without one it is UTC

The normal form is frozen: record hashes depend on it.
"""

import re

from rote.errors import InvalidInput
from rote.values import format_time, parse_time
from rote.values.limits import INSTANTS_REMEMBERED

_form = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ]([0-9]{2}:[0-9]{2})(:[0-9]{2}(?:\.[0-9]+)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
).fullmatch


def read_instant(text: str) -> int | None:
    """Microseconds since the epoch; None when the text is no time."""
    match = _form(text)
    if match is None:
        return None
    day, clock, seconds, offset = match.groups()
    zone = offset or "Z"
    if zone != "Z" and ":" not in zone:
        zone = f"{zone[:3]}:{zone[3:]}"
    try:
        return parse_time(f"{day}T{clock or '00:00'}{seconds or ':00'}{zone}")
    except InvalidInput:
        return None


# Before every time that can be written, so that those without one come last.
NO_INSTANT = -(1 << 63)


class NormalTimes(dict[str | None, tuple[int, str | None]]):
    """Texts of times to instants and their normal form, `YYYY-MM-DDTHH:MM:SS[.ffffff]Z`.

    What is no time has NO_INSTANT and None. It remembers: logs repeat their times.
    """

    def __missing__(self, text: str | None) -> tuple[int, str | None]:
        if len(self) >= INSTANTS_REMEMBERED:
            self.clear()
        instant = None if text is None else read_instant(text)
        if instant is None:
            found: tuple[int, str | None] = (NO_INSTANT, None)
        else:
            found = (instant, format_time(instant).replace(".000000Z", "Z"))
        self[text] = found
        return found

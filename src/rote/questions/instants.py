"""The times of stored memories. Many programs write them, so more forms are read than elsewhere.

    date                          2026-01-31
    date and time                 2026-01-31T12:00, 2026-01-31 12:00:00.25
    with an offset                Z, +02:00, +0200; without one it is UTC

The normal form is frozen: record hashes depend on it.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from rote.errors import InvalidInput
from rote.values import format_time, micros_of, parse_time
from rote.values.limits import INSTANTS_REMEMBERED

_form = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ]([0-9]{2}:[0-9]{2})(:[0-9]{2}(?:\.[0-9]+)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
).fullmatch


def read_instant(text: str) -> int | None:
    """Return microseconds since the epoch, None when the text is no time."""
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


# Most programs write this form, which is the normal form already.
_normal_form = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.(?!000000)[0-9]{6})?Z"
).fullmatch

# Earlier than every time that can be written, so that memories without a time come last.
NO_INSTANT = -(1 << 63)


class NormalTimes(dict[str | None, tuple[int, str | None]]):
    """Texts of times to instants and their normal form, `YYYY-MM-DDTHH:MM:SS[.ffffff]Z`.

    A text that is no time has NO_INSTANT and None. Results are kept, because logs repeat their times.
    """

    def __missing__(self, text: str | None) -> tuple[int, str | None]:
        if len(self) >= INSTANTS_REMEMBERED:
            self.clear()
        found = self[text] = _normal(text)
        return found


def _normal(text: str | None) -> tuple[int, str | None]:
    if text is None:
        return NO_INSTANT, None
    if _normal_form(text):
        try:
            return micros_of(datetime.fromisoformat(text)), text
        except ValueError:
            return NO_INSTANT, None
    instant = read_instant(text)
    if instant is None:
        return NO_INSTANT, None
    return instant, normal_time(instant)


def normal_time(instant: int) -> str:
    """Return the normal form of an instant."""
    return format_time(instant).replace(".000000Z", "Z")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_encode = msgspec.json.encode
_decode_moments = msgspec.json.Decoder(list[datetime | None]).decode
_decode_texts = msgspec.json.Decoder(list[str | None]).decode


def read_column(texts: Sequence[str | None]) -> tuple[list[int], Sequence[str | None]] | None:
    """Return instants and normal forms of many texts; None if one of them has a rare form.

    A text is in normal form if it ends with Z and formatting its instant gives the same text. A text
    with +00:00 instead of Z, or with a fraction of zeros, is read here too.
    """
    given = _encode(texts)
    normal = given.replace(b'+00:00"', b'Z"').replace(b'.000000Z"', b'Z"')
    try:
        moments = _decode_moments(normal)
    except msgspec.MsgspecError:
        return None
    if normal.count(b'Z"') + texts.count(None) < len(texts) or _encode(moments) != normal:
        return None
    instants = [
        NO_INSTANT if moment is None else (moment - _EPOCH) // _MICROSECOND for moment in moments
    ]
    return instants, texts if normal == given else _decode_texts(normal)

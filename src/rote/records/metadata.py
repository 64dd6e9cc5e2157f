"""The metadata of a record: checks for writing, and careful readers.

The verbs and imports check the metadata that they write. Other programs may write to the entity by
other means, so the readers here accept any JSON.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from rote.errors import InvalidInput
from rote.values import Json, format_time, micros_of, parse_time
from rote.values.limits import TIMES_REMEMBERED
from rote.values.names import check_text

Metadata = dict[str, Any]


def check_metadata(metadata: Any, place: str = "metadata") -> Metadata | None:
    """Return the metadata in its normal form: tags without duplicates, everything else as given."""
    if metadata is None:
        return None
    if not isinstance(metadata, dict):
        raise InvalidInput(f"{place} must be an object or null", argument=place)
    checked = dict(metadata)
    for name in FIELDS:
        value = checked.get(name)
        if value is not None:
            checked[name] = _CHECKS[name](value, f"{place}.{name}")
    return checked


def _check_source(source: Any, place: str) -> str:
    return _non_empty(source, place)


def _check_confidence(confidence: Any, place: str) -> float:
    if type(confidence) not in (int, float) or not 0 <= confidence <= 1:
        raise InvalidInput(f"{place} must be a number from 0 to 1", argument=place)
    number: float = confidence
    return number


def _check_tags(tags: Any, place: str) -> list[str]:
    if type(tags) not in (list, tuple):
        raise InvalidInput(f"{place} must be a list of texts", argument=place)
    return distinct_texts(tags, place, argument=place)


def distinct_texts(texts: Sequence[Any], place: str, **details: str) -> list[str]:
    """Check that all are texts and none is empty; return each once, in order."""
    for text in texts:
        if type(text) is not str or not text:
            raise InvalidInput(f"{place} must hold texts, and none that is empty", **details)
        check_text(text, place)
    return list(dict.fromkeys(texts))


def _check_time(time: Any, place: str) -> str:
    if isinstance(time, datetime):
        return format_time(micros_of(time))
    if instant_of(time) is None:
        try:
            parse_time(time)
        except InvalidInput as error:
            raise InvalidInput(f"{place}: {error}", argument=place) from None
    text: str = time
    return text


def _check_count(count: Any, place: str) -> int:
    if type(count) is not int or count < 0:
        raise InvalidInput(f"{place} must be an integer from 0 on", argument=place)
    return count


def _non_empty(text: Any, place: str) -> str:
    if type(text) is not str or not text:
        raise InvalidInput(f"{place} must be text, and not empty", argument=place)
    check_text(text, place)
    return text


_CHECKS = {
    "source": _check_source,
    "confidence": _check_confidence,
    "tags": _check_tags,
    "valid_at": _check_time,
    "last_accessed": _check_time,
    "access_count": _check_count,
}
FIELDS = tuple(_CHECKS)


def tags_of(metadata: Metadata | None) -> list[str]:
    tags = None if metadata is None else metadata.get("tags")
    return [tag for tag in tags if type(tag) is str] if type(tags) is list else []


def source_of(metadata: Metadata | None) -> str | None:
    source = None if metadata is None else metadata.get("source")
    return source if type(source) is str else None


def time_of(metadata: Metadata | None, name: str) -> int | None:
    return instant_of(None if metadata is None else metadata.get(name))


def instant_of(time: Json) -> int | None:
    """Return the instant of an RFC 3339 time; None when it is not one."""
    return _remembered(time) if type(time) is str else None


@lru_cache(maxsize=TIMES_REMEMBERED)
def _remembered(time: str) -> int | None:
    # The times of a record are parsed several times, and many records share them.
    try:
        return parse_time(time)
    except InvalidInput:
        return None

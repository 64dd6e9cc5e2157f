"""Members of a request: checks that name the member, each with the code of its part."""

from collections.abc import Collection, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from rote.errors import InvalidInput
from rote.questions.instants import read_instant
from rote.values import micros_of
from rote.values.limits import INTEGER_MAX, RETRIEVAL_TERMS_MAX


def section(given: Any, name: str, code: str, keys: Collection[str]) -> Mapping[str, Any]:
    """Return a section of the request; refuse unknown keys."""
    if type(given) is not dict:
        raise InvalidInput(f"{name} must be an object", code=code)
    for key in given:
        if key not in keys:
            raise InvalidInput(
                f"{name} has no {key!r:.80}; there are {', '.join(keys)}",
                code="invalid_input",
                key=str(key),
            )
    return given


def positive(given: Mapping[str, Any], name: str, code: str, default: int | None) -> int:
    """Return an integer from 1 on."""
    number = given.get(name.rpartition(".")[2])
    if number is None:
        number = default
    if type(number) is not int or not 0 < number <= INTEGER_MAX:
        raise InvalidInput(f"{name} must be an integer from 1 on", code=code, key=name)
    return number


def switch(given: Mapping[str, Any], name: str, default: bool) -> bool:
    value = given.get(name.rpartition(".")[2])
    if value is None:
        return default
    if type(value) is not bool:
        raise InvalidInput(f"{name} must be true or false", code="invalid_scoring", key=name)
    return value


def decimal(given: Mapping[str, Any], name: str, code: str, *, most: int, decimals: int) -> int:
    """Return a number from 0 on as an integer, by its last decimal: 1.5 with 3 decimals is 1500."""
    number = given.get(name.rpartition(".")[2])
    if number is None:
        return 0
    if type(number) in (int, float) and 0 <= number <= most:
        whole = Decimal(repr(number)).scaleb(decimals)
        if whole == whole.to_integral_value():
            return int(whole)
    raise InvalidInput(
        f"{name} must be a number from 0 to {most:,} with at most {decimals} decimals",
        code=code,
        key=name,
    )


def texts(given: Mapping[str, Any], name: str, code: str) -> list[str] | None:
    """Return a list of texts; None when there is none."""
    found = given.get(name.rpartition(".")[2])
    if found is None:
        return None
    if type(found) is not list or len(found) > RETRIEVAL_TERMS_MAX:
        raise InvalidInput(
            f"{name} must be a list of at most {RETRIEVAL_TERMS_MAX:,} texts", code=code
        )
    for index, text in enumerate(found):
        check_text(text, f"{name}[{index}]", code)
    return found


def moment(given: Mapping[str, Any], name: str, code: str) -> int | None:
    """Return the instant of a time, also of an aware datetime; None when there is none."""
    time = given.get(name.rpartition(".")[2])
    if time is None:
        return None
    if isinstance(time, datetime):
        return micros_of(time)
    instant = read_instant(time) if type(time) is str else None
    if instant is None:
        raise InvalidInput(f"{name} must be a time such as 2026-01-31T12:00:00Z", code=code)
    return instant


def check_text(text: Any, name: str, code: str) -> None:
    if type(text) is not str:
        raise InvalidInput(f"{name} must be text", code=code)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{name} holds a lone surrogate", code=code) from None

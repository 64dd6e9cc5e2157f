"""The slow decoder: finds where text is not a value of the domain, and reads the rare numbers.

The standard library parses and puts a mark in the place of each literal that is not a value. One
walk with an explicit stack then builds the value, so that every refusal has its JSON pointer. The
caller has bounded the depth of the text, so the parser's own recursion is bounded too.
"""

import json
from math import isinf
from typing import Any, Literal

from rote.errors import InvalidValue
from rote.values.limits import INTEGER_MAX, INTEGER_MIN
from rote.values.numbers import float_text
from rote.values.types import Json

# The longest text that can be an integer of 64 bits or the canonical text of a double below 1e21.
_INTEGER_CHARACTERS_MAX = 22


class _Pairs(list[tuple[str, Any]]):
    """An object as written, duplicates included."""


class _Mark:
    """A literal that is not a value."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def parse_exact(data: bytes, *, duplicates: Literal["refuse", "last"]) -> Json:
    """Return the value of UTF-8 text, by every rule of docs/formats/values.md."""
    try:
        tree = _DECODER.decode(data.decode())
    except UnicodeDecodeError as error:
        raise InvalidValue(f"not UTF-8 at byte {error.start}", is_text=True) from None
    except json.JSONDecodeError as error:
        place = f"character {error.pos}"
        if error.lineno > 1:
            place = f"line {error.lineno}, column {error.colno}"
        raise InvalidValue(f"not JSON at {place}: {error.msg}", is_text=True) from None
    return _build(tree, duplicates)


def _build(tree: Any, duplicates: Literal["refuse", "last"]) -> Json:
    """Refuse marks and make pairs into objects; return the value."""
    root: list[Any] = [tree]
    # Each entry is a container being built, the place in it to look at, and its pointer.
    places: list[tuple[Any, Any, str]] = [(root, 0, "")]
    while places:
        container, place, pointer = places.pop()
        node = container[place]
        kind = type(node)
        if kind is str:
            _check_text(node, pointer)
        elif kind is _Mark:
            raise InvalidValue(node.reason, pointer=pointer)
        elif kind is list:
            places.extend((node, index, f"{pointer}/{index}") for index in _backwards(node))
        elif kind is _Pairs:
            members = container[place] = _object(node, pointer, duplicates)
            places.extend((members, key, f"{pointer}/{_escape(key)}") for key in reversed(members))
    return root[0]


def _backwards(elements: list[Any]) -> range:
    return range(len(elements) - 1, -1, -1)


def _object(pairs: _Pairs, pointer: str, duplicates: Literal["refuse", "last"]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs) and duplicates == "refuse":
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InvalidValue("the key appears twice", pointer=f"{pointer}/{_escape(key)}")
            seen.add(key)
    for key in members:
        _check_text(key, f"{pointer}/{_escape(key)}")
    return members


def _check_text(text: str, pointer: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = pointer.encode("utf-8", "backslashreplace").decode()
        raise InvalidValue("the text holds a lone surrogate", pointer=shown) from None


def _escape(token: str) -> str:
    return token.replace("~", "~0").replace("/", "~1")


def _parse_int(text: str) -> int | float | _Mark:
    if len(text) <= _INTEGER_CHARACTERS_MAX:
        number = int(text)
        if INTEGER_MIN <= number <= INTEGER_MAX:
            return number
        # RFC 8785 writes whole doubles below 1e21 in full; such a text is that double.
        double = float(text)
        if float_text(double) == text:
            return double
    return _Mark(f"the integer {text:.40} does not fit in 64 bits; write it as a string")


def _parse_float(text: str) -> float | _Mark:
    number = float(text)
    if isinf(number):
        return _Mark(f"the number {text:.40} does not fit in a double")
    # Adding zero turns negative zero into zero and changes nothing else.
    return number + 0.0


def _parse_constant(text: str) -> _Mark:
    return _Mark(f"{text} is not JSON; use null or a string")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Pairs,
    parse_int=_parse_int,
    parse_float=_parse_float,
    parse_constant=_parse_constant,
)

"""The slow encoder: the rules of canonical JSON written out, one value at a time.

It encodes the values that the fast path in `canonical.py` hands over, finds the part that makes a
value invalid, and is the only encoder of json-v1 beyond plain ASCII. Frozen: the bytes are hashed.
"""

from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from enum import Enum
from math import isfinite
from typing import Any
from unicodedata import normalize

import orjson

from rote.errors import InvalidValue
from rote.values.limits import INTEGER_MAX, INTEGER_MIN
from rote.values.numbers import float_text
from rote.values.types import Json

# json-v1 compares behaviour, which must not depend on the last bits of a float.
DECIMALS_V1 = 6

# One open container: its members still to write, and the text that closes it.
_Frame = tuple[Iterator[tuple[str | int, bytes, Json]], bytes]


def encode_exact(value: Json, *, depth_max: int, version_1: bool = False) -> bytes:
    """Return the canonical (or json-v1) bytes of `value`; InvalidValue names the part at fault."""
    parts: list[bytes] = []
    open_frames: list[_Frame] = []
    path: list[str | int] = []
    pending: tuple[str | int, bytes, Json] | None = ("", b"", value)
    while pending is not None:
        token, lead, child = pending
        parts.append(lead)
        path.append(token)
        try:
            frame = _write(child, parts, version_1)
        except _Refused as refused:
            raise InvalidValue(refused.reason, pointer=_pointer(path[1:], refused.key)) from None
        if frame is not None:
            if len(open_frames) == depth_max:
                raise InvalidValue(
                    f"nested deeper than {depth_max} levels", pointer=_pointer(path[1:], None)
                )
            open_frames.append(frame)
        else:
            path.pop()
        pending = _next(open_frames, parts, path)
    return b"".join(parts)


def _next(
    open_frames: list[_Frame], parts: list[bytes], path: list[str | int]
) -> tuple[str | int, bytes, Json] | None:
    """Return the next member of the innermost open container; close containers that are done."""
    while open_frames:
        members, closing = open_frames[-1]
        member = next(members, None)
        if member is not None:
            return member
        parts.append(closing)
        open_frames.pop()
        path.pop()
    return None


class _Refused(Exception):
    """A value or key outside the domain; the caller adds its pointer."""

    def __init__(self, reason: str, *, key: str | None = None) -> None:
        self.reason = reason
        self.key = key


def _write(value: Json, parts: list[bytes], version_1: bool) -> _Frame | None:
    """Append a scalar's text, or open a container and return its frame."""
    kind = type(value)
    if kind not in _PLAIN:
        value = _plain(value)
        kind = type(value)
    if kind is str:
        parts.append(_string(value, version_1))
    elif value is None or kind is bool:
        parts.append(_WORDS[value])
    elif kind is int:
        parts.append(_integer(value))
    elif kind is float:
        parts.append(_float(value, version_1))
    elif kind is dict:
        parts.append(b"{")
        return _members(value, version_1), b"}"
    else:
        parts.append(b"[")
        return _elements(value), b"]"
    return None


_PLAIN = frozenset({str, bool, type(None), int, float, dict, list, tuple})

# For types that people try to store: the form to store instead.
_INSTEAD: tuple[tuple[Any, str], ...] = (
    (Mapping, "a dict: dict(value)"),
    ((set, frozenset), "a sorted list"),
    ((bytes, bytearray, memoryview), "a blob (space.put_blob), or text such as base64"),
    (date, "its text, like 2026-01-31T12:00:00Z"),
    (Decimal, "a float, or its text"),
)


def _plain(value: Any) -> Any:
    """Return what a subclass of a JSON type holds; refuse every other type."""
    if isinstance(value, Enum):
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int):
            return int(value)
    elif isinstance(value, dict):
        return dict(value)
    elif isinstance(value, (list, tuple)):
        return list(value)
    kind = type(value)
    words = "null, bool, int, float, str, list or dict"
    instead = next((text for types, text in _INSTEAD if isinstance(value, types)), words)
    raise _Refused(f"{kind.__module__}.{kind.__qualname__} is not JSON; convert it to {instead}")


_WORDS: dict[bool | None, bytes] = {None: b"null", True: b"true", False: b"false"}


def _string(text: str, version_1: bool) -> bytes:
    if version_1:
        text = normalize("NFC", text)
    try:
        # orjson escapes as RFC 8785 section 3.2.2.2 asks.
        return orjson.dumps(text)
    except orjson.JSONEncodeError:
        raise _Refused("the text holds a lone surrogate, which is not valid Unicode") from None


def _integer(number: int) -> bytes:
    if not INTEGER_MIN <= number <= INTEGER_MAX:
        raise _Refused("the integer does not fit in 64 bits; write it as a string")
    return b"%d" % number


def _float(number: float, version_1: bool) -> bytes:
    if not isfinite(number):
        raise _Refused(f"{number} is not a JSON number; use null or a string")
    # round() is half to even on the exact binary value.
    return float_text(round(number, DECIMALS_V1) if version_1 else number).encode()


def _elements(values: Any) -> Iterator[tuple[str | int, bytes, Json]]:
    lead = b""
    for index, element in enumerate(values):
        yield index, lead, element
        lead = b","


def _members(members: dict[Any, Json], version_1: bool) -> Iterator[tuple[str | int, bytes, Json]]:
    """Check all keys; return the members in UTF-16 code unit order (RFC 8785 section 3.2.3)."""
    rows = sorted((_sort_key(key, version_1), key) for key in members)
    before = None
    for units, _ in rows:
        if units == before:
            shown = units.decode("utf-16-be")
            raise _Refused("two keys are the same text after NFC normalization", key=shown)
        before = units
    return _member_texts(members, rows)


def _member_texts(
    members: dict[Any, Json], rows: list[tuple[bytes, str]]
) -> Iterator[tuple[str | int, bytes, Json]]:
    lead = b""
    for units, key in rows:
        text = units.decode("utf-16-be")
        yield str.__str__(key), lead + orjson.dumps(text) + b":", members[key]
        lead = b","


def _sort_key(key: Any, version_1: bool) -> bytes:
    if isinstance(key, Enum) and isinstance(key, str):
        key = str.__str__(key)
    if type(key) is not str:
        kind = type(key)
        raise _Refused(f"the key {key!r:.80} is {kind.__qualname__}; keys must be str")
    try:
        return (normalize("NFC", key) if version_1 else key).encode("utf-16-be")
    except UnicodeEncodeError:
        raise _Refused(
            "the key holds a lone surrogate, which is not valid Unicode", key=key
        ) from None


def _pointer(path: list[str | int], key: str | None) -> str:
    tokens = [str(token) for token in path] + ([] if key is None else [key])
    text = "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in tokens)
    # The pointer is shown and sent, so lone surrogates are escaped.
    return text.encode("utf-8", "backslashreplace").decode()

"""Decoders of JSON text: a strict one for text from outside, a fast one for our own bytes.

The rules are those of docs/formats/values.md. orjson parses. It does not report duplicate keys,
integers turned into floats and negative zero, so text that may hold one goes to the exact decoder.
"""

import re
from typing import Annotated, Any, Literal

import msgspec
import orjson

from rote.errors import Corrupt, InvalidValue, LimitExceeded
from rote.values.depth import text_is_deeper
from rote.values.limits import COMMIT_BYTES_MAX, DEPTH_MAX, INTEGER_MAX, INTEGER_MIN
from rote.values.parsing import parse_exact
from rote.values.types import Json

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MINUS = ord("-")
# Matches negative zero, also by underflow. A number follows a bracket, a comma, a colon or a space,
# so that texts like "2026-01-31" and "part-0" are not caught.
_negative_zero = re.compile(
    rb"-(?<![^\[,:\s]-)(?:0(?![0-9]|\.0{0,200}[1-9])|[0-9.]+[eE]-[0-9]{2})",
).search

# The typed decoder refuses integers beyond signed 64 bit; the exact decoder reads them as floats or
# refuses them. The type has as many levels as most documents; each level doubles its size.
_LEVELS_TYPED = 6
_Integer = Annotated[int, msgspec.Meta(ge=INTEGER_MIN, le=INTEGER_MAX)]


def _value_type(levels: int) -> Any:
    kind: Any = None | bool | _Integer | float | str
    for _ in range(levels):
        kind = None | bool | _Integer | float | str | list[kind] | dict[str, kind]
    return kind


_decode_typed = msgspec.json.Decoder(_value_type(_LEVELS_TYPED)).decode
# Runs of digits that may lie beyond signed 64 bit: 2**63 has 19 digits.
_DIGITS_ALIKE = bytes(ord("0") if chr(byte) in "0123456789" else byte for byte in range(256))
_DIGITS_19 = b"0" * 19
# The characters that may stand before a number and its sign.
_LEADS = b"[,: \t\r\n"
# A stored value and the object around it never nest deeper, so Rote did not write deeper bytes.
_DEPTH_STORED_MAX = 2 * DEPTH_MAX


def decode(
    data: bytes | str,
    *,
    duplicates: Literal["refuse", "last"] = "refuse",
    size_bytes_max: int = COMMIT_BYTES_MAX,
    depth_max: int = DEPTH_MAX,
) -> Json:
    """Return the value of JSON text from outside.

    Raises LimitExceeded when the text is too long, and InvalidValue, with a pointer or a position,
    when it is no value of the domain for another reason.
    """
    data = _utf8(data, size_bytes_max)
    if text_is_deeper(data, depth_max):
        raise InvalidValue(f"nested deeper than {depth_max} levels")
    value = _parse(data, duplicates)
    if (data.find(_MINUS) >= 0 and _negative_zero(data)) or (
        duplicates == "refuse"
        # Compact text, as most programs write it, comes back as it was.
        and (again := orjson.dumps(value)) != data
        and _strings(data) != _strings(again)
    ):
        return parse_exact(data, duplicates=duplicates)
    return value


def decode_canonical(data: bytes) -> Json:
    """Return the value of bytes that `canonical` wrote; Corrupt when they are not JSON any more."""
    try:
        return _decode_typed(data)
    except (ValueError, msgspec.MsgspecError):
        pass
    try:
        if text_is_deeper(data, _DEPTH_STORED_MAX):
            raise InvalidValue(f"nested deeper than {_DEPTH_STORED_MAX} levels")
        return _parse(data, "refuse")
    except InvalidValue as error:
        raise Corrupt(f"stored bytes are not canonical JSON: {error.details['reason']}") from None


def _parse(data: bytes, duplicates: Literal["refuse", "last"]) -> Json:
    """Return the value by the fastest decoder that reads its numbers right."""
    try:
        return _decode_typed(data)
    except (ValueError, msgspec.MsgspecError):
        pass
    if not _may_be_beyond_int64(data):
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError:
            pass
    return parse_exact(data, duplicates=duplicates)


def _may_be_beyond_int64(data: bytes) -> bool:
    """Whether 19 digits begin where a number may begin; digits inside a hash do not count."""
    digits = data.translate(_DIGITS_ALIKE)
    place = digits.find(_DIGITS_19)
    while place >= 0:
        start = place - 1 if data[place - 1 : place] == b"-" else place
        if start == 0 or data[start - 1] in _LEADS:
            return True
        place = digits.find(_DIGITS_19, place + len(_DIGITS_19))
    return False


def _utf8(data: bytes | str, size_bytes_max: int) -> bytes:
    """Return the text as UTF-8 bytes; LimitExceeded when there are too many."""
    if type(data) not in (bytes, str):
        raise InvalidValue(f"JSON text is bytes or str, not {type(data).__qualname__}")
    # A text has at least as many bytes as characters, so a text that is too long is not encoded.
    if len(data) <= size_bytes_max and isinstance(data, str):
        try:
            data = data.encode()
        except UnicodeEncodeError as error:
            raise InvalidValue(f"lone surrogate at character {error.start}") from None
    if isinstance(data, str) or len(data) > size_bytes_max:
        raise LimitExceeded("the JSON text in bytes", size=len(data), limit=size_bytes_max)
    if data.startswith(_BYTE_ORDER_MARK):
        raise InvalidValue("the text starts with a byte order mark; send plain UTF-8")
    return data


def _strings(data: bytes) -> int:
    """Twice the number of strings in JSON text: a dropped duplicate key makes it smaller."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return data.count(b'"')

"""Canonical JSON and its hashes: the one form in which values are compared, hashed and stored.

`canonical` is RFC 8785 with integers of 64 bits written in full; `json_v1` compares behaviour.
Both are frozen (docs/formats/values.md). The encoder that defines them is `exact.py`; this file is
the fast path. It answers only when it is sure to give the same bytes, by three means:

    orjson    writes the text, sorted by code point; refuses most foreign types and lone surrogates
    marshal   refuses every type that is not exactly a plain one (orjson takes UUID and Enum), and
              shows the bits of every number (orjson writes NaN as null and takes unsigned 64 bit
              integers)
    the text  shows depth, key characters and number forms that RFC 8785 orders or writes otherwise

One foreign type passes all three: a member of an Enum that is also bytes and was given a JSON value
in its own __new__. It is written as that value.
"""

import re
from collections.abc import Callable
from hashlib import sha256
from marshal import dumps as _marshal
from unicodedata import is_normalized

import orjson
from msgspec import Struct

from rote.values.depth import text_is_deeper
from rote.values.exact import DECIMALS_V1, encode_exact
from rote.values.limits import DEPTH_MAX
from rote.values.types import Json

_OPTIONS = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
)
_dumps = orjson.dumps

# marshal format 4; tests fail when Python changes it. A float is `g` and eight bytes; the last two
# hold the exponent, whose bits are all ones when the float is not finite. A positive integer of 61
# to 75 bits is `l`, the count 5 and five little-endian digits of 15 bits; it lies beyond signed
# 64 bit when the last digit is 8 or more. orjson refuses wider integers. The type byte may carry
# the flag 0x80.
_MARSHAL_FORMAT = 4
_not_finite_positive = re.compile(rb"\x7f(?<=[g\xe7].{6}[\xf0-\xff].)", re.DOTALL).search
_not_finite_negative = re.compile(rb"\xff(?<=[g\xe7].{6}[\xf0-\xff].)", re.DOTALL).search
_beyond_int64 = re.compile(
    rb"\x05(?<=[l\xec]\x05)\x00\x00\x00.{8}[\x08-\x0f]\x00", re.DOTALL
).search

# UTF-8 and UTF-16 order differ only between U+E000..U+FFFF, which start with 0xEE or 0xEF in UTF-8,
# and the characters beyond, which start with 0xF0 or, rarely, a higher byte.
_LEAD_BEYOND_BMP = 0xF0
_LEADS_UNUSUAL = (0xF1, 0xF2, 0xF3, 0xF4)

# orjson writes numbers as ECMAScript does, but for three kinds (RFC 8785 section 3.2.2.3):
#
#     whole floats below 1e16     with `.0`
#     1e16 to 1e21                with the exponents +16 to +20 instead of zeros
#     1e-6 to 1e-5                with the exponent -6 instead of zeros
#
# marshal shows floats of the last kind by the two bytes of their exponent, which few others have; in
# the text every minus sign would have to be looked at.
_small_positive = re.compile(rb"\x3e(?<=[g\xe7].{6}[\xb0-\xe4].)", re.DOTALL).search
_small_negative = re.compile(rb"\xbe(?<=[g\xe7].{6}[\xb0-\xe4].)", re.DOTALL).search
# Patterns begin with their rarest byte, because `re` searches for the first byte. They ask for the
# character that ends a number, so few texts like "v1.0" match.
_large = re.compile(rb"\+(?<=[0-9]e\+)(?:1[6-9]|20)(?=[,\]}]|\Z)").search
_whole = re.compile(rb"\.0[,\]}]").search
_long_fraction = re.compile(rb"\.[0-9]{%d}|e-" % (DECIMALS_V1 + 1)).search
_written_short = re.compile(rb"e(-6|\+1[6-9]|\+20)(?=[,\]}]|\Z)")
_NEGATIVE_ZERO = b"\x00\x00\x00\x00\x00\x00\x00\x80"  # the bytes of -0.0 in marshal
_E, _N, _PLUS, _MINUS, _POINT, _DOUBLE_QUOTE = b'en+-."'

# Bytes that UTF-8 never holds stand for escaped characters while a text is cut at its quotes.
_BACKSLASH, _QUOTE = b"\xfe", b"\xff"


class Encoded(Struct, frozen=True, gc=False):
    """A value given as its canonical bytes, by a caller that has them already."""

    data: bytes


def quoted(text: str) -> str:
    """Return the canonical JSON of a string."""
    return orjson.dumps(text).decode()


def canonical(value: Json, *, depth_max: int = DEPTH_MAX) -> bytes:
    """Return the canonical bytes of `value`; InvalidValue names the JSON pointer of a bad part."""
    try:
        # orjson goes first: it stops at cycles, which marshal would follow in all directions.
        data = _dumps(value, None, _OPTIONS)
        shape = _marshal(value, _MARSHAL_FORMAT)
    except (TypeError, ValueError):
        return encode_exact(value, depth_max=depth_max)
    # Searching for one byte is almost free, so such a search comes before every pattern.
    if (
        # orjson writes a float that is not finite as null.
        (
            _N in data
            and (
                (0x7F in shape and _not_finite_positive(shape))
                or (0xFF in shape and _not_finite_negative(shape))
            )
        )
        or _beyond_int64(shape)
        or (_openings(data) > depth_max and text_is_deeper(data, depth_max))
        or not (data.isascii() or _order_is_safe(data))
    ):
        return encode_exact(value, depth_max=depth_max)
    if (
        _E in data
        and (
            (0x3E in shape and _small_positive(shape))
            or (0xBE in shape and _small_negative(shape))
            or (_PLUS in data and _large(data))
        )
    ) or (_POINT in data and (_DOUBLE_QUOTE not in data or _whole(data))):
        has_negative_zero = _NEGATIVE_ZERO in shape
        return outside_strings(data, _ecmascript_zeros if has_negative_zero else _ecmascript)
    return data


def json_v1(value: Json) -> bytes:
    """Return the bytes for comparing behaviour: canonical after NFC and rounding to 6 decimals."""
    data = canonical(value)
    if _has_long_fraction(data) or not _is_nfc(data):
        return encode_exact(value, depth_max=DEPTH_MAX, version_1=True)
    return data


def digest(value: Json) -> str:
    """SHA-256 of the canonical bytes, 64 lowercase hexadecimal characters."""
    return sha256(canonical(value)).hexdigest()


def fingerprint(value: Json) -> str:
    """SHA-256 of the json-v1 bytes; runs that behaved the same have equal ones."""
    return sha256(json_v1(value)).hexdigest()


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of bytes, as 64 lowercase hexadecimal characters."""
    return sha256(data).hexdigest()


def outside_strings(data: bytes, rewrite: Callable[[bytes], bytes]) -> bytes:
    """Return JSON text with everything outside its strings rewritten; quotes have to stay."""
    if _DOUBLE_QUOTE not in data:
        return rewrite(data)
    escapes = b"\\" in data
    if escapes:
        data = data.replace(b"\\\\", _BACKSLASH).replace(b'\\"', _QUOTE)
    # Pieces at even places lie outside strings, those at odd places inside.
    pieces = data.split(b'"')
    outside = b'"'.join(pieces[::2])
    written = rewrite(outside)
    if written != outside:
        pieces[::2] = written.split(b'"')
        data = b'"'.join(pieces)
    return data.replace(_QUOTE, b'\\"').replace(_BACKSLASH, b"\\\\") if escapes else data


def _openings(data: bytes) -> int:
    """Return the number of opening brackets. Behind the last one there may be very many numbers."""
    return data.count(b"[", 0, data.rfind(b"[") + 1) + data.count(b"{", 0, data.rfind(b"{") + 1)


def _order_is_safe(data: bytes) -> bool:
    """Whether no key can sort differently in UTF-8 and UTF-16."""
    if 0xEE not in data and 0xEF not in data:
        return True
    if any(lead in data for lead in _LEADS_UNUSUAL):
        return False
    quotes = _quotes_plain(data)
    place = quotes.find(_LEAD_BEYOND_BMP)
    while place >= 0:
        end = quotes.find(b'"', place)
        if quotes[end + 1 : end + 2] == b":":
            return False
        place = quotes.find(_LEAD_BEYOND_BMP, end)
    return True


def _quotes_plain(data: bytes) -> bytes:
    """Return the text without escaped quotes and backslashes: each quote left bounds a string."""
    return data.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in data else data


def _ecmascript(text: bytes) -> bytes:
    """Return the text with numbers as ECMAScript writes them."""
    if _E in text:
        text = _with_zeros(text)
    first = _whole(text)
    if first is None:
        return text.removesuffix(b".0")
    return _replace_ends(text, b".0", b"", first.start())


def _ecmascript_zeros(text: bytes) -> bytes:
    """Do the same for a text that holds -0.0."""
    return b"0" if text == b"-0.0" else _ecmascript(_replace_ends(text, b"-0.0", b"0.0", 0))


def _with_zeros(text: bytes) -> bytes:
    """Return the text with zeros instead of exponents where ECMAScript has no exponent."""
    pieces = _written_short.split(text)  # what precedes an exponent, the exponent, and so on
    for place in range(1, len(pieces), 2):
        before, point, fraction = pieces[place - 1].rpartition(b".")
        if not point or not fraction.isdigit():  # the point of another number: this one has none
            before, fraction = pieces[place - 1], b""
        exponent, digits = int(pieces[place]), before[-1:] + fraction
        pieces[place - 1] = before[:-1]
        pieces[place] = b"0.00000" + digits if exponent < 0 else digits.ljust(exponent + 1, b"0")
    return b"".join(pieces)


def _replace_ends(text: bytes, old: bytes, new: bytes, start: int) -> bytes:
    """Replace the last characters of the members of arrays and objects, from a place on."""
    done, rest = text[:start], text[start:].replace(old + b",", new + b",")
    for bracket in (b"]", b"}"):
        # The numbers of a long array precede the first bracket, so few of them are searched again.
        first = rest.find(bracket)
        if first >= 0:
            place = max(first - len(old), 0)
            rest = rest[:place] + rest[place:].replace(old + bracket, new + bracket)
    return done + rest


def _has_long_fraction(data: bytes) -> bool:
    """Whether canonical bytes hold a float that rounding could change: one that has more decimals."""
    if _POINT not in data and _MINUS not in data:
        return False
    outside = b'"'.join(_quotes_plain(data).split(b'"')[::2])
    return _long_fraction(outside) is not None


def _is_nfc(data: bytes) -> bool:
    # A quote never combines with what follows it, so the whole text is NFC only if each string is.
    return data.isascii() or is_normalized("NFC", data.decode())

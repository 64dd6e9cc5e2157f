"""base58btc, the alphabet of did:key (draft-msporny-base58)."""

from rote.errors import InvalidInput

_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}
# Decoding takes quadratic time, and no identifier of ours is longer.
CHARACTERS_MAX = 128


def encode_base58(data: bytes) -> str:
    """Return the base58 text of bytes; each leading zero byte becomes a `1`."""
    number = int.from_bytes(data, "big")
    digits: list[str] = []
    while number:
        number, value = divmod(number, 58)
        digits.append(_ALPHABET[value])
    zeros = len(data) - len(data.lstrip(b"\0"))
    return "1" * zeros + "".join(reversed(digits))


def decode_base58(text: str) -> bytes:
    """Return the bytes of a base58 text; no two texts stand for the same bytes."""
    if len(text) > CHARACTERS_MAX:
        raise InvalidInput(f"base58 text may have {CHARACTERS_MAX} characters, not {len(text)}")
    number = 0
    for character in text:
        value = _VALUES.get(character)
        if value is None:
            raise InvalidInput(f"{character!r} is not a base58 character")
        number = number * 58 + value
    zeros = len(text) - len(text.lstrip("1"))
    return b"\0" * zeros + number.to_bytes((number.bit_length() + 7) // 8, "big")

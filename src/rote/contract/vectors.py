"""Vectors that an embedder made of texts, as they are stored and sent. Frozen: docs/formats/vectors.md.

name     vectors/<name>@<version>/<dimension> of the embedder
vector   <dimension> numbers from -127 to 127, a byte each, then the scale, 4 bytes, big-endian
row      SHA-256 of the text, then the vector; rows are sent one after the other
"""

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from rote.errors import InvalidInput
from rote.values.limits import VECTOR_DIMENSION_MAX, VECTOR_NAME_BYTES_MAX

HASH_BYTES = 32
SCALE_BYTES = 4
# The greatest number in each vector that is not all zeros.
NUMBER_MAX = 127
# The bytes of 127 and -127, of which each has one, and that of -128, which none has.
_GREATEST = (0x7F, 0x81)
_TOO_LOW = 0x80
# Rounding can make the scale of tiny numbers a little greater than 65,536.
_SCALE_MAX = 2 * 65_536

_read_name = re.compile(r"vectors/([^\s@]+)@([^\s@]+)/([1-9][0-9]{0,3})").fullmatch


def vectors_name(name: str, version: str, dimension: int) -> str:
    """Return the name under which the vectors of an embedder are stored."""
    return f"vectors/{name}@{version}/{dimension}"


def dimension_of(name: Any) -> int:
    """Return the dimension of the vectors under a name; raise InvalidInput when it is none."""
    found = _read_name(name) if type(name) is str and name.isprintable() else None
    dimension = int(found[3]) if found else 0
    if not 1 <= dimension <= VECTOR_DIMENSION_MAX or len(name.encode()) > VECTOR_NAME_BYTES_MAX:
        raise InvalidInput(
            "the name of vectors is vectors/<name>@<version>/<dimension>, of at most"
            f" {VECTOR_NAME_BYTES_MAX} bytes, without white space; the dimension is at most"
            f" {VECTOR_DIMENSION_MAX:,}",
            argument="name",
        )
    return dimension


def is_vector(body: bytes, dimension: int) -> bool:
    """Whether bytes have the form of a vector."""
    numbers, scale = body[:dimension], int.from_bytes(body[dimension:], "big")
    if len(body) != dimension + SCALE_BYTES or _TOO_LOW in numbers:
        return False
    if scale == 0:
        return numbers.count(0) == dimension
    return scale <= _SCALE_MAX and any(byte in numbers for byte in _GREATEST)


def join_rows(vectors: Mapping[bytes, bytes]) -> bytes:
    """Return vectors by hash as they are sent."""
    return b"".join(chain.from_iterable(vectors.items()))


def split_rows(data: bytes, dimension: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the hash and the vector of each row that was sent; raise InvalidInput for a part of one."""
    size = HASH_BYTES + dimension + SCALE_BYTES
    if type(data) is not bytes or len(data) % size:
        raise InvalidInput("the data is no list of hashes and vectors", argument="data")
    for start in range(0, len(data), size):
        middle = start + HASH_BYTES
        yield data[start:middle], data[middle : start + size]


def split_hashes(data: bytes) -> list[bytes]:
    """Return the hashes that stand one after the other in some bytes."""
    if type(data) is not bytes or len(data) % HASH_BYTES:
        raise InvalidInput("the data is no list of SHA-256 hashes", argument="data")
    return [data[start : start + HASH_BYTES] for start in range(0, len(data), HASH_BYTES)]

"""The arithmetic of vectors in `hybrid-1`: quantised once, compared by whole numbers.

A vector is its numbers, one byte each, and its scale (contract/vectors.py). Products are exact on
every path, so that every machine gets the same.
"""

from array import array
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from math import fsum, isfinite, sqrt
from operator import mul
from typing import Any

from rote.contract.vectors import NUMBER_MAX, SCALE_BYTES
from rote.values.limits import VECTORS_MULTIPLIED_AT_ONCE

_UNIT = 65_536
# Whole numbers below are exact in a float of 32 bits.
_FLOAT32_EXACT = 1 << 24


def quantised(numbers: Sequence[float]) -> bytes | None:
    """Return finite numbers as a vector; None when their length is not finite."""
    try:
        length = sqrt(fsum(map(mul, numbers, numbers)))
    except OverflowError:
        return None
    if length == 0:
        return bytes(len(numbers) + SCALE_BYTES)
    if not isfinite(length):
        return None
    unit = [number / length for number in numbers]
    most = max(map(abs, unit))
    small = array("b", [round(number * NUMBER_MAX / most) for number in unit])
    return small.tobytes() + round(most * _UNIT).to_bytes(SCALE_BYTES, "big")


def numbers_of(vector: bytes) -> bytes:
    """Return the numbers of a vector, without its scale."""
    return vector[:-SCALE_BYTES]


def similarities(query: bytes, vectors: Sequence[bytes]) -> list[int]:
    """Return how similar each vector is to the query's: the product of their numbers, if it is above
    0, times the vector's scale."""
    numpy = _numpy()
    if numpy is None:
        return plain_similarities(query, vectors)
    return numpy_similarities(numpy, query, vectors)


@cache
def _numpy() -> Any:
    """Return numpy; None where it is not installed."""
    try:
        return import_module("numpy")
    except ImportError:
        return None


def plain_similarities(query: bytes, vectors: Sequence[bytes]) -> list[int]:
    asked = memoryview(numbers_of(query)).cast("b").tolist()
    found = []
    for vector in vectors:
        product = sum(map(mul, asked, memoryview(numbers_of(vector)).cast("b")))
        found.append(max(0, product) * int.from_bytes(vector[-SCALE_BYTES:], "big"))
    return found


def numpy_similarities(numpy: Any, query: bytes, vectors: Sequence[bytes]) -> list[int]:
    dimension = len(numbers_of(query))
    is_small = NUMBER_MAX * NUMBER_MAX * dimension < _FLOAT32_EXACT
    kind = numpy.float32 if is_small else numpy.float64
    asked = numpy.frombuffer(numbers_of(query), numpy.int8).astype(kind)
    found: list[int] = []
    for start in range(0, len(vectors), VECTORS_MULTIPLIED_AT_ONCE):
        data = b"".join(vectors[start : start + VECTORS_MULTIPLIED_AT_ONCE])
        rows = numpy.frombuffer(data, numpy.int8).reshape(-1, dimension + SCALE_BYTES)
        products = (rows[:, :dimension].astype(kind) @ asked).astype(numpy.int64)
        scales = numpy.ascontiguousarray(rows[:, dimension:]).view(">u4")[:, 0]
        found += (numpy.maximum(products, 0) * scales.astype(numpy.int64)).tolist()
    return found

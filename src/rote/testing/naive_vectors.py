"""Vectors of hybrid-1, word for word from their contract (ranking.md): quantised to bytes."""

import math
from collections.abc import Sequence

# The numbers from -127 to 127, and the scale.
Vector = tuple[list[int], int]


def naive_vector(numbers: Sequence[float]) -> Vector:
    """Return a vector of an embedder, quantised."""
    length = math.sqrt(math.fsum(each * each for each in numbers))
    if length == 0:
        return [0] * len(numbers), 0
    unit = [each / length for each in numbers]
    most = max(abs(each) for each in unit)
    return [round(each * 127 / most) for each in unit], round(most * 65536)


def naive_product(left: Sequence[int], right: Sequence[int]) -> int:
    return sum(a * b for a, b in zip(left, right, strict=True))

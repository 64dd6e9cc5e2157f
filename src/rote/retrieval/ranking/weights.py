"""The arithmetic of `lexical-1`: integers only, rounded down, so that every program gets the same.

score   millionths: the sum over terms of idf * (10 * weight, or less for a neighbour's weight)
idf     a logarithm to base 2, with 16 bits behind the point
weight  of a term in a memory: BM25 with k1 = 1.2 and b = 0.4, with 16 bits behind the point
"""

# More occurrences of a term in a memory count as so many.
OCCURRENCES_MAX = 255

_DAY = 86_400_000_000  # microseconds
_MILLION = 1_000_000
_HALVINGS_MAX = 16


def log2_16(numerator: int, denominator: int) -> int:
    """Return the logarithm of a quotient of at least 1, times 2^16."""
    whole = numerator.bit_length() - denominator.bit_length()
    if denominator << whole > numerator:
        whole -= 1
    result, rest = whole, (numerator << 32) // (denominator << whole)
    for _ in range(16):
        rest = rest * rest >> 32
        bit = rest >> 33
        result = 2 * result + bit
        rest >>= bit
    return result


def idf(memories: int, with_term: int) -> int:
    """Return how much a term tells, times 2^16: more, the fewer memories have it."""
    return log2_16(2 * memories + 2, 2 * with_term + 1)


def weight(occurrences: int, length: int, average: int) -> int:
    """Return the weight of a term in a memory of so many terms, times 2^16."""
    found = min(occurrences, OCCURRENCES_MAX) * average
    return (55 * found << 16) // (25 * found + 18 * average + 12 * length)


def score(total: int) -> int:
    """Return the millionths of a sum of idf times ten times the weight."""
    return total * 100_000 >> 32


def total_from(score: int) -> int:
    """Return the least sum that gives a score; it gives exactly this one."""
    return -(-(score << 32) // 100_000)


def recency(age: int, half_life_days: int) -> int:
    """Return the millionths for an age in microseconds."""
    half_life = half_life_days * _DAY
    halvings, rest = divmod(max(0, age), half_life)
    if halvings > _HALVINGS_MAX:
        return 0
    left = (rest << 16) // half_life
    return (((131_072 - left) >> (halvings + 1)) * _MILLION) >> 16

"""The amount of work of a test: little in `make test`, everything in `make test-slow`.

A test that has no quick form is marked `@pytest.mark.slow` and is left out of the quick lane.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping

SLOW: bool = os.environ.get("ROTE_SLOW") == "1"


def examples(quick: int, full: int) -> int:
    """Return the count for this lane: generated values, rounds, commits."""
    return full if SLOW else quick


def until_enough(
    act: Callable[[Counter[str]], None], least: Mapping[str, float], *, rounds_max: int = 8
) -> Counter[str]:
    """Act, again and again, until the counts are there without which it would prove little.

    For what threads and processes do: one round of it is not like another.
    """
    counts: Counter[str] = Counter()
    for _ in range(rounds_max):
        act(counts)
        lacking = {name: (counts[name], few) for name, few in least.items() if counts[name] < few}
        if not lacking:
            return counts
    raise AssertionError(f"after {rounds_max} rounds there are too few: {lacking}")

"""The amount of work of a test: little in `make test`, everything in `make test-slow`.

A test that has no quick form is marked `@pytest.mark.slow` and is left out of the quick lane.
"""

import os

SLOW: bool = os.environ.get("ROTE_SLOW") == "1"


def examples(quick: int, full: int) -> int:
    """Return the count for this lane: generated values, rounds, commits."""
    return full if SLOW else quick

"""Ranges of bytes, as far as RFC 9110 section 14 lets a server choose: one range, or the whole."""

import re

from rote.errors import InvalidInput

_ONE = re.compile(r"bytes=(?:([0-9]{1,19})-([0-9]{0,19})|-([0-9]{1,19}))")


def parse_range(text: str | None, size: int) -> tuple[int, int] | None:
    """Return the half open range that a header asks for; None for the whole.

    Several ranges, other units and what is malformed stand for the whole. InvalidInput with the code
    `range` when nothing of the range is there.
    """
    found = None if text is None else _ONE.fullmatch(text)
    if found is None:
        return None
    first, last, suffix = found.groups()
    if suffix is not None:
        start, end = max(size - int(suffix), 0), size
    else:
        start, end = int(first), size if not last else min(int(last) + 1, size)
        if last and int(last) < int(first):
            return None
    if start >= end:
        raise InvalidInput(
            f"the range has none of the {size:,} bytes; ask for bytes below that",
            code="range",
            size=size,
        )
    return start, end

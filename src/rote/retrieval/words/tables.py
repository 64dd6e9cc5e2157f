"""The data of `words-1`, read when it is first used. Frozen, whatever Unicode the interpreter knows."""

from bisect import bisect_right
from collections.abc import Iterable
from functools import cache
from operator import itemgetter
from pathlib import Path

import msgspec

# The tables of Unicode 14.0.0: general category L, M or N; and code points that it does not assign.
WORD, UNASSIGNED = "word", "unassigned"

_FOLDER = Path(__file__).parent / "data"
# The last code point of the Basic Multilingual Plane; no range of a table goes beyond it from below.
_BASIC_LAST = 0xFFFF


@cache
def stop_words() -> frozenset[str]:
    return frozenset(_lines("stop.txt"))


@cache
def irregular_forms() -> dict[str, str]:
    """Return the base of each irregular form."""
    return dict(line.split(" ") for line in _lines("forms.txt"))


@cache
def basic_class(name: str) -> str:
    """Return the code points of a table up to U+FFFF, as a class of a regular expression."""
    return class_of(pair for pair in _unicode()[name] if pair[1] <= _BASIC_LAST)


def is_in(name: str, character: str) -> bool:
    """Whether a table holds a character."""
    ranges = _unicode()[name]
    place = bisect_right(ranges, ord(character), key=itemgetter(0)) - 1
    return place >= 0 and ord(character) <= ranges[place][1]


def class_of(ranges: Iterable[tuple[int, int]]) -> str:
    """Return ranges of code points as a class of a regular expression."""
    parts = [f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges]
    return f"[{''.join(parts)}]"


@cache
def _unicode() -> dict[str, list[tuple[int, int]]]:
    """Return the tables: ranges of code points, both ends included."""
    tables = msgspec.json.decode((_FOLDER / "unicode14.json").read_bytes())
    return {name: [(first, last) for first, last in tables[name]] for name in (WORD, UNASSIGNED)}


def _lines(name: str) -> list[str]:
    return (_FOLDER / name).read_text("ascii").split("\n")[:-1]

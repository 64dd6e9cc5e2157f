"""Which rows have which words: a term without blanks lies within a word, so only words are searched.

A text of any length has its words once, so looking through all of them costs little of what
looking through all texts does. It is as exact: a term inside a word is found in every such word.
"""

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate

# To look at a text costs as much as to mark so many rows.
_MARKS_MAX = 8
# Words in more than one of so many rows are kept as marks, which then take less than their rows.
_FREQUENT = 8
# No word holds white space.
_BREAK = "\n"


def marks_of(rows: bytes | bytearray) -> int:
    """A byte for each row, as one number: `|`, `&` and `+` work on all rows at once."""
    return int.from_bytes(rows, "little")


class Vocabulary:
    """The words and tags of the first rows of a corpus; never changes."""

    def __init__(self, texts: Sequence[str], tags: Sequence[tuple[str, ...]]) -> None:
        self.size = len(texts)  # how many rows it knows
        rows = _listed(map(set, map(str.split, texts)))
        self._tagged = _listed(tags)
        self._words = _BREAK.join(rows)
        self._starts = array("Q", accumulate((len(word) + 1 for word in rows), initial=0))
        self._rows: list[tuple[int, ...] | int] = [
            found if len(found) <= self.size // _FREQUENT else marks_of(self._mark(found))
            for found in rows.values()
        ]

    def marks(self, part: str) -> int | None:
        """A one for each row that has a word with a part in it; None when it is in so many words
        that to look at every text costs less."""
        frequent, rare, count = 0, bytearray(self.size), 0
        place = self._words.find(part)
        while place >= 0:
            number = bisect_right(self._starts, place) - 1
            found = self._rows[number]
            if isinstance(found, int):
                frequent |= found
            else:
                for row in found:
                    rare[row] = 1
                count += len(found)
                if count > _MARKS_MAX * self.size:
                    return None
            place = self._words.find(part, self._starts[number + 1])
        return frequent | marks_of(rare)

    def rows_tagged(self, tag: str) -> Sequence[int]:
        return self._tagged.get(tag, ())

    def _mark(self, rows: Iterable[int]) -> bytearray:
        marks = bytearray(self.size)
        for row in rows:
            marks[row] = 1
        return marks


def _listed(words: Iterable[Collection[str]]) -> dict[str, tuple[int, ...]]:
    """For each word the rows that have it."""
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for row, found in enumerate(words):
        for word in found:
            rows[word].append(row)
    return {word: tuple(listed) for word, listed in rows.items()}

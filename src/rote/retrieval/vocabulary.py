"""Which rows have which words: a term without blanks lies within a word, so only words are searched.

A text of any length has its words once, so looking through all of them costs little of what
looking through all texts does. It is as exact: a term inside a word is found in every such word.
"""

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate, chain, compress

# To look at a text costs as much as to note so many rows.
_POSTINGS_MAX = 8
# No word holds white space.
_BREAK = "\n"


class Vocabulary:
    """The words and tags of the first rows of a corpus; never changes."""

    def __init__(self, texts: Sequence[str], tags: Sequence[tuple[str, ...]]) -> None:
        self.size = len(texts)  # how many rows it knows
        rows = _listed(map(set, map(str.split, texts)))
        self._tagged = _listed(tags)
        self._words = _BREAK.join(rows)
        self._starts = array("Q", accumulate((len(word) + 1 for word in rows), initial=0))
        self._rows = list(rows.values())

    def rows_with(self, part: str) -> Collection[int] | None:
        """The rows that have a word with a part in it; None when it is in so many words that to
        look at every text costs less."""
        found: list[tuple[int, ...]] = []
        count, place = 0, self._words.find(part)
        while place >= 0:
            number = bisect_right(self._starts, place) - 1
            found.append(self._rows[number])
            count += len(self._rows[number])
            if count > _POSTINGS_MAX * self.size:
                return None
            place = self._words.find(part, self._starts[number + 1])
        if len(found) == 1:
            return found[0]
        if count < self.size // 4:
            return set().union(*found)
        marks = bytearray(self.size)
        for row in chain.from_iterable(found):
            marks[row] = 1
        return list(compress(range(self.size), marks))

    def rows_tagged(self, tag: str) -> Sequence[int]:
        return self._tagged.get(tag, ())


def _listed(words: Iterable[Collection[str]]) -> dict[str, tuple[int, ...]]:
    """For each word the rows that have it."""
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for row, found in enumerate(words):
        for word in found:
            rows[word].append(row)
    return {word: tuple(listed) for word, listed in rows.items()}

"""Which rows have which words: a term without blanks lies within a word, so only words are searched.

A text of any length has its words once, so looking through all of them costs little of what
looking through all texts does. It is as exact: a term inside a word is found in every such word.
To list the words of many texts takes seconds, so it is done piece by piece, one for each question.
"""

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, chain, compress

from rote.values.limits import VOCABULARY_PIECE_CHARACTERS, VOCABULARY_PIECE_ROWS_MIN

# To look at a text costs as much as to note so many rows.
_POSTINGS_MAX = 8
# No word holds white space.
_BREAK = "\n"


class Vocabulary:
    """The words and tags of the first rows of a corpus; never changes."""

    def __init__(self, pieces: tuple["Piece", ...] = ()) -> None:
        self._pieces = pieces
        self.size = pieces[-1].end if pieces else 0  # how many rows it knows

    def grown(
        self,
        texts: Sequence[str],
        tags: Sequence[tuple[str, ...]],
        count: int,
        *,
        characters: int = VOCABULARY_PIECE_CHARACTERS,
        rows_min: int = VOCABULARY_PIECE_ROWS_MIN,
    ) -> "Vocabulary":
        """One that knows about so many characters more of the first `count` rows; the same one when
        it knows all but a few of them."""
        start = end = self.size
        if count - start < (rows_min if start else 1):
            return self
        while end < count and characters > 0:
            characters -= len(texts[end])
            end += 1
        return Vocabulary((*self._pieces, Piece(start, texts[start:end], tags[start:end])))

    def rows_with(self, part: str, texts: Sequence[str]) -> Iterator[int]:
        """The rows that have a word with a part in it, of those that it knows."""
        for piece in self._pieces:
            found = piece.rows_with(part)
            if found is None:
                found = [row for row in range(piece.start, piece.end) if part in texts[row]]
            yield from found

    def rows_tagged(self, tag: str) -> Iterator[int]:
        return chain.from_iterable(piece.rows_tagged(tag) for piece in self._pieces)


class Piece:
    """The words and tags of rows that follow each other."""

    def __init__(self, start: int, texts: Sequence[str], tags: Sequence[tuple[str, ...]]) -> None:
        self.start = start
        self.end = start + len(texts)
        rows = _listed(start, map(set, map(str.split, texts)))
        self._tagged = _listed(start, tags)
        self._words = _BREAK.join(rows)
        self._starts = array("Q", accumulate((len(word) + 1 for word in rows), initial=0))
        self._rows = list(rows.values())

    def rows_with(self, part: str) -> Collection[int] | None:
        """None when the part is in so many words that to look at every text costs less."""
        found: list[tuple[int, ...]] = []
        size = self.end - self.start
        count, place = 0, self._words.find(part)
        while place >= 0:
            number = bisect_right(self._starts, place) - 1
            found.append(self._rows[number])
            count += len(self._rows[number])
            if count > _POSTINGS_MAX * size:
                return None
            place = self._words.find(part, self._starts[number + 1])
        if len(found) == 1:
            return found[0]
        if count < size // 4:
            return set().union(*found)
        marks = bytearray(size)
        for row in chain.from_iterable(found):
            marks[row - self.start] = 1
        return list(compress(range(self.start, self.end), marks))

    def rows_tagged(self, tag: str) -> Sequence[int]:
        return self._tagged.get(tag, ())


def _listed(start: int, words: Iterable[Collection[str]]) -> dict[str, tuple[int, ...]]:
    """For each word the rows that have it."""
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for row, found in enumerate(words, start):
        for word in found:
            rows[word].append(row)
    return {word: tuple(listed) for word, listed in rows.items()}

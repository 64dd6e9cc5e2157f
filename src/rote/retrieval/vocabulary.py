"""The words of each row: a term without blanks lies within a word, so only words are searched.

The vocabulary holds each word once, so searching all words costs far less than searching all texts.
It is as exact: a term inside a word is found in every such word. Listing the words of many texts
takes seconds, so it is done piece by piece, one piece for each question.
"""

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, chain

from rote.values.limits import VOCABULARY_PIECE_CHARACTERS, VOCABULARY_PIECE_ROWS_MIN

# Searching one text costs as much as marking so many rows.
_MARKS_MAX = 8
# A word in more than one of so many rows is kept as marks, which then take less than row numbers.
_FREQUENT = 8
# No word holds white space.
_BREAK = "\n"


def marks_of(rows: bytes | bytearray) -> int:
    """Return a byte for each row, as one number: `|`, `&` and `+` work on all rows at once."""
    return int.from_bytes(rows, "little")


class Vocabulary:
    """The words and tags of the first rows of a corpus; immutable."""

    def __init__(self, pieces: tuple["Piece", ...] = ()) -> None:
        self._pieces = pieces
        self.size = pieces[-1].end if pieces else 0  # the number of rows it knows

    def grown(
        self,
        texts: Sequence[str],
        tags: Sequence[tuple[str, ...]],
        count: int,
        *,
        characters: int = VOCABULARY_PIECE_CHARACTERS,
        rows_min: int = VOCABULARY_PIECE_ROWS_MIN,
    ) -> "Vocabulary":
        """Return a vocabulary that knows about so many characters more of the first `count` rows.

        Return the same one when it knows all but a few of them.
        """
        start = end = self.size
        if count - start < (rows_min if start else 1):
            return self
        while end < count and characters > 0:
            characters -= len(texts[end])
            end += 1
        return Vocabulary((*self._pieces, Piece(start, texts[start:end], tags[start:end])))

    def marks(self, part: str, texts: Sequence[str]) -> bytes:
        """Return a byte for each row that it knows: 1 where a word holds the part."""
        return b"".join([piece.marks(part, texts) for piece in self._pieces])

    def rows_tagged(self, tag: str) -> Iterator[int]:
        return chain.from_iterable(piece.rows_tagged(tag) for piece in self._pieces)


class Piece:
    """The words and tags of consecutive rows."""

    def __init__(self, start: int, texts: Sequence[str], tags: Sequence[tuple[str, ...]]) -> None:
        self.start = start
        self.end = start + len(texts)
        self._size = len(texts)
        rows = _listed(0, map(set, map(str.split, texts)))
        self._tagged = _listed(start, tags)
        self._words = _BREAK.join(rows)
        self._starts = array("Q", accumulate((len(word) + 1 for word in rows), initial=0))
        self._rows: list[tuple[int, ...] | int] = [
            found if len(found) <= self._size // _FREQUENT else marks_of(self._marked(found))
            for found in rows.values()
        ]

    def marks(self, part: str, texts: Sequence[str]) -> bytes:
        """Return the marks of its rows, in a corpus of these texts."""
        frequent, rare, count = 0, bytearray(self._size), 0
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
                if count > _MARKS_MAX * self._size:
                    # So many words hold the part that searching every text costs less.
                    return bytes([part in text for text in texts[self.start : self.end]])
            place = self._words.find(part, self._starts[number + 1])
        marks = frequent | marks_of(rare)
        return marks.to_bytes(self._size, "little")

    def rows_tagged(self, tag: str) -> Sequence[int]:
        return self._tagged.get(tag, ())

    def _marked(self, rows: Iterable[int]) -> bytearray:
        marks = bytearray(self._size)
        for row in rows:
            marks[row] = 1
        return marks


def _listed(start: int, words: Iterable[Collection[str]]) -> dict[str, tuple[int, ...]]:
    """Return the rows of each word."""
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for row, found in enumerate(words, start):
        for word in found:
            rows[word].append(row)
    return {word: tuple(listed) for word, listed in rows.items()}

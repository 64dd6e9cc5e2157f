"""The words of each row: a term without blanks lies within a word, so only words are searched.

The vocabulary holds each word once, so searching all words costs far less than searching all texts.
It is as exact: a term inside a word is found in every such word. Listing the words of many texts
takes seconds, so it is done piece by piece, one piece for each question. The texts that are not
listed yet are searched themselves.
"""

from array import array
from bisect import bisect_right
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain
from typing import Protocol

from rote.values.limits import (
    VOCABULARY_PARTS_MAX,
    VOCABULARY_PIECE_CHARACTERS,
    VOCABULARY_PIECE_ROWS_MAX,
    VOCABULARY_PIECE_ROWS_MIN,
)

# No word holds white space.
_BREAK = "\n"
# The texts that are searched together: they fit into the caches of a processor.
_PLAIN_ROWS = 256


class Words(Protocol):
    """The words and tags of consecutive rows.

    Marks are a byte for each row, as one number: `|`, `&` and `+` work on all rows at once.
    """

    size: int  # rows

    def marks(self, part: str) -> int:
        """Return a one for each row in which a word holds the part."""
        ...

    def tagged(self, tag: str) -> int:
        """Return a one for each row that has a tag."""
        ...


def marks_of(rows: Iterable[int]) -> int:
    return int.from_bytes(bytes(rows), "little")


class Vocabulary:
    """The words and tags of the first rows of a corpus; immutable."""

    def __init__(self, pieces: tuple["Piece", ...] = ()) -> None:
        self._pieces = pieces
        self.size = sum(piece.size for piece in pieces)  # the number of rows it knows

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
        most = min(count, start + VOCABULARY_PIECE_ROWS_MAX)
        while end < most and characters > 0:
            characters -= len(texts[end])
            end += 1
        return Vocabulary((*self._pieces, Piece(texts[start:end], tags[start:end])))

    def words(
        self, texts: Sequence[str], tags: Sequence[tuple[str, ...]], count: int
    ) -> Iterator[Words]:
        """Yield the words of the first `count` rows, some rows after the other."""
        yield from self._pieces
        for start in range(self.size, count, _PLAIN_ROWS):
            end = min(start + _PLAIN_ROWS, count)
            yield PlainWords(texts[start:end], tags[start:end])


class PlainWords:
    """Texts that are not listed."""

    def __init__(self, texts: Sequence[str], tags: Sequence[tuple[str, ...]]) -> None:
        self.size = len(texts)
        self._lowers = [text.lower() for text in texts]
        self._tags = tags
        self._known_tags = {*chain.from_iterable(tags)}

    def marks(self, part: str) -> int:
        return marks_of([part in text for text in self._lowers])

    def tagged(self, tag: str) -> int:
        return _marked(self._rows_by_tag[tag], self.size) if tag in self._known_tags else 0

    @cached_property
    def _rows_by_tag(self) -> dict[str, list[int]]:
        return _rows_by_word(self._tags)


class Piece:
    """A list of words and tags, each with its rows."""

    def __init__(self, texts: Sequence[str], tags: Sequence[tuple[str, ...]]) -> None:
        self.size = len(texts)
        self._tagged = {tag: array("H", rows) for tag, rows in _rows_by_word(tags).items()}
        rows = _rows_by_word(text.lower().split() for text in texts)
        # There are many words, so they and their rows lie one after the other, and not as objects.
        self._words = _BREAK.join(rows)
        self._starts = array("Q", accumulate((len(word) + 1 for word in rows), initial=0))
        self._rows = array("H", chain.from_iterable(rows.values()))
        self._ends = array("Q", accumulate(map(len, rows.values()), initial=0))
        # Marks of parts, the last used at the end: questions repeat common words, and a part such as
        # `in` lies in thousands of words.
        self._known: OrderedDict[str, int] = OrderedDict()

    def marks(self, part: str) -> int:
        marks = self._known.pop(part, None)
        if marks is None:
            marks = _marked(chain.from_iterable(self._rows_with(part)), self.size)
        self._known[part] = marks
        if len(self._known) > VOCABULARY_PARTS_MAX:
            self._known.popitem(last=False)
        return marks

    def tagged(self, tag: str) -> int:
        return _marked(self._tagged.get(tag, ()), self.size)

    def _rows_with(self, part: str) -> Iterator["array[int]"]:
        """Yield the rows of each word that holds a part."""
        place = self._words.find(part)
        while place >= 0:
            number = bisect_right(self._starts, place) - 1
            yield self._rows[self._ends[number] : self._ends[number + 1]]
            place = self._words.find(part, self._starts[number + 1])


def _rows_by_word(words: Iterable[Iterable[str]]) -> dict[str, list[int]]:
    """Return the rows of each word; a row that has a word twice is there twice."""
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for row, found in enumerate(words):
        for word in found:
            rows[word].append(row)
    return rows


def _marked(rows: Iterable[int], size: int) -> int:
    marks = bytearray(size)
    for row in rows:
        marks[row] = 1
    return marks_of(marks)

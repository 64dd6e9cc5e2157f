"""Values as HTML: indented and cut, and of two values what differs marked.

A value is shown piece by piece, where a piece is a key, a part of a string, punctuation or space.
So two values can be compared by pieces, and a mark never cuts an element in two.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import Match, SequenceMatcher
from itertools import chain, pairwise
from unicodedata import category

from msgspec import Struct

from rote.inspector.html import Html, exact_text, joined, mark, pre, small, span, text
from rote.traces.reports import common_length, cut_to_difference
from rote.values import Json, canonical
from rote.values.indentation import indent
from rote.values.limits import (
    DEPTH_MAX,
    MARKED_WORD_CHARACTERS,
    MARKING_STEPS_MAX,
    PAGE_MARKING_STEPS_MAX,
    PAGE_VALUE_CHARACTERS_MAX,
)

# A value of so many characters stands on one line.
_LINE_CHARACTERS_MAX = 72
# Letters of scripts that put no space between words: Thai to Khmer, kana, Han. Each is a word.
_UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    r"\U00020000-\U0003ffff"
)
_split_words = re.compile(rf"\s+|[{_UNSPACED}]|[^\W{_UNSPACED}]+|[^\w\s]").findall
_JOINER = "\u200d"
_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"  # of the skin of an emoji
# The escapes in the JSON text of a string, and the text between them.
_escapes = re.compile(r"\\u[0-9a-f]{4}|\\.|[^\\]+").findall


class Piece(Struct, frozen=True):
    """A part of a shown value."""

    text: str
    kind: str  # key, escape, or empty for everything else


class Steps:
    """The work that a page may still do to mark what differs."""

    def __init__(self, count: int = PAGE_MARKING_STEPS_MAX) -> None:
        self._left = count

    def take(self, count: int) -> bool:
        """Take some steps; False when there are not so many."""
        if count > self._left:
            return False
        self._left -= count
        return True


def show_value(value: Json) -> Html:
    """Return a value in an element of its own; a long one is cut, and its size told."""
    is_text = isinstance(value, str)
    content = _text(value, is_text)
    is_line = len(content) <= _LINE_CHARACTERS_MAX
    beginning = content[: PAGE_VALUE_CHARACTERS_MAX + 1]
    pieces = _cut(_pieces(beginning, is_text, is_line), PAGE_VALUE_CHARACTERS_MAX)
    return _block(_joined(pieces), is_text, len(content))


def show_difference(left: Json, right: Json, steps: Steps) -> tuple[Html, Html]:
    """Return two values with what differs marked; long ones are cut to where they begin to differ."""
    is_text = isinstance(left, str) and isinstance(right, str)
    texts = _text(left, is_text), _text(right, is_text)
    if max(map(len, texts)) > PAGE_VALUE_CHARACTERS_MAX:
        shown = cut_to_difference(*texts, PAGE_VALUE_CHARACTERS_MAX)
        sides = [[Piece(word, "") for word in _words(each)] for each in shown]
    else:
        is_line = max(map(len, texts)) <= _LINE_CHARACTERS_MAX
        sides = [list(_split(_pieces(content, is_text, is_line))) for content in texts]
    marked = _marked(sides[0], sides[1], steps)
    return _block(marked[0], is_text, len(texts[0])), _block(marked[1], is_text, len(texts[1]))


def _text(value: Json, is_text: bool) -> str:
    """Return a string as the text it is, anything else as JSON."""
    if is_text and isinstance(value, str):
        return value
    return canonical(value, depth_max=2 * DEPTH_MAX).decode()


def _block(content: Html, is_text: bool, size: int) -> Html:
    kind = "value text" if is_text else "value"
    is_cut = size > PAGE_VALUE_CHARACTERS_MAX
    told = small(f"cut, {size:,} characters in all", class_="cut") if is_cut else None
    return joined([pre(content, class_=kind, dir="auto"), told])


# -- pieces -------------------------------------------------------------------------------------------


def _pieces(content: str, is_text: bool, is_line: bool) -> Iterator[Piece]:
    """Yield the pieces of a text, or of the JSON text of a value on one line or on many."""
    if is_text:
        yield Piece(content, "")
        return
    lead = "\n"  # the line break and the indent before the line
    for token, following in pairwise(chain(indent(content), [""])):
        if token.startswith("\n"):
            lead = token
            if not is_line:
                yield Piece(token, "")
        elif following == ": ":
            yield Piece(token, "key")
        elif token == "," and is_line:
            yield Piece(", ", "")
        elif token.startswith('"') and "\\" in token and not is_line:
            yield from _string_pieces(token, lead)
        else:
            yield Piece(token, "")


def _string_pieces(token: str, lead: str) -> Iterator[Piece]:
    """Yield the JSON text of a string; the escape of a line break breaks the line too."""
    for part in _escapes(token):
        yield Piece(f"{part}{lead}  ", "escape") if part == "\\n" else Piece(part, "")


def _split(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield smaller pieces, so that two texts differ only in some of their words."""
    for piece in pieces:
        if piece.kind:
            yield piece
        else:
            yield from (Piece(word, "") for word in _words(piece.text))


def _words(content: str) -> list[str]:
    """Return the words of a text, its spaces and its signs. None of them begins in the middle of what is
    one sign for a person."""
    words: list[str] = []
    for word in _split_words(content):
        if words and _is_one_sign(words[-1][-1], word[0]):
            words[-1] += word
        else:
            words.append(word)
    return words


def _is_one_sign(before: str, after: str) -> bool:
    """Whether two neighbouring characters are parts of one sign: a letter and its accent."""
    is_pair = "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff"
    return is_pair or _JOINER in (before, after) or category(after)[0] == "M" or after in _TONES


def _cut(pieces: Iterable[Piece], characters: int) -> Iterator[Piece]:
    for piece in pieces:
        if len(piece.text) > characters:
            yield Piece(f"{piece.text[:characters]}…", piece.kind)
            return
        characters -= len(piece.text)
        yield piece


def _joined(pieces: Iterable[Piece], write: Callable[[str], Html] = text) -> Html:
    return joined(
        span(write(piece.text), class_=piece.kind) if piece.kind else write(piece.text)
        for piece in pieces
    )


# -- what differs -------------------------------------------------------------------------------------


def _marked(left: Sequence[Piece], right: Sequence[Piece], steps: Steps) -> tuple[Html, Html]:
    """Return both sides with the pieces that differ in marks."""
    start = _common(left, right)
    end = _common(left[start:][::-1], right[start:][::-1])
    a, b = left[start : len(left) - end], right[start : len(right) - end]
    head, tail = _joined(left[:start]), _joined(left[len(left) - end :])
    shown: tuple[list[Html], list[Html]] = ([head], [head])
    for is_same, a_range, b_range in _stretches(a, b, steps):
        both = a[a_range], b[b_range]
        made = map(_joined, both) if is_same else _mark_both(*both)
        for side, part in zip(shown, made, strict=True):
            side.append(part)
    return joined([*shown[0], tail]), joined([*shown[1], tail])


def _stretches(
    left: Sequence[Piece], right: Sequence[Piece], steps: Steps
) -> Iterator[tuple[bool, slice, slice]]:
    """Yield the stretches of both sides that are the same or differ, by turns.

    A space between two words that differ differs too. Where looking for what is the same would take too
    many steps, all of it differs.
    """
    a_end = b_end = 0
    try:
        blocks = _Matcher(left, right, steps).get_matching_blocks()
    except _TooManyStepsError:
        blocks = [Match(len(left), len(right), 0)]
    for block in blocks:
        if block.size == 1 and left[block.a].text.isspace():
            continue
        if a_end < block.a or b_end < block.b:
            yield False, slice(a_end, block.a), slice(b_end, block.b)
        a_end, b_end = block.a + block.size, block.b + block.size
        yield True, slice(block.a, a_end), slice(block.b, b_end)


def _common(left: Sequence[Piece], right: Sequence[Piece]) -> int:
    """Return the number of pieces with which both begin."""
    for count, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return count
    return min(len(left), len(right))


class _TooManyStepsError(Exception):
    """There are no steps left."""


class _Matcher(SequenceMatcher[Piece]):
    """Counts its steps. For each stretch that is the same it looks at all pairs of equal pieces."""

    def __init__(self, left: Sequence[Piece], right: Sequence[Piece], steps: Steps) -> None:
        self._page, self._own = steps, Steps(MARKING_STEPS_MAX)
        self._left, self._counts = left, Counter(right)
        super().__init__(None, left, right, False)

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> Match:
        count = sum(1 + self._counts[piece] for piece in self._left[alo:ahi])
        if not (self._own.take(count) and self._page.take(count)):
            raise _TooManyStepsError
        return super().find_longest_match(alo, ahi, blo, bhi)


def _mark_both(left: Sequence[Piece], right: Sequence[Piece]) -> tuple[Html, Html]:
    """Return both sides in marks; a long word without what it begins and ends with on both sides."""
    a, b = list(left), list(right)
    start = end = ""
    if a and b:
        are_first_long, are_last_long = _are_long(a[0], b[0]), _are_long(a[-1], b[-1])
        if are_first_long:
            start = _common_start(a[0].text, b[0].text)
            a[0], b[0] = (Piece(each.text.removeprefix(start), "") for each in (a[0], b[0]))
        if are_last_long:
            end = _common_end(a[-1].text, b[-1].text)
            a[-1], b[-1] = (Piece(each.text.removesuffix(end), "") for each in (a[-1], b[-1]))
    return joined([start, _mark(a), end]), joined([start, _mark(b), end])


def _are_long(left: Piece, right: Piece) -> bool:
    shortest = min(len(left.text), len(right.text))
    return not left.kind and not right.kind and shortest >= MARKED_WORD_CHARACTERS


def _common_start(left: str, right: str) -> str:
    count = common_length(left, right)
    while count and any(_is_inside(each, count) for each in (left, right)):
        count -= 1
    return left[:count]


def _common_end(left: str, right: str) -> str:
    count = common_length(left[::-1], right[::-1])
    while count and any(_is_inside(each, len(each) - count) for each in (left, right)):
        count -= 1
    return left[len(left) - count :]


def _is_inside(content: str, place: int) -> bool:
    """Whether a place in a text is in the middle of one sign."""
    return 0 < place < len(content) and _is_one_sign(content[place - 1], content[place])


def _mark(pieces: Sequence[Piece]) -> Html:
    """Return pieces in a mark; in a place where one side has nothing, nothing is marked."""
    is_empty = not any(piece.text for piece in pieces)
    return joined([]) if is_empty else mark(_joined(pieces, exact_text))

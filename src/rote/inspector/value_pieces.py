"""Values as HTML: indented and cut, and of two values what differs marked.

A value is shown piece by piece, where a piece is a key, a part of a string, punctuation or space.
So two values can be compared by pieces, and a mark never cuts an element in two.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import chain, pairwise

from msgspec import Struct

from rote.inspector.html import Html, exact_text, joined, mark, pre, small, span, text
from rote.traces.reports import cut_to_difference
from rote.values import Json, canonical
from rote.values.indentation import indent
from rote.values.limits import (
    DEPTH_MAX,
    MARKED_PIECES_MAX,
    PAGE_VALUE_CHARACTERS_MAX,
)

# A value of so many characters stands on one line.
_LINE_CHARACTERS_MAX = 72
_words = re.compile(r"\s+|\w+|[^\w\s]").findall
# The escapes in the JSON text of a string, and the text between them.
_escapes = re.compile(r"\\u[0-9a-f]{4}|\\.|[^\\]+").findall


class Piece(Struct, frozen=True):
    """A part of a shown value."""

    text: str
    kind: str  # key, escape, or empty for everything else


def show_value(value: Json) -> Html:
    """Return a value in an element of its own; a long one is cut, and its size told."""
    is_text = isinstance(value, str)
    content = _text(value, is_text)
    is_line = len(content) <= _LINE_CHARACTERS_MAX
    beginning = content[: PAGE_VALUE_CHARACTERS_MAX + 1]
    pieces = _cut(_pieces(beginning, is_text, is_line), PAGE_VALUE_CHARACTERS_MAX)
    return _block(_joined(pieces), is_text, len(content))


def show_difference(left: Json, right: Json) -> tuple[Html, Html]:
    """Return two values with what differs marked; long ones are cut to where they begin to differ."""
    is_text = isinstance(left, str) and isinstance(right, str)
    texts = _text(left, is_text), _text(right, is_text)
    if max(map(len, texts)) > PAGE_VALUE_CHARACTERS_MAX:
        shown = cut_to_difference(*texts, PAGE_VALUE_CHARACTERS_MAX)
        sides = [[Piece(word, "") for word in _words(each)] for each in shown]
    else:
        is_line = max(map(len, texts)) <= _LINE_CHARACTERS_MAX
        sides = [list(_split(_pieces(content, is_text, is_line))) for content in texts]
    marked = _marked(*sides)
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


def _marked(left: Sequence[Piece], right: Sequence[Piece]) -> tuple[Html, Html]:
    """Return both sides with the pieces that differ in marks."""
    start = _common(left, right)
    end = _common(left[start:][::-1], right[start:][::-1])
    a, b = left[start : len(left) - end], right[start : len(right) - end]
    head, tail = _joined(left[:start]), _joined(left[len(left) - end :])
    if len(a) * len(b) > MARKED_PIECES_MAX:
        return joined([head, _mark(a), tail]), joined([head, _mark(b), tail])
    shown: tuple[list[Html], list[Html]] = ([head], [head])
    for is_same, a_range, b_range in _stretches(a, b):
        show = _joined if is_same else _mark
        shown[0].append(show(a[a_range]))
        shown[1].append(show(b[b_range]))
    return joined([*shown[0], tail]), joined([*shown[1], tail])


def _stretches(
    left: Sequence[Piece], right: Sequence[Piece]
) -> Iterator[tuple[bool, slice, slice]]:
    """Yield the stretches of both sides that are the same or differ, by turns.

    A space between two words that differ differs too.
    """
    a_end = b_end = 0
    for block in SequenceMatcher(None, left, right, False).get_matching_blocks():
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


def _mark(pieces: Sequence[Piece]) -> Html:
    """Return pieces in a mark; in a place where one side has nothing, nothing is marked."""
    return mark(_joined(pieces, exact_text)) if pieces else joined([])

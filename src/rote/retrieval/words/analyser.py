"""The analyser `words-1`: a text to its terms, in order and with repeats.

    fold     assigned code points only, without accents, compatible forms and case
    runs     word characters, and single apostrophes between them
    parts    without 's, n't and the like; unspaced scripts by themselves
    terms    pairs of an unspaced script, numbers, stems of English words, or the part as it is

Time and memory are linear in the length of the text, whatever it holds. Terms of short runs are
remembered: a language has few words, and texts repeat them.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from io import StringIO
from itertools import chain, pairwise
from typing import Final
from unicodedata import combining, normalize

from rote.questions import ENGLISH, NO_INSTANT
from rote.retrieval.words.porter import stem
from rote.retrieval.words.tables import (
    UNASSIGNED,
    WORD,
    basic_class,
    class_of,
    irregular_forms,
    is_in,
    stop_words,
)
from rote.values import datetime_of
from rote.values.limits import (
    ANALYSED_CHARACTERS,
    DAYS_REMEMBERED,
    TERM_CHARACTERS_MAX,
    WORDS_REMEMBERED,
)

ANALYSER: Final = "words-1"

# The interpreter sorts marks that follow each other in quadratic time. So it gets only so many
# characters that could be marks at once.
_MARKS_MAX = 64
_UNSPACED = class_of(
    (
        (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3005, 0x3007), (0x3040, 0x30FF),
        (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x20000, 0x3134F),
    )
)  # fmt: skip

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip

_DAY = 86_400_000_000  # microseconds

_accents = re.compile("[\u0300-\u036f]").sub
_long_without_ascii = re.compile(f"[^\\0-\x7f]{{{_MARKS_MAX}}}").search
_beyond_basic = re.compile("[\U00010000-\U0010ffff]").sub
_apostrophes = re.compile("[\u2018\u2019\u02bc]").sub
_grouped = re.compile("(?<![0-9])[0-9]{1,3}(?:,[0-9]{3}(?![0-9]))++").sub
_ascii_runs = re.compile("[a-z0-9]++(?:'[a-z0-9]++)*+").findall
_pieces = re.compile(f"{_UNSPACED}+|[^{_UNSPACED[1:]}+").findall
_is_unspaced = re.compile(_UNSPACED).match
_number = re.compile("0*([0-9]+?)(?:st|nd|rd|th)?").fullmatch
_is_english = re.compile("[a-z]+").fullmatch


def analyse(text: str, language: str = ENGLISH) -> Iterator[str]:
    """Return the terms of a text, in order and with repeats."""
    if len(text) <= ANALYSED_CHARACTERS:
        return _terms_of(text, language)
    return _terms_in_parts(text, language)


def _terms_in_parts(text: str, language: str) -> Iterator[str]:
    """Yield the terms of a long text; none depends on what is beyond white space."""
    start = 0
    while len(text) - start > ANALYSED_CHARACTERS:
        blank = text.find(" ", start + ANALYSED_CHARACTERS)
        if blank < 0:
            break
        yield from _terms_of(text[start:blank], language)
        start = blank
    yield from _terms_of(text[start:], language)


def memory_terms(
    text: str, tags: Iterable[str], instant: int, language: str = ENGLISH
) -> Iterator[str]:
    """Return the terms of a memory: of its text, of each tag, and of its day."""
    day: Iterable[str] = () if instant == NO_INSTANT else _terms_of_day(instant // _DAY, language)
    return chain(analyse(text, language), *(analyse(tag, language) for tag in tags), day)


@lru_cache(maxsize=DAYS_REMEMBERED)
def _terms_of_day(day: int, language: str) -> tuple[str, ...]:
    """Return the terms of a day, counted from the epoch."""
    at = datetime_of(day * _DAY)
    return tuple(analyse(f"{at.day} {_MONTHS[at.month - 1]} {at.year}", language))


def _terms_of(text: str, language: str) -> Iterator[str]:
    folded = text.lower() if text.isascii() else _fold(text)
    if "," in folded:
        folded = _grouped(lambda match: match[0].replace(",", ""), folded)
    runs = _ascii_runs if folded.isascii() else _runs()
    return chain.from_iterable(map(_remembered(language).__getitem__, runs(folded)))


class _Terms(dict[str, Iterable[str]]):
    """Runs to their terms; those of a long run are not remembered, and made one by one."""

    def __init__(self, term_of: Callable[[str], str | None]) -> None:
        self._term_of = term_of

    def __missing__(self, run: str) -> Iterable[str]:
        terms = chain.from_iterable(map(self._terms, _parts(run)))
        if len(run) > TERM_CHARACTERS_MAX:
            return terms
        if len(self) >= WORDS_REMEMBERED:
            self.clear()
        found = self[run] = tuple(terms)
        return found

    def _terms(self, part: str) -> Iterator[str]:
        for piece in (part,) if part.isascii() else _pieces(part):
            if _is_unspaced(piece):
                yield from map("".join, pairwise(piece)) if piece[1:] else piece
            else:
                term = self._term_of(piece[:TERM_CHARACTERS_MAX])
                if term is not None:
                    yield term


@cache
def _remembered(language: str) -> _Terms:
    return _Terms(_english_term if language == ENGLISH else _plain_term)


def _english_term(piece: str) -> str | None:
    """Return the term of a piece, None when it is a stop word."""
    if not _is_english(piece):
        return _plain_term(piece)
    if piece in stop_words():
        return None
    return stem(irregular_forms().get(piece, piece))


def _plain_term(piece: str) -> str:
    number = _number(piece)
    return piece if number is None else number[1]


def _parts(run: str) -> list[str]:
    """Return the parts of a run between apostrophes, without an ending such as 's or n't."""
    parts = run.split("'")
    if len(parts) > 1 and parts[-1] in ("s", "t", "d", "m", "ll", "re", "ve"):
        ending = parts.pop()
        if ending == "t" and len(parts[-1]) > 1 and parts[-1][-1] == "n":
            parts[-1] = parts[-1][:-1]
    return parts


def _fold(text: str) -> str:
    """Return a text in which all characters beyond U+FFFF are word characters."""
    text = _basic_unassigned()(" ", text)
    text = _beyond_basic(lambda match: " " if is_in(UNASSIGNED, match[0]) else match[0], text)
    is_long = _long_without_ascii(text) is not None
    text = "".join(_stripped(text)) if is_long else _accents("", normalize("NFKD", text))
    text = _apostrophes("'", normalize("NFKC", text).casefold())
    return _beyond_basic(lambda match: match[0] if is_in(WORD, match[0]) else " ", text)


def _stripped(text: str) -> Iterator[str]:
    """Yield the decomposed text without accents, all marks in canonical order.

    The order before the accents are taken out does not matter: the order after it is a stable sort
    by class. Marks that follow each other are collected by class, however many they are.
    """
    marks: dict[int, StringIO] = {}
    for start in range(0, len(text), _MARKS_MAX):
        piece = _accents("", normalize("NFKD", text[start : start + _MARKS_MAX]))
        first, last = 0, len(piece)
        while first < last and (order := combining(piece[first])):
            marks.setdefault(order, StringIO()).write(piece[first])
            first += 1
        if first == last:
            continue
        yield from _take(marks)
        while combining(piece[last - 1]):
            last -= 1
        yield normalize("NFKD", piece[first:last])
        for mark in piece[last:]:
            marks.setdefault(combining(mark), StringIO()).write(mark)
    yield from _take(marks)


def _take(marks: dict[int, StringIO]) -> Iterator[str]:
    """Yield the marks in canonical order (Unicode 14.0.0, section 3.11, D109), and forget them."""
    for order in sorted(marks):
        yield marks.pop(order).getvalue()


@cache
def _runs() -> Callable[[str], list[str]]:
    """Return what finds the runs of a folded text."""
    word = basic_class(WORD)[:-1] + "\U00010000-\U0010ffff]"
    return re.compile(f"{word}++(?:'{word}++)*+").findall


@cache
def _basic_unassigned() -> Callable[[str, str], str]:
    return re.compile(basic_class(UNASSIGNED)).sub

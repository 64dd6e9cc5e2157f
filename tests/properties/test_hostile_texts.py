"""Nothing that a record or a file holds makes analysing, cutting or asking fail, hang or fill memory.

Work is counted, not timed: calls by the interpreter's own hook, and characters that are handed to
what walks through a text in C. Memory is the peak of what was allocated. All three are bounded by the
length of the text times a constant that stands here.
"""

import re
import sys
import tracemalloc
import unicodedata
from collections.abc import Callable
from itertools import islice
from random import Random
from types import FrameType, ModuleType
from typing import Any, TypeVar

import pytest

from rote.questions import LANGUAGES
from rote.retrieval.ranking import excerpts
from rote.retrieval.ranking.excerpts import Excerpts, Highlights, TokenCounter
from rote.retrieval.words import analyser
from rote.retrieval.words.analyser import analyse
from rote.testing.naive_excerpts import naive_excerpt
from rote.testing.naive_words import naive_analyse
from rote.testing.ranking_draws import ToyCounter
from rote.values.limits import ANALYSED_CHARACTERS, KIB, MIB
from tests.lanes import SLOW, examples

Result = TypeVar("Result")

FIRST = 1_000_000 if SLOW else 0  # seeds differ from lane to lane
# All texts of the slow lane would keep one process busy for too long.
PARTS = examples(1, 10)
TEXTS = examples(300, 10_000)  # of each part
# For each character of a text: calls, characters handed to C, and bytes at the peak, all at most. A
# character may become eighteen (U+FDFA), each of them a term. Beside that, whatever the text is.
BOUNDS = {"calls": (80, 3_000), "characters": (200, 3_000), "bytes": (400, 256 * KIB)}
COMPARED = 200  # characters of a text that the plain reference answers for, too
GROWN = examples(300, 4_000)
SLACK = (500, 500, 16 * KIB)

UNITS = (
    "a", "b ", "x'", "don't ", "'", "’", "é", "e\u0301", "\u0301", "\u0301\u0316", "\u05b1\u05b0",
    "\u05b1\u05b0\u034f", "\u0f73", "\u0f71\u0f72", "\u0344", "\ufdfa", "\u0378", "\U000e0fff",
    "\U0003ffff", "日本語", "日a", "京 ", "한글", "\u1100\u1161\u11a8", "สัก\u0e49", "\u1780\u17d2",
    "😀", "👩\u200d👩\u200d👧", "🇩🇪", "1", "0", "007 ", "1,234,", "123,", "1,23", ",", "21st ",
    "مرحبا ", "שלום", "\u202e", "\u200b", "\ufeff", "İ", "ß", "ŉ", "ﬁ", "Ⅷ", "½", "²", "𝐀", "ᏣꭰΣς",
    "\u2028", "\u00a0", "\x1c", "\x85", "\0", "\t\n", "…", "-", "_", "running ", "ation", "sses",
    "y", "went ", "the ", "\ue000", "\ufffe", "\U0010ffff", "﷽", "z̷͉̟̓", "\u0e00", "\U00020000",
)  # fmt: skip
LENGTHS = (0, 1, 2, 31, 32, 33, 63, 64, 65, 66, 100, 200, 400)


class Texts:
    """Draws hostile texts from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def text(self) -> str:
        kind = self.random.choice((self._repeated, self._repeated, self._mixed, self._any))
        return kind(self._length())

    def _length(self) -> int:
        chosen = self.random.random()
        if chosen < 1 / 20_000:
            return MIB
        if chosen < 1 / 1_000:
            return ANALYSED_CHARACTERS + self.random.randint(-2, 2)
        return 4_000 if chosen < 1 / 50 else self.random.choice(LENGTHS)

    def _repeated(self, length: int) -> str:
        unit = "".join(self.random.choices(UNITS, k=self.random.choice((1, 1, 2))))
        return (unit * (length // len(unit) + 1))[:length]

    def _mixed(self, length: int) -> str:
        units = self.random.sample(UNITS, 6)
        return "".join(self.random.choices(units, k=length))[:length]

    def _any(self, length: int) -> str:
        """Return any code points but surrogates, which no JSON that is accepted can hold."""
        points = (self.random.randrange(0x110000) for _ in range(2 * length))
        return "".join(islice((chr(p) for p in points if not 0xD800 <= p < 0xE000), length))


# -- counting --------------------------------------------------------------------------------------


class Work:
    """Counts the work of one call after the other."""

    def __init__(self) -> None:
        self.calls = 0
        self.characters = 0  # handed to what walks through them in C
        self.bytes = 0  # at the peak

    def of(self, call: Callable[[], Result]) -> Result:
        """Return what a call returns, and count its work."""
        self.calls = self.characters = 0
        # Words that are remembered are bounded apart, and need not be analysed again.
        analyser._remembered.cache_clear()
        excerpts._pieces_known.cache_clear()
        tracemalloc.start()
        sys.setprofile(self._note)
        try:
            return call()
        finally:
            sys.setprofile(None)
            self.bytes = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            self.calls += 1

    def counts(self) -> tuple[int, int, int]:
        return self.calls, self.characters, self.bytes

    def check(self, length: int) -> None:
        for name, count, (each, more) in zip(BOUNDS, self.counts(), BOUNDS.values(), strict=True):
            assert count <= each * length + more, (name, count, length)


class CountedText(str):
    """A text that notes how much of it is copied or walked through."""

    __slots__ = ("work",)
    work: Work

    def __getitem__(self, place: Any) -> str:
        return self._noted(super().__getitem__(place))  # type: ignore[no-any-return]

    def encode(self, *more: Any) -> bytes:
        return self._noted(super().encode(*more))  # type: ignore[no-any-return]

    def _noted(self, part: Any) -> Any:
        self.work.characters += len(part)
        return part


def _walking(name: str) -> Callable[..., Any]:
    def walk(self: CountedText, *more: Any) -> Any:
        self.work.characters += len(self)
        return getattr(str, name)(self, *more)

    return walk


for _name in ("strip", "lstrip", "rstrip", "lower", "casefold", "isascii", "split", "replace"):
    setattr(CountedText, _name, _walking(_name))


def counted_text(text: str, work: Work) -> CountedText:
    made = CountedText(text)
    made.work = work
    return made


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    """Return what counts, with all patterns and normal forms of analyser and excerpts noted."""
    found = Work()

    def noted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            found.characters += sum(len(each) for each in arguments if isinstance(each, str))
            return function(*arguments)

        return call

    modules: tuple[ModuleType, ...] = (analyser, excerpts)
    for module in modules:
        for name, value in [*vars(module).items()]:
            if isinstance(getattr(value, "__self__", None), re.Pattern):
                monkeypatch.setattr(module, name, noted(value))
    monkeypatch.setattr(analyser, "normalize", noted(unicodedata.normalize))
    for maker in ("_runs", "_basic_unassigned"):
        made = noted(getattr(analyser, maker)())
        monkeypatch.setattr(analyser, maker, lambda made=made: made)
    return found


# -- analysing and cutting -------------------------------------------------------------------------


class NeverFits:
    """Counts so many tokens that an excerpt is made again as often as it may be."""

    name = "never"
    version = "1"

    def count(self, text: str, /) -> int:
        return 10**6 + len(text)


def analysed(text: str, language: str, work: Work) -> list[str]:
    """Return the terms of a text, with their work counted."""
    counted = counted_text(text, work)
    terms = work.of(lambda: list(analyse(counted, language)))
    if len(text) <= COMPARED:
        assert terms == naive_analyse(text, language)
    return terms


def cut(
    text: str,
    language: str,
    terms: list[str],
    work: Work,
    *,
    tokens: int = 2,
    counter: TokenCounter | None = None,
) -> None:
    """Make an excerpt of a text around some terms and mark them, with the work counted."""
    idf = {term: 1_000 + number for number, term in enumerate(terms)}
    made = Excerpts(idf, language=language, tokens=tokens, counter=counter)
    counted = counted_text(text, work)
    found = work.of(lambda: made.of(counted))
    if len(text) <= COMPARED:
        expected = naive_excerpt(
            text, tokens, idf, lambda piece: naive_analyse(piece, language), counter
        )
        assert (found.text, found.start, found.tokens) == expected
    Highlights(frozenset(idf), language).of(found.text)


@pytest.mark.parametrize("part", range(PARTS))
def test_any_text_is_analysed_and_cut_in_work_that_its_length_bounds(part: int, work: Work) -> None:
    first = FIRST + part * TEXTS
    for seed in range(first, first + TEXTS):
        texts = Texts(seed)
        text, language = texts.text(), texts.random.choice(LANGUAGES)
        terms = analysed(text, language, work)
        work.check(len(text))
        random = texts.random
        cut(
            text,
            language,
            random.choices(terms, k=3) if terms else [],
            work,
            tokens=random.choice((1, 2, 7, 256)),
            counter=random.choice((None, None, ToyCounter(random), NeverFits())),
        )
        work.check(len(text))


@pytest.mark.parametrize("language", LANGUAGES if SLOW else LANGUAGES[:1])
def test_four_times_the_text_is_four_times_the_work(language: str, work: Work) -> None:
    """A constant that is too kind would hide work that grows faster than the text."""
    for unit in UNITS[:: examples(3, 1)]:
        counts = []
        for length in (GROWN, 4 * GROWN):
            text = (unit * length)[:length]
            terms = analysed(text, language, work)
            counts.append(work.counts())
            cut(text, language, terms[:1], work, counter=NeverFits())
            counts.append(work.counts())
        for small, large in zip(counts[:2], counts[2:], strict=True):
            for few, many, more in zip(small, large, SLACK, strict=True):
                assert many <= 4.5 * few + more, (unit, small, large)

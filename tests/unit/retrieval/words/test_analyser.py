"""The analyser gives the terms of the contract, for every text, in work that its length bounds."""

from hashlib import sha256
from itertools import groupby, product
from pathlib import Path
from random import Random
from unicodedata import combining, normalize

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rote.retrieval.words
from rote.questions import LANGUAGES, NO_INSTANT
from rote.retrieval.words import analyser
from rote.retrieval.words.analyser import analyse, memory_terms
from rote.retrieval.words.porter import stem
from rote.testing.naive_porter import naive_stem
from rote.testing.naive_words import naive_analyse
from rote.values.limits import ANALYSED_CHARACTERS, TERM_CHARACTERS_MAX, WORDS_REMEMBERED
from tests.lanes import examples

GOLDEN = Path(__file__).parents[3] / "golden" / "ranking"
DATA = Path(rote.retrieval.words.__file__).parent / "data"
MEGABYTE = 1 << 20
DIGESTS = {
    "forms.txt": "a6c580c3c373cfb816d615fd97d76c99fd52d499c4b510711d09cc758e1f8458",
    "stop.txt": "32bb8da6cbff32f708c6154ba1487b33e4b24ceff53ca60830f3b59b0b9634fe",
    "unicode14.json": "600fdf9007c11b09f3543004ecebdeddd9eec6a6426aee97cbae4d6e8dc52000",
}

# Characters by what the analyser does with them, so that short texts meet every rule.
CHARACTERS = (
    "aesz0123, .'’ʼ\u2018-_\n\u00a0\u2028éÉßİſŉﬁ²Ⅷ½٣\u0301\u0316\u034f\u0345\u05b0\u05b1\u0f73\u0f71\u0344"
    "日本ガｶﾞ々〇한\u1100\u1161สัก\u0e49\u1780\u1000мΣσςعᏣ\uab70\u0378\ufdfa\ufffe\U0001f600\U000104d0"
    "\U0001d400\U00020000\U000e0fff\U0001f1e6\ud7ff\ue000\U0010ffff"
)
WORDS = (
    "went", "don't", "can't", "rock'n'roll", "1,234,567", "1,23,456", "12,3456", "007", "21st",
    "0th", "Caroline's", "running", "trekked", "they\u2019ll", "n't", "x" * 70, "1" * 70,
    "日本語テスト", "gpt-4o", "caf\u0065\u0301", "the", "''", "a''b", "'tis",
)  # fmt: skip
texts = st.lists(
    st.sampled_from(CHARACTERS) | st.sampled_from(WORDS) | st.characters(codec="utf-8"), max_size=40
).map("".join)


@pytest.mark.parametrize("name", DIGESTS)
def test_the_tables_are_those_of_the_contract(name: str) -> None:
    assert sha256((DATA / name).read_bytes()).hexdigest() == DIGESTS[name]


def test_every_text_of_the_contract_has_its_terms() -> None:
    rows = [orjson.loads(line) for line in (GOLDEN / "terms.jsonl").read_bytes().splitlines()]
    assert len(rows) == 243
    for row in rows:
        assert list(analyse(row["text"], row["language"])) == row["terms"], row
        assert naive_analyse(row["text"], row["language"]) == row["terms"], row


def test_every_word_of_the_contract_has_its_stem() -> None:
    rows = [line.split("\t") for line in (GOLDEN / "stems.tsv").read_text().splitlines()]
    assert len(rows) == 2_828
    for word, expected in rows:
        assert (stem(word), naive_stem(word)) == (expected, expected)


def test_any_letters_have_the_stem_of_the_paper() -> None:
    for letters in product("aeylstbi", repeat=examples(4, 6)):
        word = "".join(letters)
        assert stem(word) == naive_stem(word)
    random = Random(1)
    endings = "sses ies ed ing eed y ational ization iveness biliti icate ful ement ion e ll er ous"
    for _ in range(examples(5_000, 200_000)):
        start = "".join(random.choices("aeiouybcdlnstwxz", k=random.randint(0, 5)))
        word = start + "".join(random.choices(endings.split(), k=random.randint(1, 2)))
        assert stem(word) == naive_stem(word)


@settings(max_examples=examples(300, 20_000))
@given(texts, st.sampled_from(LANGUAGES))
def test_any_text_has_the_terms_of_the_plain_reference(text: str, language: str) -> None:
    assert list(analyse(text, language)) == naive_analyse(text, language)


@settings(max_examples=examples(100, 5_000))
@given(
    st.lists(
        st.sampled_from("aé日\u0301\u0316\u034f\u05b0\u05b1\u05b9\u0f73\u0f71\u0e49"), max_size=300
    )
)
def test_marks_that_follow_each_other_are_sorted_as_unicode_says(characters: list[str]) -> None:
    text = "".join(characters)
    assert list(analyse(text)) == naive_analyse(text)


def test_a_long_text_has_the_terms_of_its_parts() -> None:
    words = ["caf\u00e9", "1,234", "don't", "日本語", "\u0301x"]
    text = " ".join(words * ANALYSED_CHARACTERS)[: 3 * ANALYSED_CHARACTERS]
    expected = [term for word in text.split(" ") for term in naive_analyse(word)]
    assert list(analyse(text)) == expected


def test_a_memory_has_the_terms_of_its_text_its_tags_and_its_day() -> None:
    eighth_of_may = 1_683_504_000_000_000
    terms = memory_terms("Running", ["tea", "green tea"], eighth_of_may)
    assert list(terms) == ["run", "tea", "green", "tea", "8", "mai", "2023"]
    assert list(memory_terms("may", (), -1, "none")) == ["may", "31", "december", "1969"]
    assert list(memory_terms("may", (), NO_INSTANT, "none")) == ["may"]


# -- hostile texts ---------------------------------------------------------------------------------

HOSTILE = {
    "one word": "a", "apostrophes": "a'", "accents": "é", "accents apart": "\u0301\u0316",
    "points": "\u05b1\u05b0", "starters of marks": "\u0f73", "the longest form": "\ufdfa",
    "joined marks": "\u05b1\u05b0\u034f", "marks on letters": "a\u05b1\u05b0", "unassigned": "\u0378",
    "unassigned far away": "\U000e0fff", "unspaced": "日本語", "syllables": "한글", "pictures": "😀",
    "digits": "1", "commas": "1,234,", "grouped": "123,", "right to left": "مرحبا",
    "mixed scripts": "a日", "blanks": "x ", "no words": "…",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_megabyte_of_anything_is_analysed_in_bounded_work(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repeated = HOSTILE[name]
    size = examples(MEGABYTE // 8, MEGABYTE)
    text = repeated * (size // len(repeated.encode()))
    steps = _count_sorting(monkeypatch)
    terms = characters = 0
    for term in analyse(text):
        terms += 1
        characters += len(term)
        assert len(term) <= TERM_CHARACTERS_MAX
    # The longest form of a character is eighteen; no pair of characters is more than one term.
    assert terms <= 18 * len(text)
    assert characters <= 2 * 18 * len(text)
    # The interpreter compares a mark with marks of one piece only.
    assert sum(steps) <= 4 * analyser._MARKS_MAX * len(text)


def _count_sorting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the steps which the interpreter takes at most to sort marks."""
    steps: list[int] = []

    def counted(form: str, text: str) -> str:
        for is_mark, run in groupby(text, key=_may_be_mark):
            order = [combining(each) for each in run]
            if is_mark and order != sorted(order):
                steps.append(len(order) ** 2)
        return normalize(form, text)  # type: ignore[arg-type]

    monkeypatch.setattr(analyser, "normalize", counted)
    return steps


def _may_be_mark(character: str) -> bool:
    return combining(normalize("NFKD", character)[0]) > 0


def test_only_a_bounded_number_of_words_is_remembered() -> None:
    for start in range(0, 2 * WORDS_REMEMBERED, 10_000):
        list(analyse(" ".join(f"x{number}" for number in range(start, start + 10_000))))
        assert len(analyser._remembered("english")) <= WORDS_REMEMBERED
    before = len(analyser._remembered("english"))
    list(analyse("y" * (TERM_CHARACTERS_MAX + 1)))
    assert len(analyser._remembered("english")) == before

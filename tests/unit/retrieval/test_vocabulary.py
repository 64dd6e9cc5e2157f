"""A vocabulary finds the same rows as a search of every text."""

from collections.abc import Callable, Iterable
from random import Random

import pytest

from rote.retrieval import vocabulary as module
from rote.retrieval.vocabulary import Piece, PlainWords, Vocabulary, Words, marks_of
from rote.values.limits import VOCABULARY_PARTS_MAX, VOCABULARY_PIECE_ROWS_MAX
from tests.lanes import examples

BREAKS = (" ", "  ", "\n", "\t", "\u00a0")


def texts_of(random: Random) -> list[str]:
    """Return texts of few letters, so that words are in words."""
    words = ["".join(random.choices("abéÉA", k=random.randint(1, 4))) for _ in range(30)]
    return [
        "".join(random.choice(words) + random.choice(BREAKS) for _ in range(random.randrange(5)))
        for _ in range(random.randrange(60))
    ]


@pytest.mark.parametrize("kind", [Piece, PlainWords])
def test_a_part_of_a_word_is_found_in_every_text_that_has_it(
    kind: Callable[[list[str], list[tuple[str, ...]]], Words],
) -> None:
    for seed in range(examples(100, 1_000)):
        random = Random(seed)
        texts = texts_of(random)
        words = kind(texts, [()] * len(texts))
        for _ in range(10):
            part = "".join(random.choices("abé", k=random.randint(1, 4)))
            expected = marks_of([part in text.lower() for text in texts])
            assert words.marks(part) == expected
            assert words.marks(part) == expected, "asked again"


def test_a_vocabulary_that_grows_finds_the_same_in_all_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_PLAIN_ROWS", 7)
    for seed in range(examples(50, 500)):
        random = Random(seed)
        texts = texts_of(random)
        tags = [tuple(random.sample("xyz", random.randrange(3))) for _ in texts]
        vocabulary = Vocabulary()
        for _ in range(random.randrange(20)):
            count = random.randint(vocabulary.size, len(texts))
            vocabulary = vocabulary.grown(texts, tags, count, characters=40, rows_min=3)
        count = random.randint(vocabulary.size, len(texts))
        for part in ("a", "bé", "".join(random.choices("abé", k=3))):
            expected = [part in text.lower() for text in texts[:count]]
            assert found(vocabulary.words(texts, tags, count), "marks", part) == expected
        expected = ["y" in each for each in tags[:count]]
        assert found(vocabulary.words(texts, tags, count), "tagged", "y") == expected


def found(words: Iterable[Words], method: str, part: str) -> list[bool]:
    """Return the marks of all rows."""
    marks = [getattr(some, method)(part).to_bytes(some.size, "little") for some in words]
    return [bool(mark) for mark in b"".join(marks)]


def test_few_parts_are_remembered() -> None:
    piece = Piece(["a word"], [()])
    for number in range(2 * VOCABULARY_PARTS_MAX):
        assert piece.marks(f"{number}") == 0
        assert piece.marks("word") == 1
    assert len(piece._known) == VOCABULARY_PARTS_MAX
    assert "word" in piece._known


def test_each_piece_is_small_and_none_is_made_for_a_few_rows() -> None:
    texts = ["four"] * 100
    sizes, vocabulary = [], Vocabulary()
    for _ in range(5):
        vocabulary = vocabulary.grown(texts, [()] * 100, 95, characters=120, rows_min=10)
        sizes.append(vocabulary.size)
    assert sizes == [30, 60, 90, 90, 90]
    assert Vocabulary().grown(texts, [()] * 100, 2, rows_min=10).size == 2
    assert Vocabulary().grown([], [], 0).size == 0
    many = VOCABULARY_PIECE_ROWS_MAX + 5
    assert Vocabulary().grown([""] * many, [()] * many, many).size == VOCABULARY_PIECE_ROWS_MAX


def test_tags_are_found_whole() -> None:
    for kind in (Piece, PlainWords):
        words = kind(["", "", ""], [("a", "b c"), (), ("b c",)])
        assert words.tagged("b c") == marks_of([1, 0, 1])
        assert words.tagged("b") == 0

"""A vocabulary finds the same rows as a search of every text."""

from random import Random

from rote.retrieval.vocabulary import Piece, Vocabulary
from tests.lanes import examples

BREAKS = (" ", "  ", "\n", "\t", "\u00a0")


def texts_of(random: Random) -> list[str]:
    """Return texts of few letters, so that words are in words."""
    words = ["".join(random.choices("abé", k=random.randint(1, 4))) for _ in range(30)]
    return [
        "".join(random.choice(words) + random.choice(BREAKS) for _ in range(random.randrange(5)))
        for _ in range(random.randrange(60))
    ]


def test_a_part_of_a_word_is_found_in_every_text_that_has_it() -> None:
    for seed in range(examples(100, 1_000)):
        random = Random(seed)
        texts = texts_of(random)
        piece = Piece(7, texts, [()] * len(texts))
        for _ in range(10):
            part = "".join(random.choices("abé", k=random.randint(1, 4)))
            expected = bytes([part in text for text in texts])
            assert piece.marks(part, [*"1234567", *texts]) == expected


def test_a_vocabulary_that_grows_finds_the_same_in_what_it_knows() -> None:
    for seed in range(examples(50, 500)):
        random = Random(seed)
        texts = texts_of(random)
        tags = [tuple(random.sample("xyz", random.randrange(3))) for _ in texts]
        vocabulary = Vocabulary()
        for _ in range(random.randrange(20)):
            vocabulary = vocabulary.grown(
                texts, tags, random.randint(vocabulary.size, len(texts)), characters=40, rows_min=3
            )
        known = range(vocabulary.size)
        for part in ("a", "bé", "".join(random.choices("abé", k=3))):
            expected = bytes([part in texts[row] for row in known])
            assert vocabulary.marks(part, texts) == expected
        assert list(vocabulary.rows_tagged("y")) == [row for row in known if "y" in tags[row]]


def test_each_piece_is_small_and_none_is_made_for_a_few_rows() -> None:
    texts = ["four"] * 100
    sizes, vocabulary = [], Vocabulary()
    for _ in range(5):
        vocabulary = vocabulary.grown(texts, [()] * 100, 95, characters=120, rows_min=10)
        sizes.append(vocabulary.size)
    assert sizes == [30, 60, 90, 90, 90]
    assert Vocabulary().grown(texts, [()] * 100, 2, rows_min=10).size == 2
    assert Vocabulary().grown([], [], 0).size == 0


def test_tags_are_found_whole() -> None:
    piece = Piece(1, ["", "", ""], [("a", "b c"), (), ("b c",)])
    assert list(piece.rows_tagged("b c")) == [1, 3]
    assert list(piece.rows_tagged("b")) == []

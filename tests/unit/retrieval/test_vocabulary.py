"""A vocabulary finds what looking at every text finds."""

from random import Random

from rote.retrieval.vocabulary import Vocabulary, marks_of
from tests.lanes import examples

BREAKS = (" ", "  ", "\n", "\t", "\u00a0")


def texts_of(random: Random) -> list[str]:
    """Of few letters, so that words are in words."""
    words = ["".join(random.choices("abé", k=random.randint(1, 4))) for _ in range(30)]
    return [
        "".join(random.choice(words) + random.choice(BREAKS) for _ in range(random.randrange(5)))
        for _ in range(random.randrange(60))
    ]


def test_a_part_of_a_word_is_found_in_every_text_that_has_it() -> None:
    found_by_words = 0
    for seed in range(examples(100, 1_000)):
        random = Random(seed)
        texts = texts_of(random)
        vocabulary = Vocabulary(texts, [()] * len(texts))
        for _ in range(10):
            part = "".join(random.choices("abé", k=random.randint(1, 4)))
            found = vocabulary.marks(part)
            if found is not None:
                expected = bytes([part in text for text in texts])
                assert found == marks_of(expected)
                found_by_words += sum(expected) > 1
    assert found_by_words > 100


def test_tags_are_found_whole() -> None:
    vocabulary = Vocabulary(["", "", ""], [("a", "b c"), (), ("b c",)])
    assert list(vocabulary.rows_tagged("b c")) == [0, 2]
    assert list(vocabulary.rows_tagged("b")) == []

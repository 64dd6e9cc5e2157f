"""Vectors are quantised as the contract says, and compared alike with and without numpy."""

import sys
from itertools import pairwise
from math import inf, nan
from random import Random
from typing import Any

import numpy
import pytest

from rote.contract.vectors import dimension_of, is_vector
from rote.errors import InvalidInput
from rote.retrieval.embedders import Embedding
from rote.retrieval.ranking import vectors
from rote.retrieval.ranking.vectors import (
    numpy_similarities,
    plain_similarities,
    quantised,
    similarities,
)
from rote.testing.naive_vectors import naive_product, naive_vector
from tests.lanes import examples


def drawn_numbers(random: Random, dimension: int) -> list[float]:
    kind = random.randrange(5)
    if kind == 0:
        return [random.choice((-1.0, 1.0, 0.5, 0.0)) for _ in range(dimension)]
    if kind == 1:
        scale = 10.0 ** random.randrange(-165, 150)
        return [random.gauss(0, 1) * scale for _ in range(dimension)]
    return [random.gauss(0, 1) for _ in range(dimension)]


def form_of(vector: bytes) -> tuple[list[int], int]:
    numbers = [byte - 256 if byte > 127 else byte for byte in vector[:-4]]
    return numbers, int.from_bytes(vector[-4:], "big")


def test_a_vector_is_quantised_as_the_contract_says() -> None:
    random = Random(7)
    for _ in range(examples(500, 50_000)):
        numbers = drawn_numbers(random, random.choice((1, 2, 3, 16, 100)))
        made = quantised(numbers)
        assert made is not None
        assert form_of(made) == naive_vector(numbers)
        assert is_vector(made, len(numbers))


def test_a_tie_is_rounded_to_even() -> None:
    # The length is 256, so that every step is exact: 0.5, 1.5, 2.5 and 13.5.
    made = quantised([254.0, 1.0, 3.0, 5.0, 27.0, 16.0])
    assert made is not None
    assert form_of(made) == ([127, 0, 2, 2, 14, 8], 254 * 256)


@pytest.mark.parametrize("numbers", [[1e155], [1.7e308, 1.7e308], [1e154] * 4_096])
def test_a_length_beyond_all_bounds_is_no_vector(numbers: list[float]) -> None:
    assert quantised(numbers) is None


@pytest.mark.parametrize("numbers", [[0.0, 0.0], [1e-200, -1e-200], [-0.0, 5e-324]])
def test_a_length_of_nothing_is_a_vector_of_zeros(numbers: list[float]) -> None:
    assert quantised(numbers) == bytes(6)


def extremes(random: Random, dimension: int, count: int) -> list[bytes]:
    """Return vectors whose products are as great, and as near to nothing, as they can be."""
    found = []
    for _ in range(count):
        numbers = [random.choice((127, -127, 127, 126, 1, 0)) for _ in range(dimension)]
        if random.random() < 0.5:
            numbers = [127] * dimension
        scale = random.choice((1, 1_024, 65_536, 131_072))
        found.append(bytes(number & 255 for number in numbers) + scale.to_bytes(4, "big"))
    return found


@pytest.mark.parametrize("dimension", [1, 2, 384, 1_040, 1_041, 4_096])
def test_products_are_the_same_whole_numbers_on_every_path(dimension: int) -> None:
    random = Random(dimension)
    for count in (0, 1, 3, 1_025 if dimension < 10 else 30):
        some = extremes(random, dimension, count)
        query = extremes(random, dimension, 1)[0]
        expected = [
            max(0, naive_product(form_of(query)[0], form_of(vector)[0])) * form_of(vector)[1]
            for vector in some
        ]
        assert plain_similarities(query, some) == expected
        assert numpy_similarities(numpy, query, some) == expected
        assert similarities(query, some) == expected


def test_without_numpy_the_products_are_made_in_plain_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    monkeypatch.setattr(vectors, "numpy_similarities", None)
    vectors._numpy.cache_clear()
    try:
        query = bytes([127, 1]) + (9).to_bytes(4, "big")
        assert similarities(query, [query]) == [(127 * 127 + 1) * 9]
    finally:
        vectors._numpy.cache_clear()


# -- what an embedder is, and what it says ---------------------------------------------------------


class Said:
    """An embedder that says what it is told to."""

    name, version, dimension = "said", "1", 2

    def __init__(self, answer: Any, **members: Any) -> None:
        self.answer = answer
        for name, value in members.items():
            setattr(self, name, value)

    def embed(self, texts: Any) -> Any:
        return self.answer(texts) if callable(self.answer) else self.answer


@pytest.mark.parametrize(
    "answer",
    [
        None, 5, "ab", b"ab", {}, [], [[1, 2], [1, 2]], [[1]], [[1, 2, 3]], [None], ["ab"], [b"ab"],
        [[1, nan]], [[1, inf]], [[-inf, 1]], [[True, 1]], [[1, "2"]], [[1, None]], [[1, 1j]],
        [[10**400, 1]], [[1e200, 1e200]], [{1: 1, 2: 2}], [[[1], [2]]], numpy.zeros((1, 3)),
        numpy.zeros(2), numpy.zeros((2, 2)), numpy.array([["a", "b"]]), numpy.array([[True, False]]),
        [[numpy.bool_(True), 1]], numpy.array(5.0), numpy.array([[nan, 1]], numpy.float32),
    ],
)  # fmt: skip
def test_what_is_no_vector_for_each_text_is_refused(answer: Any) -> None:
    embedding = Embedding(Said(answer))
    with pytest.raises(InvalidInput) as caught:
        embedding.vectors(["text"])
    assert caught.value.code == "invalid_embedding"
    with pytest.raises(InvalidInput) as caught:
        embedding.query_vector("text")
    assert caught.value.code == "invalid_embedding"


@pytest.mark.parametrize("answer", [None, 5, "ab", [], [1], [1, nan], [True, 1], [[1, 2]]])
def test_what_is_no_vector_for_a_question_is_refused(answer: Any) -> None:
    asking = Embedding(Said([[1, 2]], embed_query=lambda text: answer))
    with pytest.raises(InvalidInput) as caught:
        asking.query_vector("text")
    assert caught.value.code == "invalid_embedding"


@pytest.mark.parametrize(
    "answer",
    [
        [[3, 4]], ((3, 4),), iter([iter([3, 4])]), [numpy.array([3, 4])], numpy.array([[3.0, 4.0]]),
        numpy.array([[3, 4]], numpy.float32), [[numpy.float32(3), numpy.int8(4)]],
    ],
)  # fmt: skip
def test_lists_tuples_iterators_and_arrays_are_vectors(answer: Any) -> None:
    assert Embedding(Said(answer)).vectors(["text"]) == [quantised([3.0, 4.0])]


def test_an_endless_answer_ends() -> None:
    def forever(texts: Any) -> Any:
        while True:
            yield [1, 2]

    with pytest.raises(InvalidInput):
        Embedding(Said(forever)).vectors(["text"])


@pytest.mark.parametrize(
    "members",
    [
        {"name": ""}, {"name": None}, {"name": 5}, {"name": "a@b"}, {"name": "a b"}, {"name": "a\n"},
        {"name": "\x00"}, {"name": "\ud800"}, {"name": "x" * 600}, {"version": ""},
        {"version": "1@2"}, {"version": " 1"}, {"version": 1}, {"dimension": 0}, {"dimension": -1},
        {"dimension": 4_097}, {"dimension": True}, {"dimension": 2.0}, {"dimension": "2"},
        {"dimension": None}, {"embed": None}, {"embed": "embed"},
    ],
)  # fmt: skip
def test_what_is_no_embedder_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        Embedding(Said([[1, 2]], **members))
    assert caught.value.code == "invalid_embedding"
    with pytest.raises(InvalidInput):
        Embedding(object())


def test_the_name_of_vectors_tells_their_dimension() -> None:
    assert dimension_of("vectors/org/model@1.5/v2/384") == 384
    names = [
        "vectors/a@1/0", "vectors/a@1/4097", "vectors/a@1/012", "vectors/a@1/", "vectors/a@1",
        "vectors/a/384", "a@1/384", "vectors/a@1@2/3", "vectors/a b@1/3", "vectors/@1/3", "", 5, None,
        "vectors/a@1/3\n", "vectors/" + "a" * 512 + "@1/3",
    ]  # fmt: skip
    for name in names:
        with pytest.raises(InvalidInput):
            dimension_of(name)


def test_bytes_that_no_embedder_can_say_are_no_vector() -> None:
    good = quantised([3.0, 4.0, 0.0]) or b""
    assert is_vector(good, 3)
    scale = good[3:]
    bad = [
        b"", good[:-1], good + b"\0", good[:3] + bytes(4), bytes(3) + scale, b"\x80\x7f\0" + scale,
        b"\x40\x20\0" + scale, good[:3] + b"\xff" * 4,
    ]  # fmt: skip
    assert not any(is_vector(each, 3) for each in bad)
    assert all(left != right for left, right in pairwise(bad))
    assert is_vector(bytes(7), 3)

"""The arithmetic of ranking gives the numbers of its contract."""

from math import log2
from pathlib import Path

import orjson
import pytest

from rote.retrieval.ranking.weights import idf, log2_16, recency, score, weight

GOLDEN = Path(__file__).parents[3] / "golden" / "ranking"
DAY = 86_400_000_000


def test_every_logarithm_of_the_contract() -> None:
    rows = orjson.loads((GOLDEN / "logs.json").read_bytes())
    assert len(rows) == 10
    for row in rows:
        assert log2_16(row["p"], row["q"]) == row["log2_16"], row


@pytest.mark.parametrize(("p", "q"), [(1, 1), (3, 2), (10**12, 7), (2**63, 2**62), (10**30, 3)])
def test_a_logarithm_is_never_too_large_and_hardly_too_small(p: int, q: int) -> None:
    assert 0 <= log2(p / q) * 65_536 - log2_16(p, q) < 2


def test_a_term_in_every_memory_still_counts_a_little() -> None:
    assert idf(100, 100) == log2_16(202, 201) > 0
    assert idf(100, 1) > idf(100, 2)


def test_a_weight_is_that_of_bm25() -> None:
    frequency, length, average = 3, 40, 50
    bm25 = frequency * 2.2 / (frequency + 1.2 * (0.6 + 0.4 * length / average))
    assert weight(frequency, length, average) == int(bm25 * 65_536)
    assert weight(0, length, average) == 0
    assert weight(256, 1, 1) == weight(255, 1, 1)


def test_a_score_is_in_millionths() -> None:
    assert score((1 << 16) * 10 * (1 << 16)) == 1_000_000


def test_recency_halves_with_each_half_life_and_ends() -> None:
    assert recency(-5, 30) == recency(0, 30) == 1_000_000
    assert recency(30 * DAY, 30) == 500_000
    assert recency(45 * DAY, 30) == 375_000
    assert recency(16 * 30 * DAY, 30) == 15
    assert recency(17 * 30 * DAY, 30) == 0

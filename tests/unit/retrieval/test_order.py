"""The order of memories without a score: changed step by step, it equals the one made anew."""

from random import Random

import pytest

from rote.retrieval import order
from rote.retrieval.corpus import Corpus, Simple
from rote.retrieval.order import encoded, order_of
from tests.lanes import examples

REASON = "budget_exhausted"


def add(corpus: Corpus, random: Random, count: int) -> range:
    """Add new rows, whose times are often equal; return them."""
    start = corpus.row_count
    days = [random.randint(1, 9) for _ in range(count)]
    corpus.extend(
        "s",
        [
            Simple(memory_id=f"m{start + number}", text="text", ts_utc=f"2026-01-0{day}")
            for number, day in enumerate(days)
        ],
    )
    return range(start, corpus.row_count)


def test_an_order_that_was_changed_is_the_one_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "_BLOCK_ROWS", 3)
    for seed in range(examples(40, 400)):
        random = Random(seed)
        corpus = Corpus()
        there = set(add(corpus, random, random.randrange(12)))
        changed = order_of(sorted(there, key=corpus.rank_key), corpus.row_count)
        for _ in range(8):
            gone = set(random.sample(sorted(there), random.randint(0, len(there))))
            added = add(corpus, random, random.randrange(6))
            changed = changed.changed(corpus, gone=gone, added=added)
            there = there - gone | set(added)
            expected = sorted(there, key=corpus.rank_key)
            assert list(changed) == expected
            others = random.sample(expected, random.randint(0, len(expected)))
            for rows in (expected, others):
                pieces = encoded(corpus.drops(rows, REASON))
                assert b"".join(changed.encoded(rows, REASON, corpus)) == b"".join(pieces)
            for share in (0.05, 0.9):
                cells = bytearray(corpus.row_count)
                for row in there:
                    cells[row] = random.random() < share
                arranged = b"".join(changed.arranged(cells))
                assert arranged == bytes(cells[row] for row in expected)

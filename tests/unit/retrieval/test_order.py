"""The order of memories without a score: changed step by step, it equals the one made anew."""

from array import array
from random import Random

from rote.retrieval.corpus import Corpus, Simple
from rote.retrieval.order import EncodedDrops, change_order, encoded, tied
from tests.lanes import examples

REASONS = ("budget_exhausted", "max_items_reached")


def add(corpus: Corpus, random: Random, count: int, path: str = "s") -> range:
    """Add new rows, whose times and ids are often equal; return them."""
    start = corpus.row_count
    corpus.extend(
        path,
        [
            Simple(
                memory_id=f"m{random.randrange(20)}",
                text=f"text {random.randrange(2)}",
                ts_utc=random.choice([None, "2026-01-01", "2026-01-02", f"2026-02-{10 + number}"]),
            )
            for number in range(count)
        ],
    )
    return range(start, corpus.row_count)


def test_rows_are_in_order_whatever_is_equal_in_them() -> None:
    for seed in range(examples(100, 1_000)):
        random = Random(seed)
        corpus = Corpus()
        for _ in range(random.randrange(4)):
            add(corpus, random, random.randrange(12), random.choice("ab"))
        keys = [corpus.rank_key(row) for row in corpus.order]
        assert sorted(corpus.order) == list(corpus.rows())
        assert keys == sorted(keys)


def test_an_order_that_was_changed_is_the_one_made_anew() -> None:
    for seed in range(examples(40, 400)):
        random = Random(seed)
        corpus, drops = Corpus(), EncodedDrops()
        there = set(add(corpus, random, random.randrange(12)))
        changed = array("I", sorted(there, key=corpus.rank_key))
        for _ in range(8):
            gone = set(random.sample(sorted(there), random.randint(0, len(there))))
            added = add(corpus, random, random.randrange(6))
            before = changed[:]
            after = change_order(changed, corpus, gone=gone, added=added)
            assert changed == before, "others still use it"
            changed, there = after, there - gone | set(added)
            assert set(changed) == there
            keys = [corpus.rank_key(row) for row in changed]
            assert keys == sorted(keys)
            rows, reason = random.sample(changed, len(changed)), random.choice(REASONS)
            expected = encoded(corpus.drops(rows, reason))
            assert b"".join(drops.of(rows, reason, corpus)) == expected


def test_places_of_equal_neighbours_are_found() -> None:
    assert tied([]) == tied([7]) == tied([9, 8, 7]) == []
    assert tied([9, 9, 8, 7, 7, 7]) == [0, 1, 3, 4, 5]

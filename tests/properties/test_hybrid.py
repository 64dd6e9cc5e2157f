"""hybrid-1 equals its plain reference, for any stores, any question, any embedder and any cache."""

from collections import Counter
from pathlib import Path
from typing import Any

import rote
from rote.engines.sqlite import SqliteEngine
from rote.opening.keys import MemoryKeys
from rote.retrieval import explain
from rote.retrieval.cache import CORPORA
from rote.retrieval.vector_cache import VECTORS
from rote.testing import StoreSettings, open_on
from rote.testing.clocks import FixedClock
from rote.testing.naive_ranking import REASONS, naive_rank
from rote.testing.ranking_draws import AskingEmbedder, RankedMemories, ToyCounter, ToyEmbedder
from rote.testing.ranking_histories import HybridHistory
from rote.values import canonical
from tests.lanes import SLOW, examples

STEPS = 60
# Of a hundred questions at least so many must have met each of these. Nearly everything is similar
# to something, so that few memories match nothing.
MET_MIN = {
    **dict.fromkeys(REASONS, 2), "lent": 5, "tie": 1, "recency": 3, "selected": 35, "two stores": 3,
    "by words alone": 3, "by vectors alone": 7, "by neither": 1,
}  # fmt: skip


def test_a_package_is_what_the_plain_reference_makes(tmp_path: Path) -> None:
    first = 0 if not SLOW else 2_000_000
    met: Counter[str] = Counter()
    count = examples(100, 10_000)
    for seed in range(first, first + count):
        root = tmp_path / str(seed)
        root.mkdir()
        draws = RankedMemories(seed)
        request = {**draws.case(root), "policy": "hybrid-1"}
        counter = ToyCounter(draws.random) if draws.chance(0.2) else None
        embedder = draws.random.choice((ToyEmbedder, AskingEmbedder))(draws.random)
        expected = naive_rank(request, root, embedder=embedder, count_tokens=counter)
        kept = root / "kept"
        given: dict[str, Any] = {"root": root, "count_tokens": counter, "embedder": embedder}
        for how, cache in (("cold", None), ("to a file", kept), ("from a file", kept)):
            CORPORA.forget(lambda place: True)
            VECTORS.begin()
            embedder.asked.clear()
            found = rote.retrieve(request, **given, cache=cache, dropped="full")
            assert found == expected, f"{seed}, {how}"
        assert canonical(found) == canonical(expected)
        assert set(embedder.asked) <= {request["query"]}, "all vectors were in the file"
        counted, reasons = explain(request, **{**given, "dropped": None})
        assert counted["package_hash"] == expected["package_hash"], f"{seed}, warm"
        assert set(embedder.asked) <= {request["query"]}
        met += _met(expected, [bool(reason.terms) for reason in reasons])
    for what, least in MET_MIN.items():
        assert met[what] * 100 >= least * count, (what, met[what])


# The same for the questions of histories.
MET_IN_HISTORIES_MIN = {
    "entry": 10, "branch": 10, "old version": 3, "trust_denied": 1, "filtered": 5, "duplicate": 1,
    "max_items_reached": 3, "budget_exhausted": 3, "below_min_score": 1,
}  # fmt: skip


def test_a_state_answers_as_its_memories_in_a_file_do(tmp_path: Path) -> None:
    met: Counter[str] = Counter()
    for seed in range(examples(3, 250)):
        clock = FixedClock()
        settings = StoreSettings(clock=clock, content_rules=())
        with open_on(SqliteEngine(None), settings, keys=MemoryKeys()) as store:
            history = HybridHistory(store, clock, tmp_path, seed)
            history.run(STEPS)
            met += history.met
    for what, least in MET_IN_HISTORIES_MIN.items():
        assert met[what] * 100 >= least * met["asked"], (what, met)


def _met(package: dict[str, Any], have_terms: list[bool]) -> Counter[str]:
    selected = package["selection"]["selected"]
    scores = [item["score"] for item in selected]
    return Counter(
        {
            **dict.fromkeys({str(drop["reason"]) for drop in package["selection"]["dropped"]}, 1),
            "tie": int(len(set(scores)) < len(scores)),
            "recency": int(package["policy"]["recency"] is not None and bool(selected)),
            "selected": int(bool(selected)),
            "two stores": int(len({item["store_path"] for item in selected}) > 1),
            "lent": int(any(0 < score < 0.5 for score in scores)),
            "by words alone": int(max(scores, default=0) == 0.5 and have_terms[0]),
            "by vectors alone": int(not all(have_terms)),
            "by neither": int(not selected and bool(package["stores"][0]["memories"])),
        }
    )

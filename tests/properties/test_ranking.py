"""lexical-1 equals its plain reference, for any stores, any question and any cache."""

from collections import Counter
from pathlib import Path

import rote
from rote.retrieval import explain
from rote.retrieval.cache import CORPORA
from rote.testing.naive_excerpts import naive_package_text
from rote.testing.naive_ranking import REASONS, naive_rank
from rote.testing.ranking_draws import RankedMemories, ToyCounter
from rote.values import canonical
from tests.lanes import SLOW, examples

# Of a hundred questions at least so many must have met each of these.
MET_MIN = {
    **dict.fromkeys(REASONS, 2), "lent": 5, "cut": 5, "tie": 3, "recency": 5, "selected": 35,
    "counter": 5, "two stores": 5,
}  # fmt: skip


def test_a_package_is_what_the_plain_reference_makes(tmp_path: Path) -> None:
    first = 0 if not SLOW else 1_000_000
    kept = tmp_path / "kept"
    met: Counter[str] = Counter()
    count = examples(200, 20_000)
    for seed in range(first, first + count):
        root = tmp_path / str(seed)
        root.mkdir()
        draws = RankedMemories(seed)
        request = draws.case(root)
        counter = ToyCounter(draws.random) if draws.chance(0.2) else None
        expected = naive_rank(request, root, count_tokens=counter)
        for how, cache in (("cold", None), ("to a sidecar", kept), ("from a sidecar", kept)):
            CORPORA.forget(lambda place: True)
            found = rote.retrieve(
                request, root=root, cache=cache, count_tokens=counter, dropped="full"
            )
            assert found == expected, f"{seed}, {how}"
        assert canonical(found) == canonical(expected)
        counted = rote.retrieve(request, root=root, count_tokens=counter)
        assert counted["package_hash"] == expected["package_hash"], f"{seed}, warm"
        assert "dropped" not in counted["selection"]
        for style in ("tags", "plain"):
            for order in ("rank", "time"):
                text = rote.package_text(found, style=style, order=order)
                assert text == naive_package_text(expected, style, order), f"{seed}, {style}"
        _, reasons = explain(request, root=root, count_tokens=counter)
        met["lent"] += any(not reason.terms for reason in reasons)
        met += _met(expected, counter is not None)
    for what, least in MET_MIN.items():
        assert met[what] * 100 >= least * count, (what, met[what])


def _met(package: dict[str, object], has_counter: bool) -> Counter[str]:
    selection: dict[str, list[dict[str, object]]] = package["selection"]  # type: ignore[assignment]
    policy: dict[str, object] = package["policy"]  # type: ignore[assignment]
    selected = selection["selected"]
    scores = [item["score"] for item in selected]
    return Counter(
        {
            **dict.fromkeys({str(drop["reason"]) for drop in selection["dropped"]}, 1),
            "cut": int(any(item["excerpt_start"] for item in selected)),
            "tie": int(len(set(scores)) < len(scores)),
            "recency": int(policy["recency"] is not None and bool(selected)),
            "selected": int(bool(selected)),
            "counter": int(has_counter and bool(selected)),
            "two stores": int(len({item["store_path"] for item in selected}) > 1),
        }
    )

"""Retrieval equals its plain reference, for any stores, any question and any cache."""

from pathlib import Path

import pytest

import rote
from rote.retrieval import vocabulary
from rote.retrieval.cache import CORPORA
from rote.retrieval.corpus import Corpus
from rote.testing.naive_retrieval import naive_retrieve
from rote.testing.retrieval_draws import Memories
from tests.lanes import SLOW, examples


def test_a_package_is_what_the_plain_reference_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few texts are searched together, and those of every other case are listed at once."""
    monkeypatch.setattr(vocabulary, "_PLAIN_ROWS", 3)
    first = 0 if not SLOW else 1_000_000
    kept = tmp_path / "kept"
    for seed in range(first, first + examples(200, 2_000)):
        root = tmp_path / str(seed)
        root.mkdir()
        monkeypatch.setattr(Corpus, "looked_for_min", 0 if seed % 2 else 1_000)
        request = Memories(seed).case(root)
        expected = naive_retrieve(request, root)
        for how, cache in (("cold", None), ("to a sidecar", kept), ("from a sidecar", kept)):
            CORPORA.forget(lambda place: True)
            assert rote.retrieve(request, root=root, cache=cache) == expected, f"{seed}, {how}"
        assert rote.retrieve(request, root=root) == expected, f"{seed}, warm"
        counted = rote.retrieve(request, root=root, dropped="counts")
        assert counted["package_hash"] == expected["package_hash"], f"seed {seed}"
        told = sum(counted["selection"]["dropped_counts"].values())
        assert told == len(expected["selection"]["dropped"]), f"seed {seed}"

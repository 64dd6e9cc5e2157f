"""Retrieval equals its plain reference, whatever the stores hold and the question asks."""

from pathlib import Path

import rote
from rote.testing.naive_retrieval import naive_retrieve
from rote.testing.retrieval_draws import Memories
from tests.lanes import SLOW, examples


def test_a_package_is_what_the_plain_reference_makes(tmp_path: Path) -> None:
    first = 0 if not SLOW else 1_000_000
    for seed in range(first, first + examples(250, 2_000)):
        root = tmp_path / str(seed)
        root.mkdir()
        request = Memories(seed).case(root)
        expected = naive_retrieve(request, root)
        found = rote.retrieve(request, root=root)
        assert found == expected, f"seed {seed}"
        counted = rote.retrieve(request, root=root, dropped="counts")
        assert counted["package_hash"] == expected["package_hash"], f"seed {seed}"
        told = sum(counted["selection"]["dropped_counts"].values())
        assert told == len(expected["selection"]["dropped"]), f"seed {seed}"

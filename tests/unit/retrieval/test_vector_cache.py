"""Vectors that the process keeps are of one open store, and go with its texts."""

from collections.abc import Sequence

import pytest

import rote
from rote import Memory
from rote.contract import OpenStore
from rote.retrieval import vector_homes
from rote.retrieval.vector_cache import SpaceVectors, VectorCache


class Lengths:
    """An embedder that notes the texts that it was asked for."""

    name, version, dimension = "lengths", "1", 2

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        self.asked += texts
        return [[len(text), 1.0] for text in texts]


def test_a_store_forgets_its_own() -> None:
    cache, one, other = VectorCache(), OpenStore(), OpenStore()
    places = [SpaceVectors(store, did, "v") for store in (one, other) for did in "ab"]
    for place in (*places, ("a file", "v")):
        cache.put(place, {b"hash": b"vector"})
    cache.forget(one, "a")
    assert [bool(cache.get(place)) for place in places] == [False, True, True, True]
    cache.forget(other, None)
    assert [bool(cache.get(place)) for place in places] == [False, True, False, False]
    assert cache.get(("a file", "v"))


def test_vectors_of_what_was_erased_meanwhile_are_not_kept() -> None:
    cache = VectorCache()
    cache.put("place", {b"hash": b"vector"}, lambda: False)
    assert not cache.get("place")


def test_no_vector_outlives_its_text_or_its_store(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, embedder = VectorCache(), Lengths()
    monkeypatch.setattr(vector_homes, "VECTORS", cache)
    with rote.open(":memory:") as store:
        space = store.space("n")
        memory = Memory(space)
        for number in range(3):
            memory.put("ops", "note", str(number), {"text": f"text {number}"})
        memory.embed(embedder)
        place = SpaceVectors(space.open_store, space.did, "vectors/lengths@1/2")
        assert len(cache.get(place)) == 3
        memory.erase("ops", "note", "1", reason="asked to")
        assert not cache.get(place)
        memory.embed(embedder)
        assert len(cache.get(place)) == 2
        assert len(embedder.asked) == 3
    assert not cache.get(place)

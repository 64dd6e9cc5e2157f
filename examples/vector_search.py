"""A vector search that answers in another order every time, made to answer always in the same order.

Run it: python examples/vector_search.py. It needs nothing but Rote: vectors are counts of letter pairs,
and the index is a few random planes; it finds records whose vectors lie on the same sides of them.
"""

import random
from collections import Counter
from itertools import pairwise
from math import sqrt

from rote import canonical
from rote.retrieval import ApproximateBackend, Filter

NOTES = {
    "keys": "Rotate the deploy keys every 90 days.",
    "keys-copy": "Rotate the deploy keys every 90 days.",
    "friday": "Never deploy on a Friday.",
    "plant": "The office plant is called Bob.",
    "old": "Deploy keys live on a floppy disk.",
}
PLANES = 4


def vector_of(text: str) -> Counter[str]:
    letters = text.lower()
    return Counter(a + b for a, b in pairwise(letters))


def similarity(left: Counter[str], right: Counter[str]) -> float:
    norms = sqrt(sum(n * n for n in left.values()) * sum(n * n for n in right.values()))
    return sum(count * right[pair] for pair, count in left.items()) / norms if norms else 0.0


class PlaneIndex:
    """An index that finds vectors on the same sides of most planes; its answers have no order."""

    def __init__(self, notes: dict[str, str], shuffle: random.Random) -> None:
        planes = random.Random(7)  # the index itself is the same in every run
        pairs = sorted({pair for text in notes.values() for pair in vector_of(text)})
        self.planes = [{pair: planes.gauss(0, 1) for pair in pairs} for _ in range(PLANES)]
        self.notes = {id: vector_of(text) for id, text in notes.items()}
        self.shuffle = shuffle

    def search(self, query: str, count: int) -> list[tuple[str, float]]:
        asked = vector_of(query)
        sides = self.sides(asked)
        near = [
            (id, similarity(asked, vector))
            for id, vector in self.notes.items()
            if sum(a == b for a, b in zip(self.sides(vector), sides, strict=True)) * 2 >= PLANES
        ]
        near += near[:1]  # some backends repeat themselves
        self.shuffle.shuffle(near)
        return near[: count + 1]

    def sides(self, vector: Counter[str]) -> list[bool]:
        return [
            sum(plane.get(pair, 0.0) * count for pair, count in vector.items()) > 0
            for plane in self.planes
        ]


def main() -> None:
    events = set()
    trusted = Filter({"deny": ["old"]}, lambda record_id: record_id != "old")
    for seed in range(20):
        index = PlaneIndex(NOTES, random.Random(seed))
        backend = ApproximateBackend(
            index.search, policy_id="example.planes", policy_version="1", record_type="note"
        )
        answer = backend.retrieve("deploy keys", limit=3, filters={"trust": trusted})
        events.add(
            canonical(answer.event(run_id="r", event_id="e", retrieval_event_id="q")).decode()
        )
    for hit in answer.hits:
        print(f"{hit.rank}  {hit.score:.3f}  {hit.record_id}")
    print(f"20 shuffled searches, {len(events)} answer")


if __name__ == "__main__":
    main()

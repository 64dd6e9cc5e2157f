"""An embedder that needs no model and no download: it hashes the pieces of words.

Words that share pieces (deploy, deploys, redeployed) have similar vectors, so a question also finds
what was written with other forms, or with a typing error. It knows no meanings: "car" and "vehicle"
share nothing. For that, plug in a model; docs/embedders.md says how.

    rote retrieve question.json --policy hybrid-1 --embedder hashing_embedder:HashingEmbedder

Run it: python examples/hashing_embedder.py
"""

import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from zlib import crc32

import rote

NOTES = {
    "keys": "Redeployments need signatures.",
    "friday": "Nobody works on Friday afternoons.",
    "plant": "The office plant is called Bob.",
}
SHORTEST = 4  # shorter words are nearly all like "the" and "was"
QUESTION = "Who signs what we deploy?"


class HashingEmbedder:
    """Each piece of a word adds to one of the numbers, or takes away from it."""

    name = "hashing-pieces"
    version = "1"  # another way to cut or to weigh is another version

    def __init__(self, dimension: int = 512) -> None:
        self.dimension = dimension

    def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self.dimension
        for word, count in Counter(re.findall(r"\w+", text.lower())).items():
            if len(word) < SHORTEST:
                continue
            pieces = pieces_of(word)
            for piece in pieces:
                hash = crc32(piece.encode())
                sign = 1 if hash & 1 else -1
                vector[(hash >> 1) % self.dimension] += sign * sqrt(count / len(pieces))
        return vector


def pieces_of(word: str) -> list[str]:
    """Return the word itself, and all its parts of three and four letters with its ends marked."""
    marked = f"<{word}>"
    parts = [
        marked[start : start + size] for size in (3, 4) for start in range(len(marked) - size + 1)
    ]
    return [marked, *parts]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, rote.open(Path(folder) / "memory.db") as store:
        memory = rote.Memory(store.space("team"))
        for id, text in NOTES.items():
            memory.put("long_term", "note", id, {"text": text})
        embedder = HashingEmbedder()
        print(memory.embed(embedder))
        asked = {
            "query": QUESTION,
            "store_paths": ["rote:team"],
            "budget": {"max_excerpt_tokens": 100},
        }
        for policy in ("lexical-1", "hybrid-1"):
            given = embedder if policy == "hybrid-1" else None
            package = rote.retrieve({**asked, "policy": policy}, store=store, embedder=given)
            found = [item["memory_id"] for item in package["selection"]["selected"]]
            print(f"{policy}: {found}")


if __name__ == "__main__":
    main()

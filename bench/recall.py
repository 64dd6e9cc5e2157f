"""The share of the evidence that an answer brings: how well a policy finds, not how fast.

The development set has 500 memories in 50 conversations, and 150 questions with the memories that
answer them. The raw side is SQLite's full-text search with stems over the same texts: its best
matches, whole, as long as they fit into the same tokens. A ratio is the share itself.
"""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import orjson

import rote
from bench.harness import Benchmark, Effort, Result
from examples.hashing_embedder import HashingEmbedder
from rote.retrieval.ranking.excerpts import utf8_4
from rote.values.limits import MISFITS_MAX

FOLDER = Path(__file__).parents[1] / "tests" / "golden" / "ranking" / "dev"
MEMORIES = "memories.jsonl"
ITEMS_MAX = 200
EMBEDDER = HashingEmbedder()

Answer = Callable[[str, int], set[str]]  # a question and its tokens: ids of memories


def recall(effort: Effort, *, tokens: int, policy: str, scoring: dict[str, Any]) -> Result:
    """Compare a policy with SQLite's full-text search."""
    raw = share_of(FullText().answer, tokens)
    share = share_of(partial(answer, policy=policy, scoring=scoring), tokens)
    return Result(raw, share, "", share, share, share, decimals=4)


def share_of(answer: Answer, tokens: int) -> float:
    """Return the share of the evidence that answers bring, as a mean over all questions."""
    shares = []
    for line in (FOLDER / "questions.jsonl").read_bytes().splitlines():
        asked = orjson.loads(line)
        evidence = set(asked["evidence"])
        shares.append(len(evidence & answer(asked["question"], tokens)) / len(evidence))
    return sum(shares) / len(shares)


def answer(question: str, tokens: int, *, policy: str, scoring: dict[str, Any]) -> set[str]:
    request = {
        "policy": policy,
        "query": question,
        "store_paths": [MEMORIES],
        "budget": {"max_excerpt_tokens": tokens, "max_items": ITEMS_MAX},
        "scoring": scoring,
    }
    embedder = EMBEDDER if policy == "hybrid-1" else None
    package = rote.retrieve(request, root=FOLDER, dropped="counts", embedder=embedder)
    return {item["memory_id"] for item in package["selection"]["selected"]}


class FullText:
    """SQLite's FTS5 with Porter's stems; a question is any of its words."""

    def __init__(self) -> None:
        memories = map(orjson.loads, (FOLDER / MEMORIES).read_bytes().splitlines())
        self._database = apsw.Connection(":memory:")
        self._database.execute(
            "CREATE VIRTUAL TABLE texts USING fts5(id UNINDEXED, text, tokenize=porter)"
        )
        self._database.executemany(
            "INSERT INTO texts VALUES (?, ?)",
            [(each["memory_id"], each["text"]) for each in memories],
        )

    def answer(self, question: str, tokens: int) -> set[str]:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        rows = self._database.execute(
            "SELECT id, text FROM texts WHERE texts MATCH ? ORDER BY rank, rowid", (words,)
        )
        found: set[str] = set()
        misfits = 0
        for id, text in rows:
            size = utf8_4(str(text))
            if size <= tokens:
                tokens -= size
                found.add(str(id))
            else:
                misfits += 1
            if misfits == MISFITS_MAX or len(found) == ITEMS_MAX:
                break
        return found


# Shares at 50, 100 and 250 tokens: as the contract's own program found them, and those of hybrid-1
# with an embedder that knows no meanings.
FIGURES: dict[str, tuple[str, dict[str, Any], tuple[float, float, float]]] = {
    "phase6": ("phase6-v1", {}, (0.13, 0.22, 0.35)),
    "lexical-alone": ("lexical-1", {"context": False}, (0.46, 0.55, 0.67)),
    "lexical": ("lexical-1", {}, (0.5733, 0.7833, 0.9066)),
    "hybrid": ("hybrid-1", {}, (0.53, 0.69, 0.93)),
}
BENCHMARKS = [
    Benchmark(
        f"recall/{name}-{tokens}",
        f"share of the evidence in {tokens} tokens, {name}; raw: FTS5",
        figure,
        1,
        partial(recall, tokens=tokens, policy=policy, scoring=scoring),
    )
    for name, (policy, scoring, figures) in FIGURES.items()
    for tokens, figure in zip((50, 100, 250), figures, strict=True)
]

"""A retrieval with an embedder: when it is asked, how often, and what it may not do."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.errors import InvalidInput
from rote.retrieval.vector_cache import VECTORS

ASKED: dict[str, Any] = {
    "policy": "hybrid-1",
    "query": "plan",
    "store_paths": ["notes.jsonl"],
    "budget": {"max_excerpt_tokens": 1_000},
}


class Lengths:
    """An embedder that knows how long a text is, and counts its calls."""

    name, version, dimension = "lengths", "1", 2

    def __init__(self) -> None:
        self.calls: list[int] = []

    def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        self.calls.append(len(texts))
        return [[len(text), 1.0] for text in texts]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    lines = [{"memory_id": f"{number}", "text": f"plan {number % 150}"} for number in range(300)]
    (tmp_path / "notes.jsonl").write_bytes(b"\n".join(map(rote.canonical, lines)))
    return tmp_path


def test_distinct_texts_are_embedded_64_at_a_time_and_once(root: Path) -> None:
    embedder = Lengths()
    first = rote.retrieve(ASKED, root=root, embedder=embedder)
    assert embedder.calls == [1, 64, 64, 22]
    assert rote.retrieve(ASKED, root=root, embedder=embedder) == first
    assert embedder.calls[4:] == [1]
    with (root / "notes.jsonl").open("ab") as file:
        file.write(b'\n{"memory_id":"new","text":"plan new"}')
    rote.retrieve(ASKED, root=root, embedder=embedder)
    assert embedder.calls[5:] == [1, 1]


def test_a_narrow_question_forgets_no_vector(root: Path) -> None:
    embedder = Lengths()
    rote.retrieve(ASKED, root=root, embedder=embedder)
    none = rote.retrieve({**ASKED, "filters": {"kinds": ["x"]}}, root=root, embedder=embedder)
    assert none["selection"]["selected"] == []
    assert none["policy"]["embedder"]["query_vector"]
    rote.retrieve(ASKED, root=root, embedder=embedder)
    assert embedder.calls[4:] == [1, 1]


def test_hybrid_1_needs_an_embedder_and_the_others_take_none(root: Path) -> None:
    with pytest.raises(InvalidInput, match="embedder=") as caught:
        rote.retrieve(ASKED, root=root)
    assert caught.value.code == "invalid_policy"
    for policy in ("lexical-1", None):
        with pytest.raises(InvalidInput, match="leave embedder out"):
            rote.retrieve({**ASKED, "policy": policy}, root=root, embedder=Lengths())
    with pytest.raises(InvalidInput) as caught:
        rote.retrieve(ASKED, root=root, embedder=object())  # type: ignore[arg-type]
    assert caught.value.code == "invalid_embedding"


class Failing(Lengths):
    def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        if len(self.calls) == 2:
            raise ConnectionError("no line")
        return super().embed(texts)


def test_what_an_embedder_raises_comes_through_and_its_work_is_kept(root: Path) -> None:
    VECTORS.begin()
    with pytest.raises(ConnectionError, match="no line"):
        rote.retrieve(ASKED, root=root, embedder=Failing())
    after = Lengths()
    rote.retrieve(ASKED, root=root, embedder=after)
    assert after.calls == [1, 64, 22]


def test_nothing_loads_numpy_before_vectors_are_compared_and_nothing_needs_it(root: Path) -> None:
    program = """
import sys, rote
request = {"policy": "lexical-1", "query": "plan", "store_paths": ["notes.jsonl"],
           "budget": {"max_excerpt_tokens": 100}}
rote.retrieve(request)
assert "numpy" not in sys.modules
sys.modules["numpy"] = None  # importing it fails now
class Embedder:
    name, version, dimension = "lengths", "1", 2
    def embed(self, texts):
        return [[len(text), 1.0] for text in texts]
print(rote.retrieve({**request, "policy": "hybrid-1"}, embedder=Embedder())["package_hash"])
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )
    request = {**ASKED, "budget": {"max_excerpt_tokens": 100}}
    expected = rote.retrieve(request, root=root, embedder=Lengths())
    assert ran.stdout.strip() == expected["package_hash"]

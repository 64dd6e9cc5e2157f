"""The golden cases of ranking: another program that follows the contract made them."""

import base64
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

import rote
from bench import recall
from rote.testing.naive_excerpts import naive_package_text
from rote.testing.naive_ranking import naive_rank
from rote.values import canonical

FOLDER = Path(__file__).with_name("ranking") / "cases"
CASES = sorted(FOLDER.glob("*.json"))


class KnownVectors:
    """An embedder that knows the vectors of a few texts."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.name: str = case["name"]
        self.version: str = case["version"]
        self.dimension: int = case["dimension"]
        self._vectors = case["vectors"]

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._vectors[text] for text in texts]


def write_files(case: dict[str, Any], root: Path) -> None:
    for name, data in case["files"].items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(base64.b64decode(data))


def test_there_are_all_cases() -> None:
    assert len(CASES) == 24


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_plain_reference_gives_the_bytes_of_a_case(path: Path, tmp_path: Path) -> None:
    case = orjson.loads(path.read_bytes())
    write_files(case, tmp_path)
    embedder = KnownVectors(case["embedder"]) if "embedder" in case else None
    package = naive_rank(case["request"], tmp_path, embedder=embedder)
    dropped = package["selection"].pop("dropped")
    assert package == case["package"]
    assert canonical(package) == canonical(case["package"])
    assert dropped == case["dropped"]
    assert naive_package_text(package) == case["text"]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_retrieve_gives_the_bytes_of_a_case(path: Path, tmp_path: Path) -> None:
    case = orjson.loads(path.read_bytes())
    embedder = KnownVectors(case["embedder"]) if "embedder" in case else None
    write_files(case, tmp_path)
    package = rote.retrieve(case["request"], root=tmp_path, embedder=embedder)
    assert canonical(package) == canonical(case["package"])
    full = rote.retrieve(case["request"], root=tmp_path, dropped="full", embedder=embedder)
    assert full["selection"].pop("dropped") == case["dropped"]
    assert full == package
    assert rote.receipt(package) == case["receipt"]
    assert rote.receipt(package, case["request"]) == case["receipt"]
    assert rote.package_text(package) == case["text"]


@pytest.mark.parametrize("name", ["phase6", "lexical-alone", "lexical"])
def test_the_development_set_gives_the_figures_of_the_contract(name: str) -> None:
    """Shares at 50, 100 and 250 tokens, with as many digits as the contract prints."""
    policy, scoring, _ = recall.FIGURES[name]
    expected = {
        "phase6": "0.13 0.22 0.36",
        "lexical-alone": "0.46 0.55 0.67",
        "lexical": "0.5733 0.7833 0.9067",
    }[name].split()
    answer = partial(recall.answer, policy=policy, scoring=scoring)
    shares = [recall.share_of(answer, tokens) for tokens in (50, 100, 250)]
    assert [
        f"{share:.{len(figure) - 2}f}" for share, figure in zip(shares, expected, strict=True)
    ] == expected

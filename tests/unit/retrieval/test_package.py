"""The package and its receipt."""

import pickle
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.errors import InvalidInput
from rote.testing.naive_retrieval import naive_retrieve
from rote.values import canonical, decode

REQUEST: dict[str, Any] = {
    "query": "  Deploy \n KEYS ",
    "store_paths": ["./b.jsonl", "a.jsonl", "empty.jsonl"],
    "budget": {"max_excerpt_tokens": 4},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a.jsonl").write_bytes(
        b'{"memory_id":"1","text":" rotate deploy keys ","tags":["Keys"]}\n'
        b'{"memory_id":"2","text":"deploy on fridays"}\n'
    )
    (tmp_path / "b.jsonl").write_bytes(b'{"memory_id":"3","text":"nothing"}\n')
    (tmp_path / "empty.jsonl").write_bytes(b"\n \r\n")
    return tmp_path


def test_a_small_package_written_by_hand(root: Path) -> None:
    """There are two terms: both in the first text, one of them a tag. The second text does not fit."""
    package = rote.retrieve(REQUEST, root=root)
    expected: dict[str, Any] = {
        "query": {
            "raw": "  Deploy \n KEYS ",
            # SHA-256 of "deploy keys"
            "query_hash": "24681aed870f38b17fdf9b8162a403af2eea4205fa319b5a72729129af5a9d7a",
        },
        "budget": {
            "max_excerpt_tokens": 4,
            "used_excerpt_tokens": 4,
            "remaining_excerpt_tokens": 0,
            "per_item_max_excerpt_tokens": 4,
            "max_items": 50,
        },
        "selection": {
            "selected": [
                {
                    "memory_id": "1",
                    "record_hash": rote.digest(
                        {
                            "memory_id": "1",
                            "refs": [],
                            "tags": ["keys"],
                            "text": " rotate deploy keys ",
                            "ts_utc": None,
                        }
                    ),
                    "store_path": "a.jsonl",
                    "score": 2.5,
                    "excerpt": "rotate deploy ke",
                    "excerpt_tokens": 4,
                }
            ],
            "dropped": [
                {
                    "memory_id": id,
                    "record_hash": rote.digest(
                        {"memory_id": id, "refs": [], "tags": [], "text": text, "ts_utc": None}
                    ),
                    "store_path": path,
                    "reason": "budget_exhausted",
                }
                for id, text, path in (
                    ("2", "deploy on fridays", "a.jsonl"),
                    ("3", "nothing", "b.jsonl"),
                )
            ],
        },
        "controller_version": "phase6-v1",
    }
    assert package == {**expected, "package_hash": rote.digest(expected)}


def test_a_receipt_tells_nothing_of_what_came_back(root: Path) -> None:
    package = rote.retrieve(REQUEST, root=root)
    assert rote.receipt(package) == {
        "kind": "memory.read",
        "data": {
            "query_hash": package["query"]["query_hash"],
            "store_paths": ["a.jsonl", "b.jsonl"],
            "selected_count": 1,
            "package_hash": package["package_hash"],
        },
    }
    assert rote.receipt(pickle.loads(pickle.dumps(package))) == rote.receipt(package)


def test_a_package_is_plain_data_whose_hash_anyone_can_make(root: Path) -> None:
    package = rote.retrieve(REQUEST, root=root)
    assert type(package) is dict
    hash = package.pop("package_hash")
    assert rote.digest(package) == hash


def test_a_receipt_is_the_same_however_the_dropped_are_told_and_wherever_it_is_made(
    root: Path,
) -> None:
    """The receipt was made of what the process remembered of its retrievals."""
    packages = [rote.retrieve(REQUEST, root=root, dropped=told) for told in ("full", "counts")]
    others: list[Any] = [decode(canonical(package)) for package in packages]
    first = rote.receipt(packages[0])
    rote.retrieve({**REQUEST, "store_paths": ["a.jsonl", "b.jsonl"]}, root=root)
    assert [rote.receipt(package) for package in (*packages, *others)] == [first] * 4


def test_a_receipt_with_the_request_names_every_store_that_was_asked(root: Path) -> None:
    """A store without records leaves no mark in a package."""
    (root / "empty.jsonl").write_bytes(b"")
    request: dict[str, Any] = {**REQUEST, "store_paths": ["empty.jsonl", "./b.jsonl", "a.jsonl"]}
    for told in ("full", "counts"):
        package = rote.retrieve(request, root=root, dropped=told)
        assert rote.receipt(package)["data"]["store_paths"] == ["a.jsonl", "b.jsonl"]
        data = rote.receipt(package, request)["data"]
        assert data.pop("store_paths") == ["a.jsonl", "b.jsonl", "empty.jsonl"]
        assert data.items() <= rote.receipt(package)["data"].items()


def test_a_receipt_with_another_request_is_refused(root: Path) -> None:
    package = rote.retrieve(REQUEST, root=root)
    others: list[Any] = [{**REQUEST, "query": "another"}, {}, 5, {**REQUEST, "more": 1}]
    for request in others:
        with pytest.raises(InvalidInput):
            rote.receipt(package, request)


@pytest.mark.parametrize("package", [None, {}, {"selection": 5}, {"selection": {"selected": 1}}])
def test_a_receipt_needs_a_package(package: Any) -> None:
    with pytest.raises(InvalidInput):
        rote.receipt(package)
    with pytest.raises(InvalidInput):
        rote.receipt(package, REQUEST)


def test_what_comes_back_is_the_callers_own(root: Path) -> None:
    first = rote.retrieve(REQUEST, root=root)
    first["selection"]["dropped"].clear()
    first["selection"]["selected"][0]["excerpt"] = "changed"
    second = rote.retrieve(REQUEST, root=root)
    assert second["selection"]["selected"][0]["excerpt"] == "rotate deploy ke"
    assert len(second["selection"]["dropped"]) == 2


def test_as_many_terms_as_a_query_can_hold_are_counted(tmp_path: Path) -> None:
    """Each term takes two characters and a blank; the last is one that becomes two in lower case."""
    words = [
        chr(0x4E00 + number // 1_000) + chr(0x5E00 + number % 1_000) for number in range(21_845)
    ]
    query = " ".join([*words, "İ"])
    line = canonical({"memory_id": "all", "text": query, "tags": [*words, "İ"]})
    (tmp_path / "s.jsonl").write_bytes(line)
    request = {"query": query, "store_paths": ["s.jsonl"], "budget": {"max_excerpt_tokens": 1}}
    (item,) = rote.retrieve(request, root=tmp_path)["selection"]["selected"]
    assert item["score"] == 21_846 * 1.5


@pytest.mark.parametrize("count", [84, 85, 200])
def test_a_question_of_many_terms_is_answered_as_plainly(tmp_path: Path, count: int) -> None:
    """Scores that do not fit into a byte are computed in another way."""
    terms = [f"t{number}" for number in range(count)]
    lines = [
        canonical({"memory_id": str(size), "text": " ".join(terms[:size]), "tags": terms[:size]})
        for size in range(0, count + 1, 7)
    ]
    (tmp_path / "s.jsonl").write_bytes(b"\n".join(lines))
    request = {
        "query": "t0",
        "store_paths": ["s.jsonl"],
        "budget": {"max_excerpt_tokens": 20},
        "scoring": {"query_terms": terms},
    }
    assert rote.retrieve(request, root=tmp_path) == naive_retrieve(request, tmp_path)

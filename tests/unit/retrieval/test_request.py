"""The same bad request always gives the same error, and the first check that fails decides."""

import os
from pathlib import Path
from typing import Any

import pytest

import rote
from rote.errors import InvalidInput, NotFound, RoteError

GOOD: dict[str, Any] = {
    "query": "what",
    "store_paths": ["store.jsonl"],
    "budget": {"max_excerpt_tokens": 10},
}
# Each row spoils a part that is checked later than that of the row before it.
BAD: list[tuple[str, dict[str, Any]]] = [
    ("invalid_input", {"unknown": 1}),
    ("invalid_query", {"query": None}),
    ("invalid_query", {"query": " \n"}),
    ("invalid_query", {"query": 5}),
    ("invalid_query", {"query": "\ud800"}),
    ("invalid_query", {"query": "x" * 70_000}),
    ("invalid_store_paths", {"store_paths": None}),
    ("invalid_store_paths", {"store_paths": []}),
    ("invalid_store_paths", {"store_paths": "store.jsonl"}),
    ("invalid_store_paths", {"store_paths": [""]}),
    ("invalid_store_paths", {"store_paths": ["a\0b"]}),
    ("invalid_store_paths", {"store_paths": [True]}),
    ("invalid_store_paths", {"store_paths": ["rote:notes"]}),
    ("invalid_budget", {"budget": None}),
    ("invalid_budget", {"budget": []}),
    ("invalid_budget", {"budget": {}}),
    ("invalid_budget", {"budget": {"max_excerpt_tokens": 0}}),
    ("invalid_budget", {"budget": {"max_excerpt_tokens": True}}),
    ("invalid_budget", {"budget": {"max_excerpt_tokens": 1.0}}),
    ("invalid_budget", {"budget": {"max_excerpt_tokens": 2**63}}),
    ("invalid_budget", {"budget": {"max_excerpt_tokens": 1, "max_items": 0}}),
    ("invalid_budget", {"budget": {"max_excerpt_tokens": 1, "per_item_max_excerpt_tokens": -1}}),
    ("invalid_input", {"budget": {"max_excerpt_tokens": 1, "tokens": 1}}),
    ("invalid_scoring", {"scoring": []}),
    ("invalid_scoring", {"scoring": {"enable_recency_weight": 1}}),
    ("invalid_scoring", {"scoring": {"recency_half_life_days": 0}}),
    ("invalid_scoring", {"scoring": {"recency_half_life_days": 0.5}}),
    ("invalid_scoring", {"scoring": {"enable_tag_overlap": "yes"}}),
    ("invalid_scoring", {"scoring": {"query_terms": "what"}}),
    ("invalid_scoring", {"scoring": {"query_terms": [1]}}),
    ("invalid_input", {"scoring": {"weights": 1}}),
    ("invalid_trust_filter", {"trust_filter": "malicious"}),
    ("invalid_trust_filter", {"trust_filter": {"deny_classifications": "malicious"}}),
    ("invalid_trust_filter", {"trust_filter": {"deny_classifications": [None]}}),
    ("invalid_trust_filter", {"trust_filter": {"trust_snapshot_path": ""}}),
    ("invalid_input", {"trust_filter": {"snapshot": "x"}}),
    ("invalid_now_utc", {"now_utc": "now"}),
    ("invalid_now_utc", {"now_utc": 5}),
    ("invalid_now_utc", {"now_utc": "2026-02-30"}),
    ("store_not_found", {"store_paths": ["store.jsonl", "missing.jsonl"]}),
    ("store_not_found", {"store_paths": ["store.jsonl/x"]}),
    ("store_not_found", {"store_paths": ["x" * 5_000]}),
    ("store_not_found", {"store_paths": ["loop"]}),
    ("store_not_found", {"store_paths": ["./rote:notes"]}),
    ("store_not_a_file", {"store_paths": ["."]}),
    ("store_not_a_file", {"store_paths": ["pipe"]}),
    ("trust_snapshot_not_found", {"trust_filter": {"trust_snapshot_path": "missing.json"}}),
    ("trust_snapshot_not_found", {"trust_filter": {"trust_snapshot_path": "store.jsonl/x"}}),
    ("trust_snapshot_invalid", {"trust_filter": {"trust_snapshot_path": "."}}),
    ("trust_snapshot_invalid", {"trust_filter": {"trust_snapshot_path": "pipe"}}),
    ("trust_snapshot_invalid", {"trust_filter": {"trust_snapshot_path": "store.jsonl"}}),
    ("trust_snapshot_invalid", {"trust_filter": {"trust_snapshot_path": "no-names.json"}}),
    ("trust_snapshot_invalid", {"trust_filter": {"trust_snapshot_path": "no-class.json"}}),
    ("trust_snapshot_invalid", {"trust_filter": {"trust_snapshot_path": "number.json"}}),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "store.jsonl").write_bytes(b'{"memory_id":"a","text":"what"}\nnot json\n')
    for name, entry in {
        "no-names": b'{"classification":"malicious"}',
        "no-class": b'{"memory_id":"a"}',
        "number": b'{"memory_id":"a","record_hash":1,"classification":"malicious"}',
    }.items():
        (tmp_path / f"{name}.json").write_bytes(b'{"classifications":[' + entry + b"]}")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def fails(request: Any, root: Path) -> RoteError:
    with pytest.raises(RoteError) as caught:
        rote.retrieve(request, root=root)
    return caught.value


@pytest.mark.parametrize("number", range(len(BAD)))
def test_a_bad_request_has_its_code(number: int, root: Path) -> None:
    code, spoiled = BAD[number]
    first, second = fails({**GOOD, **spoiled}, root), fails({**GOOD, **spoiled}, root)
    assert first.code == code
    assert (type(first), str(first), first.details) == (type(second), str(second), second.details)
    kind = NotFound if code.endswith("not_found") else InvalidInput
    assert type(first) is kind


def test_the_first_check_that_fails_decides(root: Path) -> None:
    """Spoiling the next part as well changes nothing."""
    parts = ("query", "store_paths", "budget", "scoring", "trust_filter", "now_utc")
    single = [
        (code, spoiled)
        for code, spoiled in BAD
        if code != "invalid_input" and not code.startswith(("store_", "trust_snapshot"))
    ]
    for code, spoiled in single:
        (part,) = spoiled
        for later_code, later in BAD:
            (other,) = later
            if other in parts and parts.index(other) > parts.index(part):
                assert fails({**GOOD, **later, **spoiled}, root).code == code, (spoiled, later)
                assert later_code


def test_stores_are_looked_for_before_the_snapshot(root: Path) -> None:
    request = {
        **GOOD,
        "store_paths": ["missing.jsonl"],
        "trust_filter": {"trust_snapshot_path": "missing.json"},
    }
    assert fails(request, root).code == "store_not_found"


def test_the_first_missing_store_is_named(root: Path) -> None:
    error = fails({**GOOD, "store_paths": ["z.jsonl", "b.jsonl", "store.jsonl"]}, root)
    assert error.details["store_path"] == "b.jsonl"


@pytest.mark.parametrize("request_", [None, [], "query", 5])
def test_a_request_is_an_object(request_: Any, root: Path) -> None:
    assert fails(request_, root).code == "invalid_input"


def test_null_is_absent(root: Path) -> None:
    nulls = {
        **GOOD,
        "budget": {
            "max_excerpt_tokens": 10, "per_item_max_excerpt_tokens": None, "max_items": None
        },
        "scoring": None,
        "trust_filter": {"deny_classifications": None, "trust_snapshot_path": None},
        "now_utc": None,
    }  # fmt: skip
    assert rote.retrieve(nulls, root=root) == rote.retrieve(GOOD, root=root)


@pytest.mark.parametrize("bad", [5, None, b"/", "", "a\0b", "\ud800"])
def test_a_root_is_a_path(bad: Any) -> None:
    with pytest.raises(InvalidInput, match="root must be"):
        rote.retrieve(GOOD, root=bad)


def test_a_file_that_is_called_like_a_space_is_read_as_a_file(root: Path) -> None:
    """The path lost the ./ that tells it from a space, so a store was asked for a space of that name."""
    (root / "rote:notes").write_bytes(b'{"memory_id":"a","text":"what"}')
    with rote.open(":memory:") as store:
        for path in ("./rote:notes", "x/../rote:notes"):
            package = rote.retrieve({**GOOD, "store_paths": [path]}, root=root, store=store)
            (item,) = package["selection"]["selected"]
            assert item["store_path"] == "./rote:notes"
            (again,) = rote.retrieve(
                {**GOOD, "store_paths": [item["store_path"]]}, root=root, store=store
            )["selection"]["selected"]
            assert again == item


@pytest.mark.parametrize("dropped", ["none", False, 1])
def test_dropped_is_full_or_counts(dropped: Any, root: Path) -> None:
    with pytest.raises(InvalidInput, match="full, counts"):
        rote.retrieve(GOOD, root=root, dropped=dropped)
